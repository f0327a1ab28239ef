export const MINUTE_MS = 60_000
export const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
const SHANGHAI_MS = 8 * HOUR_MS

/** Milliseconds until midnight in China, by which its providers count days. China has no daylight saving time. */
export function untilMidnightInChina(wallMs: number): number {
  return DAY_MS - ((wallMs + SHANGHAI_MS) % DAY_MS)
}

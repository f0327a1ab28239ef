import type { SendLimitOptions } from '../plugin/index.js'

/** Milliseconds of a clock that never steps, and of the wall clock. */
export type Clock = NonNullable<SendLimitOptions['clock']>

/** An instant by both clocks. */
export interface Instant {
  monotonic: number
  wall: number
}

export const systemClock: Clock = { monotonic: () => performance.now(), wall: () => Date.now() }

/** As answers tell a time: ISO 8601, UTC. @param ms since the epoch */
export const iso = (ms: number) => new Date(ms).toISOString()

export function instantIn(ms: number, clock: Clock): Instant {
  return { monotonic: clock.monotonic() + ms, wall: clock.wall() + ms }
}

/**
 * Milliseconds until then; 0 or less: it is over, by one clock at least. While a machine is suspended, the one that never
 * steps stands still; the other may be set back.
 */
export function msUntil({ monotonic, wall }: Instant, clock: Clock): number {
  return Math.min(monotonic - clock.monotonic(), wall - clock.wall())
}

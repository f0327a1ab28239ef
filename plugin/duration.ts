import { wrongOption } from './mistakes.js'

const MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
const FORM = /^(\d{1,11})(?:\.(\d{1,9}))?(ms|s|m|h|d|w)$/

/** The longest duration that is accepted: 366 days, in ms. */
export const MAX_DURATION = 366 * MS.d

/**
 * Milliseconds of a duration, or undefined when it is none.
 *
 * A duration is a whole number of ms, or a string of a number and one unit: "500ms", "60s", "5m", "1h",
 * "30d", "2w" (d is 24 hours, w is 7 d). Decimals are allowed where a whole number of ms results ("1.5h").
 * It is more than 0 and at most 366 days.
 */
export function parseDuration(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? fromText(value) : value
  return typeof ms === 'number' && Number.isInteger(ms) && ms > 0 && ms <= MAX_DURATION ? ms : undefined
}

function fromText(text: string): number | undefined {
  const parts = FORM.exec(text)
  if (parts === null) return undefined
  const [, whole = '', decimals = '', unit] = parts
  const size = MS[unit as keyof typeof MS]
  // In integers, since 1.001 * 1000 is not 1001 in floating point.
  const scaled = BigInt(whole + decimals) * BigInt(size)
  const scale = 10n ** BigInt(decimals.length)
  return scaled % scale === 0n ? Number(scaled / scale) : undefined
}

/**
 * The duration as a person would write it, exactly: the largest unit of d, h, m, s, ms of which it is a whole
 * number and more than one. One alone is written in the next smaller unit ("24h", "60s"), save for "1h", "1s"
 * and "1ms".
 *
 * @param ms a duration as `parseDuration` gives it
 */
export function formatDuration(ms: number): string {
  if (ms >= 2 * MS.d && ms % MS.d === 0) return `${ms / MS.d}d`
  if (ms >= MS.h && ms % MS.h === 0) return `${ms / MS.h}h`
  if (ms >= 2 * MS.m && ms % MS.m === 0) return `${ms / MS.m}m`
  if (ms >= MS.s && ms % MS.s === 0) return `${ms / MS.s}s`
  return `${ms}ms`
}

/** Milliseconds of a duration that stands in an option. @throws OptionError */
export function durationAt(value: unknown, at: string): number {
  const ms = parseDuration(value)
  if (ms === undefined)
    throw wrongOption(
      at,
      value,
      'Write a duration such as "60s", "5m", "1h", "24h", "30d", or whole milliseconds; at most 366 days.'
    )
  return ms
}

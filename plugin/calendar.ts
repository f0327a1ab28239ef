import { Temporal } from 'temporal-polyfill'

export const PERIODS = ['hour', 'day', 'week', 'month'] as const
export type Period = (typeof PERIODS)[number]
/** Starts of four periods in a row, in ms since the epoch: previous, current, next, the one after. */
type Boundaries = readonly [number, number, number, number]

const HOUR = 3_600_000
/**
 * How many zones are cached for each kind of period: more than exist, some 600 with all their names. To compute one
 * takes 60 µs.
 */
const MAX_ZONES = 1_000
const DATED = {
  day: { step: 'days', first: (date: Temporal.PlainDate) => date },
  week: { step: 'weeks', first: (date: Temporal.PlainDate) => date.subtract({ days: date.dayOfWeek - 1 }) },
  month: { step: 'months', first: (date: Temporal.PlainDate) => date.with({ day: 1 }) }
} as const

const zoned = (at: number, timeZone: string) =>
  Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)

const sinceFullHour = (time: Temporal.ZonedDateTime) =>
  time.minute * 60_000 + time.second * 1_000 + time.millisecond

/** The last instant up to `at` at which the local clock read a full hour. */
function hourStart(at: number, timeZone: string): number {
  const here = zoned(at, timeZone)
  const start = at - sinceFullHour(here)
  if (zoned(start, timeZone).offsetNanoseconds === here.offsetNanoseconds) return start
  // The clock was set in between, perhaps by half an hour: count back from there, on the old offset.
  const set = here.add({ milliseconds: 1 }).getTimeZoneTransition('previous') as Temporal.ZonedDateTime
  return hourStart(set.epochMilliseconds - 1, timeZone)
}

function nextHour(start: number, timeZone: string): number {
  let next = start
  for (let step = HOUR; next === start; step += HOUR) next = hourStart(start + step, timeZone)
  return next
}

function hours(timeZone: string, at: number): Boundaries {
  const start = hourStart(at, timeZone)
  const next = nextHour(start, timeZone)
  return [hourStart(start - 1, timeZone), start, next, nextHour(next, timeZone)]
}

function dated(per: Exclude<Period, 'hour'>, timeZone: string, at: number): Boundaries {
  const { first, step } = DATED[per]
  const date = first(zoned(at, timeZone).toPlainDate())
  // Spare ones on both sides: a zone that crossed the date line skips a date (Samoa, 30 December 2011),
  // and one that sets its clock back at 00:01 has already begun the next date (Newfoundland until 2011).
  const starts = [-2, -1, 0, 1, 2, 3, 4]
    .map(n => date.add({ [step]: n }).toZonedDateTime(timeZone).epochMilliseconds)
    .filter((start, i, all) => i === 0 || start > (all[i - 1] as number))
  const current = starts.findLastIndex(start => start <= at)
  return starts.slice(current - 1, current + 3) as unknown as Boundaries
}

const cache: Record<Period, Map<string, Boundaries>> = {
  hour: new Map(),
  day: new Map(),
  week: new Map(),
  month: new Map()
}

/**
 * Starts of the previous period, of the one that holds `at`, of the next and of the one after. Periods
 * partition time: each ends where the next one starts.
 *
 * - day: from the first instant of the local date, which is not 00:00 where the clock skips midnight.
 *   Where the clock is set back over midnight, the new date begins once, with its first instant.
 * - week: from Monday (ISO 8601). month: from the 1st.
 * - hour: from each instant at which the local clock reads a full hour to the next such instant. A
 *   repeated hour is a period of its own. A shift by half an hour makes one hour of 30 or 90 minutes.
 *
 * The current period is cached per zone, so that a call within it costs a look-up and two comparisons.
 *
 * @param timeZone a name for which `isTimeZone` holds
 * @param at ms since the epoch
 * @throws RangeError when the zone is unknown or `at` is no time
 */
export function boundaries(per: Period, timeZone: string, at: number): Boundaries {
  const zones = cache[per]
  const known = zones.get(timeZone)
  if (known !== undefined && at >= known[1] && at < known[2]) return known
  const instant = Math.floor(at)
  const found = per === 'hour' ? hours(timeZone, instant) : dated(per, timeZone, instant)
  if (known === undefined && zones.size >= MAX_ZONES) zones.delete(zones.keys().next().value as string)
  zones.set(timeZone, Object.freeze(found))
  return found
}

const MAX_NAMES = 1_000
const names = new Set<string>()

/**
 * Whether the calendar knows a time zone by this name (IANA). An offset such as "+08:00" is no name, and neither are
 * those of three letters that ICU alone knows (JST, IST).
 */
export function isTimeZone(name: unknown): name is string {
  if (typeof name !== 'string' || !/^[A-Za-z]/.test(name)) return false
  if (names.has(name)) return true
  try {
    zoned(0, name)
  } catch {
    return false
  }
  // Remembered, since each request may ask; bounded, since a name has many spellings.
  if (names.size >= MAX_NAMES) names.clear()
  names.add(name)
  return true
}

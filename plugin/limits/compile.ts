import { conform } from '../conform.js'
import { durationAt } from '../duration.js'
import { wrongOption } from '../mistakes.js'
import {
  type Amount,
  CalendarLimit,
  type Limit,
  type MaxFunction,
  RollingLimit,
  type TimeZoneFunction
} from '../rule.js'
import type { CountSpec, DistinctSpec, LogSpec, Spec } from '../store/store.js'
import { compileMax, compileTimeZone, isRequestValue } from './from-request.js'
import { LOCK_MAX_MS } from './lock.js'

/** The log of a larger rolling `max` would cost too much; calendar limits count any number. */
const ROLLING_MAX = 1_000
/** The highest `max` of different values: each value keeps a stamp or more. */
const DISTINCT_MAX = 100
export const CALENDAR_MAX = 10 ** 12
const LOCK_MIN_MS = 100
/** How long a calendar period is said to be, in milliseconds: a month is 30 days. Its end comes from the calendar. */
const PERIOD_MS = { hour: 3_600_000, day: 86_400_000, week: 604_800_000, month: 2_592_000_000 }
/**
 * How long a count lives at most, in milliseconds: its period at its longest, when the clocks go back in it. That adds
 * half an hour to an hour (Lord Howe Island), and up to three hours to the longer periods (Casey, 2023).
 */
const PERIOD_TTL = { hour: 5_400_000, day: 97_200_000, week: 615_600_000, month: 2_689_200_000 }

/** Names and numbers one thing that a rule keeps. The suffix ends the name of its keys. */
type Named = (
  suffix: string
) => Pick<Spec, 'name' | 'rule' | 'series' | 'observed' | 'forgettable' | 'inForce'>
/** One thing that a rule keeps, and the `max` of each of its limits as it was given. */
interface Structure {
  spec: Spec
  max: readonly (number | MaxFunction)[]
  timeZone?: TimeZoneFunction | undefined
}

/**
 * All rolling limits of a rule share one log; each calendar limit has a count.
 * @param distinct whether different values are counted; then all are rolling
 * @throws OptionError with the path of the mistake
 */
export function compileLimits(
  limits: readonly Limit[],
  at: string,
  named: Named,
  distinct = false
): Structure[] {
  const rolling: Rolling[] = []
  const counts: (Structure & { spec: CountSpec })[] = []
  for (const [i, limit] of limits.entries()) {
    const path = `${at}[${i}]`
    const { per, window: span } = (limit ?? {}) as { per?: unknown; window?: unknown }
    if (typeof limit === 'object' && limit !== null && (per === undefined) === (span === undefined)) {
      throw wrongOption(
        path,
        limit,
        'A limit has either a "window" (rolling) or a "per" (calendar: hour, day, week or month).'
      )
    }
    if (distinct && per !== undefined)
      throw wrongOption(`${path}.per`, per, 'Different values are counted only in a "window".')
    if (per === undefined) {
      const one = rollingLimit(limit, path, distinct ? DISTINCT_MAX : ROLLING_MAX)
      if (rolling.some(({ windowMs }) => windowMs === one.windowMs))
        throw wrongOption(`${path}.window`, span, 'Another limit of this rule has that window.')
      rolling.push(one)
    } else {
      const one = calendarLimit(limit, path, named)
      if (counts.some(({ spec }) => spec.per === one.spec.per))
        throw wrongOption(`${path}.per`, per, 'Another limit of this rule has that period.')
      counts.push(one)
    }
  }
  return rolling.length === 0 ? counts : [sharedLog(rolling, named, distinct), ...counts]
}

interface Rolling {
  max: number | MaxFunction
  ceiling: number
  windowMs: number
}

function rollingLimit(limit: unknown, path: string, most: number): Rolling {
  conform(RollingLimit, limit, path)
  const windowMs = durationAt(limit.window, `${path}.window`)
  return { max: compileMax(limit, path), ceiling: ceilingOf(limit, most, path), windowMs }
}

function calendarLimit(limit: unknown, path: string, named: Named): Structure & { spec: CountSpec } {
  conform(CalendarLimit, limit, path)
  const { per, timeZone = 'UTC' } = limit
  const zone = compileTimeZone(timeZone, `${path}.timeZone`)
  const spec: CountSpec = {
    ...named(`:${per}`),
    kind: 'count',
    per,
    timeZone: typeof zone === 'string' ? zone : 'UTC',
    ttl: PERIOD_TTL[per],
    limits: [{ max: ceilingOf(limit, CALENDAR_MAX, path), windowMs: PERIOD_MS[per] }]
  }
  return { spec, max: [compileMax(limit, path)], timeZone: typeof zone === 'string' ? undefined : zone }
}

/** The log that all rolling limits of a rule share. */
function sharedLog(rolling: readonly Rolling[], named: Named, distinct: boolean): Structure {
  const shared = {
    // Redis expires keys in whole milliseconds, and a stamp may be many ticks ahead of the clock (lua/README.md).
    ttl: Math.max(...rolling.map(each => each.windowMs)) + 2,
    limits: rolling.map(({ ceiling, windowMs }) => ({ max: ceiling, windowMs }))
  }
  const keep = Math.max(...rolling.map(each => each.ceiling))
  const spec: LogSpec | DistinctSpec = distinct
    ? { ...named(':distinct'), kind: 'distinct', ...shared }
    : { ...named(''), kind: 'log', keep, ...shared }
  return { spec, max: rolling.map(each => each.max) }
}

function ceilingOf({ max, ceiling }: Amount, most: number, at: string): number {
  const dynamic = typeof max === 'function' || isRequestValue(max)
  const value = dynamic ? ceiling : max
  const path = `${at}.${dynamic ? 'ceiling' : 'max'}`
  if (!dynamic && ceiling !== undefined) {
    if (typeof max === 'number')
      throw wrongOption(`${at}.ceiling`, ceiling, 'A ceiling goes with a "max" from the request.')
    throw wrongOption(path, max, 'With a ceiling write a function or { value: path }.')
  }
  if (Number.isInteger(value) && (value as number) > 0 && (value as number) <= most) return value as number
  const why = dynamic ? 'A "max" from the request needs a ceiling: write' : 'Write'
  const hint = most === ROLLING_MAX ? ' Count more than that with a calendar limit ("per").' : ''
  throw wrongOption(path, value, `${why} a whole number from 1 to ${most}.${hint}`)
}

/** @throws OptionError */
export function compileLock(lock: string | number, at: string, named: Named): Structure {
  const ttl = durationAt(lock, at)
  if (ttl < LOCK_MIN_MS || ttl > LOCK_MAX_MS) throw wrongOption(at, lock, 'A lock lives from 100 ms to 24h.')
  return { spec: { ...named(':lock'), kind: 'lock', ttl, limits: [{ max: 1, windowMs: ttl }] }, max: [1] }
}

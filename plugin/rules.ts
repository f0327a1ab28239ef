import { PERIODS, isTimeZone } from './calendar.js'
import { conform } from './conform.js'
import { parseDuration } from './duration.js'
import { wrongOption } from './errors.js'
import { type CompiledKey, compileKey, type IdentityOptions } from './identity/key.js'
import { CalendarLimit, type Limit, type MaxFunction, RollingLimit, type Rule, RuleSchema } from './options.js'
import { type CountSpec, type LockSpec, type LogSpec, type Spec, TICKS_PER_MS } from './store/store.js'

/** The log of a larger rolling `max` would cost too much; calendar limits count any number. */
export const ROLLING_MAX = 1_000
const CALENDAR_MAX = 2 ** 31
const LOCK_MIN_MS = 100
const LOCK_MAX_MS = 86_400_000
/** Without `maxHold` a lock is renewed for this many times its time to live. */
const HOLD_TIMES = 10
/** Longest time a count lives, in milliseconds: its period. */
const PERIOD_TTL = { hour: 3_600_000, day: 90_000_000, week: 608_400_000, month: 2_682_000_000 }

/** A rule, validated and ready to decide by. */
export interface CompiledRule {
  /** As the rule was given. */
  options: Rule
  name: string
  /** Unique in this process. */
  index: number
  counts: 'sends' | 'attempts' | 'failures'
  observed: boolean
  optional: boolean
  key: CompiledKey
  specs: readonly Spec[]
  /** Where a `max` is a function: for each spec, the `max` of each of its limits. */
  max: readonly (readonly (number | MaxFunction)[])[] | undefined
  /** How long a lock is renewed, in milliseconds. */
  maxHold: number
  allows: ((value: unknown) => boolean) | undefined
  blocks: ((value: unknown) => boolean) | undefined
}

/** Compiles rules for one limiter; numbers them, and what they keep in the store. */
export class RuleCompiler {
  private rules = 0
  private slots = 0

  constructor(private readonly identity: IdentityOptions) {}

  /**
   * @param at where the rule stands, for errors
   * @param owner what an inline rule belongs to, '' for a shared one
   * @throws OptionError with the path of the mistake
   */
  compile(rule: Rule, at: string, owner: string): CompiledRule {
    conform(RuleSchema, rule, at)
    const { name, counts = 'sends', mode, limits = [], lock } = rule
    if ((rule.limits === undefined) === (lock === undefined)) {
      throw wrongOption(at, rule, 'A rule has either "limits" or a "lock".')
    }
    if (lock !== undefined && counts !== 'sends') throw wrongOption(`${at}.counts`, counts, 'A lock goes with "sends".')
    const key = compileKey(rule.key, this.identity, `${at}.key`)
    if (counts === 'attempts' && key.body !== undefined) {
      throw wrongOption(`${at}.key`, key.body, 'Attempts are counted before the body is read; use the address, headers, query or params.')
    }
    const index = this.rules++
    const base = { rule: index, observed: mode === 'observe', forgettable: counts === 'attempts' }
    const named = (suffix: string) => ({ ...base, name: `${name}${owner}${suffix}`, slot: this.slots++ })
    const list = (of: 'allow' | 'block') => rule[of] && compileList(key, rule[of], `${at}.${of}`)
    const structures = lock === undefined
      ? limitSpecs(limits, `${at}.limits`, named)
      : [{ spec: lockSpec(lock, `${at}.lock`, named(':lock')), max: [1] }]
    return {
      options: rule,
      name,
      index,
      counts,
      observed: base.observed,
      optional: rule.optional ?? false,
      key,
      specs: structures.map(each => each.spec),
      max: structures.some(each => each.max.some(max => typeof max === 'function'))
        ? structures.map(each => each.max)
        : undefined,
      maxHold: hold(rule, structures[0]?.spec.ttl ?? 0, at),
      allows: list('allow'),
      blocks: list('block')
    }
  }
}

type Named = (suffix: string) => Pick<Spec, 'name' | 'rule' | 'slot' | 'observed' | 'forgettable'>
interface Structure {
  spec: Spec
  max: readonly (number | MaxFunction)[]
}

function limitSpecs(limits: readonly Limit[], at: string, named: Named): Structure[] {
  const rolling: { max: number | MaxFunction; ceiling: number; window: number }[] = []
  const counts: Structure[] = []
  for (const [i, limit] of limits.entries()) {
    const path = `${at}[${i}]`
    const { per: period, window: span } = (limit ?? {}) as { per?: unknown; window?: unknown }
    if (typeof limit === 'object' && limit !== null && (period === undefined) === (span === undefined)) {
      throw wrongOption(path, limit, 'A limit has either a "window" (rolling) or a "per" (calendar: hour, day, week or month).')
    }
    if (period !== undefined) {
      const { per, max, timeZone = 'UTC' } = conform(CalendarLimit, limit, path)
      if (!isTimeZone(timeZone)) throw wrongOption(`${path}.timeZone`, timeZone, 'Write an IANA time zone such as "Asia/Shanghai".')
      if (counts.some(each => (each.spec as CountSpec).per === per)) throw wrongOption(`${path}.per`, per, 'Another limit of this rule has that period.')
      const ceiling = ceilingOf(limit, CALENDAR_MAX, path)
      const spec: CountSpec = { ...named(`:${per}`), kind: 'count', per, timeZone, max: ceiling, ttl: PERIOD_TTL[per] }
      counts.push({ spec, max: [max] })
    } else {
      const window = duration(conform(RollingLimit, limit, path).window, `${path}.window`)
      if (rolling.some(each => each.window === window)) throw wrongOption(`${path}.window`, span, 'Another limit of this rule has that window.')
      rolling.push({ max: limit.max, ceiling: ceilingOf(limit, ROLLING_MAX, path), window })
    }
  }
  if (rolling.length === 0) return counts
  const spec: LogSpec = {
    ...named(''),
    kind: 'log',
    keep: Math.max(...rolling.map(each => each.ceiling)),
    // One millisecond more: a stamp may be a few ticks ahead of the clock.
    ttl: Math.max(...rolling.map(each => each.window)) + 1,
    limits: rolling.map(each => ({ max: each.ceiling, window: each.window * TICKS_PER_MS }))
  }
  return [{ spec, max: rolling.map(each => each.max) }, ...counts]
}

function ceilingOf({ max, ceiling }: Limit, most: number, at: string): number {
  const dynamic = typeof max === 'function'
  const value = dynamic ? ceiling : max
  const path = `${at}.${dynamic ? 'ceiling' : 'max'}`
  if (!dynamic && ceiling !== undefined) throw wrongOption(`${at}.ceiling`, ceiling, 'A ceiling goes with a "max" that is a function.')
  if (Number.isInteger(value) && (value as number) > 0 && (value as number) <= most) return value as number
  const why = dynamic ? 'A "max" that is a function needs a ceiling: write' : 'Write'
  const hint = most === ROLLING_MAX ? ' Count more than that with a calendar limit ("per").' : ''
  throw wrongOption(path, value, `${why} a whole number from 1 to ${most}.${hint}`)
}

function lockSpec(lock: string | number, at: string, named: ReturnType<Named>): LockSpec {
  const ttl = duration(lock, at)
  if (ttl < LOCK_MIN_MS || ttl > LOCK_MAX_MS) throw wrongOption(at, lock, 'A lock lives from 100 ms to 24h.')
  return { ...named, kind: 'lock', ttl }
}

function hold({ lock, maxHold }: Rule, ttl: number, at: string): number {
  if (maxHold === undefined) return ttl * HOLD_TIMES
  const ms = duration(maxHold, `${at}.maxHold`)
  if (lock === undefined || ms < ttl) throw wrongOption(`${at}.maxHold`, maxHold, 'It goes with a "lock", and is at least as long.')
  return ms
}

function duration(value: unknown, at: string): number {
  const ms = parseDuration(value)
  if (ms === undefined) throw wrongOption(at, value, 'Write a duration such as "60s", "5m", "1h", "24h", "30d", or whole milliseconds; at most 366 days.')
  return ms
}

function compileList(key: CompiledKey, values: readonly string[], at: string): (value: unknown) => boolean {
  const [part, ...others] = key.parts
  if (part === undefined || others.length > 0) throw wrongOption(at, values, 'Only a key of one part can have a list.')
  return part.list(values, at)
}

export { PERIODS }

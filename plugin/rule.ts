import { PERIODS, type Period } from './calendar.js'
import type { Key, OfRequest } from './key.js'
import { Duration, isFunction, Name, object } from './schemas.js'

/** Returns how many this request's identity may send, from 0 to the limit's `ceiling`; not async. */
export type MaxFunction = OfRequest<number>
/** Returns how much this request takes of the limits of its rule, above 0; not async. */
export type CostFunction = OfRequest<number>
/** Returns the IANA time zone of this request's calendar, always the same one for an identity; not async. */
export type TimeZoneFunction = OfRequest<string>
/** Returns whether this request passes the rule uncounted; not async. */
export type AllowFunction = OfRequest<boolean>
/** Returns whether headers hide from this request what is left of the rule; not async. */
export type PrivateFunction = OfRequest<boolean>
/** A path to what a hook has put on the request, in place of a function: `{ value: "request.account.dailyQuota" }`. */
export interface RequestValue {
  value: string
}
export const RequestPath = object<RequestValue>(
  { value: { type: 'string', description: 'a path such as "request.account.quota"' } },
  { value: true }
)

interface Fixed {
  /** How many: 1 to 1,000 with a `window`, to 100 with `distinct`, to 1,000,000,000,000 with `per`. */
  max: number
  ceiling?: undefined
}
interface FromRequest {
  /** How many, by the request. The number is rounded down and held between 0 and the `ceiling`. */
  max: MaxFunction | RequestValue
  /** The most that `max` may be. The same bounds hold for it as for a fixed `max`. */
  ceiling: number
}
interface Rolling {
  /** In any span of this length: such as `"60s"`, `"1h"` or `"30d"`, or milliseconds; at most 366 days. */
  window: string | number
}
interface Calendar {
  /** In each hour, day, week (from Monday) or month of the calendar. */
  per: Period
  /** The IANA time zone of the calendar; `UTC` by default. */
  timeZone?: string | TimeZoneFunction | RequestValue
}
type Span = (Rolling & { per?: undefined; timeZone?: undefined }) | (Calendar & { window?: undefined })
/** How many, how long. */
export type Limit = (Fixed | FromRequest) & Span

/** `max` and `ceiling` as the schemas check them: whether a `max` needs a `ceiling` is checked elsewhere. */
export type Amount = Pick<Fixed | FromRequest, 'max' | 'ceiling'>
const amount = {
  max: { description: 'a whole number from 1, or a function or { value: path } with a "ceiling"' },
  ceiling: {
    type: 'integer',
    minimum: 1,
    description: 'a whole number from 1, the most that a "max" from the request may be'
  }
}
const aLimit = 'an object such as { max: 5, window: "1h" } or { max: 100, per: "day" }'
export const RollingLimit = object<Amount & Rolling>(
  { ...amount, window: Duration },
  { max: true, window: true },
  aLimit
)
export const CalendarLimit = object<Amount & Calendar>(
  { ...amount, per: { enum: PERIODS }, timeZone: {} },
  { max: true, per: true },
  aLimit
)

interface RuleMembers {
  /**
   * The name of the rule in routes, answers, headers and its keys in Redis: 1 to 64 of `A-Za-z0-9_.-`, a letter or
   * digit first.
   */
  name: string
  /** Who the rule counts. */
  key: Key
  /**
   * What the rule counts: messages (`sends`, by default); every request that it admits, before the body is read
   * (`attempts`, never given back); or requests whose handler ends with 4xx (`failures`). A lock goes with `sends`
   * alone.
   */
  counts?: 'sends' | 'attempts' | 'failures'
  /** Whether the rule refuses (`enforce`, by default), or only reports what it would have refused (`observe`). */
  mode?: 'enforce' | 'observe'
  /** Whether the rule skips a request that lacks its key; `false` by default: such a request gets 400. */
  optional?: boolean
  /** Whether headers hide what is left of the rule, or a function that says so for a request; `false` by default. */
  private?: boolean | PrivateFunction
  /** Who passes uncounted: values of the key, or a function of the request. */
  allow?: readonly string[] | AllowFunction
  /** Values of the key that are refused, 403. */
  block?: readonly string[]
}
// Interfaces, not type aliases, so that the compiler names them where a rule is wrong.
/** Who, how many (or how many different), how long. */
export interface LimitRule extends RuleMembers {
  /** How many, how long: one for each window and each calendar period. Or else a `lock`. */
  limits: readonly Limit[]
  /**
   * How much a request takes of the limits, all of them `per` a calendar period; without it, each takes 1. So a rule
   * counts money, segments or recipients. The number is rounded up; it is above 0, and at most 1,000,000,000,000. A
   * request that costs more than a `max` is refused, with no time to wait.
   */
  cost?: CostFunction | RequestValue
  /** A second key: the rule counts how many different values it has, not how often messages are sent. */
  distinct?: Key
  lock?: undefined
  maxHold?: undefined
}
/** Who, one at a time. */
export interface LockRule extends RuleMembers {
  /** One request at a time for each key. The value is how long the lock holds after a crash: 100 ms to 24 h. */
  lock: string | number
  /** How long the lock is renewed at most; ten times `lock` by default. */
  maxHold?: string | number
  limits?: undefined
  cost?: undefined
  distinct?: undefined
}
/** Who, how many, how long; or who, one at a time. Plain data, except for functions. */
export type Rule = LimitRule | LockRule

export const RuleSchema = object<Pick<Rule, keyof Rule>>(
  {
    name: Name,
    key: {
      description: '"ip", "all", { phone, email, ip, value or digest: path }, a function, or a list of these'
    },
    limits: { type: 'array', minItems: 1, description: 'a list of at least one limit' },
    cost: {},
    distinct: { description: 'a key like "key", whose different values are counted' },
    lock: Duration,
    maxHold: Duration,
    counts: { enum: ['sends', 'attempts', 'failures'] },
    mode: { enum: ['enforce', 'observe'] },
    optional: { type: 'boolean' },
    private: {
      is: (value: unknown) => typeof value === 'boolean' || isFunction(value),
      description: 'true, false or a function'
    },
    allow: {},
    block: {}
  },
  { name: true, key: true },
  'an object such as { name: "ip", key: "ip", limits: [{ max: 1, window: "60s" }] }'
)
export const List = { type: 'array', description: 'a list of values; for addresses CIDR ranges, too' }
export const ListItem = { type: 'string', description: 'text' }

import { type Static, Type } from 'typebox'
import { PERIODS } from './calendar.js'
import type { Key, OfRequest } from './key.js'
import { Duration, Name, strict } from './schemas.js'

/** Answers how many this request's identity may send, from 0 to the limit's `ceiling`. */
export type MaxFunction = OfRequest<number>
/** Answers in which IANA time zone this request's identity has its days; always the same one for an identity. */
export type TimeZoneFunction = OfRequest<string>
/** Answers whether this request passes the rule uncounted. */
export type AllowFunction = OfRequest<boolean>
/** Answers whether headers keep silent to this request about what is left. */
export type PrivateFunction = OfRequest<boolean>
export const RequestPath = Type.Object(
  { value: Type.String({ description: 'a path such as "request.account.quota"' }) },
  strict
)
/** What hooks have put on the request, as data: `{ value: "request.account.dailyQuota" }`. */
export interface RequestValue extends Static<typeof RequestPath> {}

const Max = Type.Unsafe<number | MaxFunction | RequestValue>({
  description: 'a whole number from 1, or a function or { value: path } with a "ceiling"'
})
const Ceiling = Type.Optional(
  Type.Integer({
    minimum: 1,
    description: 'a whole number from 1, the most that a "max" from the request may be'
  })
)

const limit = {
  ...strict,
  description: 'an object such as { max: 5, window: "1h" } or { max: 100, per: "day" }'
}
export const RollingLimit = Type.Object(
  {
    max: Max,
    ceiling: Ceiling,
    /** In any span of this length: such as `"60s"`, `"1h"` or `"30d"`, or milliseconds; at most 366 days. */
    window: Duration
  },
  limit
)
export const CalendarLimit = Type.Object(
  {
    max: Max,
    ceiling: Ceiling,
    /** In each hour, day, week (from Monday) or month of the calendar. */
    per: Type.Enum(PERIODS),
    /** The IANA time zone of the calendar; `UTC` by default. */
    timeZone: Type.Optional(Type.Unsafe<string | TimeZoneFunction | RequestValue>({}))
  },
  limit
)
/** As the schemas have it: they leave open whether a `max` needs its `ceiling`. */
export type Amount = Pick<Static<typeof RollingLimit>, 'max' | 'ceiling'>
interface Fixed {
  /** How many: 1 to 1,000 with a `window`, any number with `per`. */
  max: number
  ceiling?: undefined
}
interface FromRequest {
  /** How many, by the request: a whole number is made of it, from 0 to the `ceiling`. */
  max: MaxFunction | RequestValue
  /** The most that `max` may be. */
  ceiling: number
}
interface Rolling extends Omit<Static<typeof RollingLimit>, keyof Amount> {}
interface Calendar extends Omit<Static<typeof CalendarLimit>, keyof Amount> {}
/** How many, how long. */
export type Limit = (Fixed | FromRequest) & (Rolling | Calendar)

const Private = Type.Refine(
  Type.Unsafe<boolean | PrivateFunction>({ description: 'true, false or a function' }),
  value => typeof value === 'boolean' || typeof value === 'function',
  () => 'must be true, false or a function'
)
export const List = Type.Immutable(
  Type.Array(Type.String({ description: 'text' }), {
    description: 'a list of values; for addresses CIDR ranges, too'
  })
)
export const RuleSchema = Type.Object(
  {
    /** What routes, answers and headers call it, and the names of its keys in Redis. 1 to 64 of `A-Za-z0-9_.-`. */
    name: Name,
    /** Who it counts. */
    key: Type.Unsafe<Key>({
      description: '"ip", "all", { phone, email, ip, value or digest: path }, a function, or a list of these'
    }),
    /** How many, how long: one for each window and each calendar period. Or else a `lock`. */
    limits: Type.Optional(
      Type.Immutable(
        Type.Array(Type.Unsafe<Limit>({}), { minItems: 1, description: 'a list of at least one limit' })
      )
    ),
    /** A key whose different values are counted, in place of how often. */
    distinct: Type.Optional(
      Type.Unsafe<Key>({ description: 'a key like "key", whose different values are counted' })
    ),
    /** One request at a time for each key; how long the lock holds after a crash, 100 ms to 24 h. */
    lock: Type.Optional(Duration),
    /** How long its lock is renewed at most; ten times `lock` by default. */
    maxHold: Type.Optional(Duration),
    /**
     * What it counts: messages (`sends`, by default), every request that it admits, before its body is read
     * (`attempts`, never given back), or requests answered 4xx (`failures`).
     */
    counts: Type.Optional(Type.Enum(['sends', 'attempts', 'failures'])),
    /** Whether it refuses (`enforce`, by default), or only reports what it would have refused (`observe`). */
    mode: Type.Optional(Type.Enum(['enforce', 'observe'])),
    /** Whether it leaves alone a request that lacks its key; `false` by default: 400. */
    optional: Type.Optional(Type.Boolean()),
    /** Whether headers never show what is left of it, or a function that says so of a request; `false` by default. */
    private: Type.Optional(Private),
    /** Who passes uncounted: values of the key, or a function of the request. */
    allow: Type.Optional(Type.Unsafe<readonly string[] | AllowFunction>({})),
    /** Values of the key that are refused, 403. */
    block: Type.Optional(Type.Unsafe<readonly string[]>({}))
  },
  {
    ...strict,
    description: 'an object such as { name: "ip", key: "ip", limits: [{ max: 1, window: "60s" }] }'
  }
)
type RuleMembers = Static<typeof RuleSchema>
// Interfaces, so that the compiler calls them by name where a rule is wrong.
/** Who, how many (or how many different), how long. */
export interface LimitRule
  extends Omit<RuleMembers, 'lock' | 'maxHold' | 'limits'>,
    Required<Pick<RuleMembers, 'limits'>> {
  lock?: undefined
  maxHold?: undefined
}
/** Who, one at a time. */
export interface LockRule
  extends Omit<RuleMembers, 'limits' | 'distinct' | 'lock'>,
    Required<Pick<RuleMembers, 'lock'>> {
  limits?: undefined
  distinct?: undefined
}
/** Who, how many, how long; or who, one at a time. Plain data, except for functions. */
export type Rule = LimitRule | LockRule

import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { PERIODS } from './calendar.js'
import type { Verdict } from './decision.js'
import type { LimitError } from './errors.js'
import type { RedisClient } from './store/client.js'
import type { Clock } from './store/memory.js'

type MaybePromise<T> = T | Promise<T>

/** Answers who a request counts for; undefined or null: nobody, as if the value were missing. */
export type KeyFunction = (
  request: FastifyRequest
) => MaybePromise<string | number | bigint | boolean | null | undefined>
/** Answers how many this request's identity may send, from 0 to the limit's `ceiling`. */
export type MaxFunction = (request: FastifyRequest) => number
/** Answers in which IANA time zone this request's identity has its days; always the same one for an identity. */
export type TimeZoneFunction = (request: FastifyRequest) => string
/** Answers whether this request passes the rule uncounted. */
export type AllowFunction = (request: FastifyRequest) => boolean
/** What hooks have put on the request, as data: `{ value: "request.account.dailyQuota" }`. */
export interface RequestValue {
  value: string
}

/** What a filter says; nothing at all means that it passes. */
export interface FilterResult {
  allowed: boolean
  /** With a refusal: when to come again, in milliseconds. Without it the answer is 403. */
  retryAfterMs?: number
  /** With a pass: takes back what the filter did, should the request be refused after all. */
  undo?: () => MaybePromise<void>
}

/** A check of one's own, run before the reservation, in the order it is named in. */
export interface Filter {
  name: string
  /** Runs once, before the server listens. */
  init?: () => MaybePromise<void>
  check: (request: FastifyRequest) => MaybePromise<FilterResult | undefined | void>
  /** Runs once, when the server closes. */
  close?: () => MaybePromise<void>
}

/** One decision, as `onDecision` and the diagnostics channel tell it. */
export interface DecisionEvent extends Verdict {
  /** Method and url of the route; null outside of routes. */
  route: string | null
  stage: 'attempts' | 'sends'
  /** The hashed identity of each rule that applied. */
  keys: Record<string, string>
  /** What decided: the store `memory` or `redis`, the `cache` of refusals, or `none` when it was allowed without one. */
  store: string
}

const strict = { additionalProperties: false }
const Name = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$',
  description: '1 to 64 letters, digits, "_", "." and "-", a letter or digit first'
})
const Path = Type.String({ description: 'a path such as "body.phone"' })
const Duration = Type.Union([Type.String(), Type.Number()], {
  description: 'a duration such as "60s", "5m", "1h", "24h", "30d", or milliseconds'
})
const Max = Type.Unsafe<number | MaxFunction | RequestValue>({
  description: 'a whole number from 1, or a function or { value: path } with a "ceiling"'
})
const Ceiling = Type.Optional(
  Type.Integer({
    minimum: 1,
    description: 'a whole number from 1, the most that a "max" from the request may be'
  })
)

export const keyParts = {
  phone: Type.Object({ phone: Path, region: Type.Optional(Type.String()) }, strict),
  email: Type.Object({ email: Path }, strict),
  ip: Type.Object({ ip: Path }, strict),
  value: Type.Object({ value: Path }, strict)
}
type ScalarPart = { [K in keyof typeof keyParts]: Static<(typeof keyParts)[K]> }[keyof typeof keyParts]
/** A digest's parts are values of any kind; a phone or an address among them is folded first. */
export const DigestPart = Type.Object(
  {
    digest: Type.Immutable(
      Type.Array(Type.Unsafe<string | ScalarPart>({}), {
        minItems: 1,
        description: 'a list of at least one path or part'
      })
    )
  },
  strict
)
export type KeyPart = 'ip' | 'all' | ScalarPart | Static<typeof DigestPart> | KeyFunction
/** Who a rule counts: one part, or several that count together. */
export type Key = KeyPart | readonly KeyPart[]

const limit = {
  ...strict,
  description: 'an object such as { max: 5, window: "1h" } or { max: 100, per: "day" }'
}
export const RollingLimit = Type.Object({ max: Max, ceiling: Ceiling, window: Duration }, limit)
export const CalendarLimit = Type.Object(
  {
    max: Max,
    ceiling: Ceiling,
    per: Type.Enum(PERIODS),
    timeZone: Type.Optional(Type.Unsafe<string | TimeZoneFunction | RequestValue>({}))
  },
  limit
)
export type Limit = Static<typeof RollingLimit> | Static<typeof CalendarLimit>

export const List = Type.Immutable(
  Type.Array(Type.String({ description: 'text' }), {
    description: 'a list of values; for addresses CIDR ranges, too'
  })
)
export const RuleSchema = Type.Object(
  {
    name: Name,
    key: Type.Unsafe<Key>({
      description: '"ip", "all", { phone, email, ip, value or digest: path }, a function, or a list of these'
    }),
    limits: Type.Optional(
      Type.Immutable(
        Type.Array(Type.Unsafe<Limit>({}), { minItems: 1, description: 'a list of at least one limit' })
      )
    ),
    distinct: Type.Optional(
      Type.Unsafe<Key>({ description: 'a key like "key": what different values are counted of' })
    ),
    lock: Type.Optional(Duration),
    maxHold: Type.Optional(Duration),
    counts: Type.Optional(Type.Enum(['sends', 'attempts', 'failures'])),
    mode: Type.Optional(Type.Enum(['enforce', 'observe'])),
    optional: Type.Optional(Type.Boolean()),
    private: Type.Optional(Type.Boolean()),
    allow: Type.Optional(Type.Unsafe<readonly string[] | AllowFunction>({})),
    block: Type.Optional(List)
  },
  {
    ...strict,
    description: 'an object such as { name: "ip", key: "ip", limits: [{ max: 1, window: "60s" }] }'
  }
)
type RuleMembers = Static<typeof RuleSchema>
/** Who, how many (or how many different), how long; or who, one at a time. Plain data, but for functions. */
export type Rule = Omit<RuleMembers, 'limits' | 'distinct' | 'lock' | 'maxHold'> &
  (
    | (Required<Pick<RuleMembers, 'limits'>> &
        Pick<RuleMembers, 'distinct'> & { lock?: undefined; maxHold?: undefined })
    | (Required<Pick<RuleMembers, 'lock'>> &
        Pick<RuleMembers, 'maxHold'> & { limits?: undefined; distinct?: undefined })
  )

/** A function by its looks; what it takes and answers, its type says. */
function Fn<T>() {
  return Type.Refine(
    Type.Unsafe<T>({ description: 'a function' }),
    value => typeof value === 'function',
    () => 'must be a function'
  )
}

const filterMembers = {
  name: Name,
  init: Type.Optional(Fn<Filter['init']>()),
  check: Fn<Filter['check']>(),
  close: Type.Optional(Fn<Filter['close']>())
}
export const FilterSchema = Type.Object(filterMembers, strict)
/** An object of a class has members of its own. */
export const FilterInstance = Type.Object(filterMembers)

function isClock(value: unknown): boolean {
  const { monotonic, wall } = (value ?? {}) as Partial<Clock>
  return typeof monotonic === 'function' && typeof wall === 'function'
}

export const OptionsSchema = Type.Object(
  {
    /** Rules that routes name; a rule named on several routes is one rule. */
    rules: Type.Optional(Type.Immutable(Type.Array(Type.Unsafe<Rule>({})))),
    /** Filters that routes name. */
    filters: Type.Optional(Type.Immutable(Type.Array(Type.Unsafe<Filter>({})))),
    /** Where limits are kept; `redis` when a `client` is given, else `memory`. */
    store: Type.Optional(Type.Enum(['memory', 'redis'])),
    /** An ioredis client; else the one that @fastify/redis registered is used. */
    client: Type.Optional(
      Type.Refine(
        Type.Unsafe<RedisClient>({ description: 'an ioredis client' }),
        value => typeof (value as RedisClient | null)?.evalsha === 'function',
        () => 'must be an ioredis client'
      )
    ),
    /** The namespace under which @fastify/redis registered the client. */
    namespace: Type.Optional(Type.String()),
    /** Begins the name of every Redis key; `sl:` by default. */
    prefix: Type.Optional(
      Type.String({ pattern: '^[^{}\\s]*$', description: 'text without braces and white space' })
    ),
    /** Hashes every identity; the same in all processes that share a Redis, and needed there. */
    secret: Type.Optional(
      Type.String({ minLength: 16, description: 'text of at least 16 characters that nobody can guess' })
    ),
    /** How contents are digested; `md5` by default. */
    digest: Type.Optional(Type.Enum(['md5', 'sha256'])),
    /** Where phone numbers without a country code are from; `CN` by default. */
    region: Type.Optional(Type.String()),
    /** How many bits of an IPv6 address name a network; 64 by default. */
    ipv6Prefix: Type.Optional(
      Type.Integer({ minimum: 16, maximum: 128, description: 'a whole number from 16 to 128' })
    ),
    /** How long the store, a key function or a filter may take; 1 s by default. */
    timeout: Type.Optional(Duration),
    /** What holds while Redis does not answer: limits of this process, a 503, or nothing. `memory` by default. */
    onStoreError: Type.Optional(Type.Enum(['memory', 'deny', 'allow'])),
    /** With Redis: how long this process refuses by itself what Redis has refused, up to `1m`; not at all by default. */
    refusalCache: Type.Optional(Duration),
    /** How many keys the memory store holds at most; a million by default. */
    maxKeys: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 16_000_000, description: 'a whole number from 1 to 16000000' })
    ),
    /** Builds the body of a refusal in place of the problem document. */
    errorResponse: Type.Optional(
      Fn<(error: LimitError, request: FastifyRequest, reply: FastifyReply) => unknown>()
    ),
    /** Hears of every decision. */
    onDecision: Type.Optional(Fn<(event: DecisionEvent, request: FastifyRequest | null) => void>()),
    /** The clocks of the memory store and of `refusalCache`, for tests. */
    clock: Type.Optional(
      Type.Refine(
        Type.Unsafe<Clock>({ description: 'an object of two functions, monotonic() and wall()' }),
        isClock,
        () => 'must be a clock'
      )
    )
  },
  strict
)
export type SendLimitOptions = Static<typeof OptionsSchema>

/** What stands in a route's `config.limit`. */
export type RouteLimit = string | Rule | Filter | readonly (string | Rule | Filter)[]

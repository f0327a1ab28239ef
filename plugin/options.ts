import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Clock } from './clock.js'
import type { LimitError } from './errors.js'
import type { Filter } from './filter.js'
import type { Rule } from './rule.js'
import { Duration, Fn, Ipv4Prefix, Ipv6Prefix, strict } from './schemas.js'
import { isClient, type RedisClient } from './store/client.js'
import type { Verdict } from './verdict.js'

/** One decision, as `onDecision` and the diagnostics channel get it. */
export interface DecisionEvent extends Verdict {
  /** Method and url of the route; null outside of routes. */
  route: string | null
  stage: 'attempts' | 'sends'
  /** The hashed identity of each rule that applied. */
  keys: Record<string, string>
  /**
   * What decided: the store `memory` or `redis`, the `cache` of refusals, or `none` when it was decided without one or, on a
   * cluster, admitted with a part of it uncounted.
   */
  store: string
}

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
    store: Type.Optional(
      Type.Enum(['memory', 'redis'], {
        description: '"memory" or "redis"; an ioredis client is the option "client"'
      })
    ),
    /** An ioredis client; else the one that @fastify/redis registered is used. */
    client: Type.Optional(
      Type.Refine(
        Type.Unsafe<RedisClient>({ description: 'an ioredis client' }),
        isClient,
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
    /** How many bits of an IPv4 address name a network; 32 by default: it names itself. */
    ipv4Prefix: Type.Optional(Ipv4Prefix),
    /** How many bits of an IPv6 address name a network; 64 by default. */
    ipv6Prefix: Type.Optional(Ipv6Prefix),
    /** How long the store, a key function or a filter may take; 1 s by default. */
    timeout: Type.Optional(Duration),
    /** What holds while Redis does not answer: limits of this process, a 503, or nothing. `memory` by default. */
    onStoreError: Type.Optional(Type.Enum(['memory', 'deny', 'allow'])),
    /** With Redis: how long this process refuses on its own what Redis has refused, up to `1m`; none by default. */
    refusalCache: Type.Optional(Duration),
    /** How many keys the memory store holds at most; a million by default. */
    maxKeys: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 16_000_000, description: 'a whole number from 1 to 16000000' })
    ),
    /** Builds the body of a refusal in place of the problem document. */
    errorResponse: Type.Optional(
      Fn<(error: LimitError, request: FastifyRequest, reply: FastifyReply) => unknown>()
    ),
    /** Is called with every decision. */
    onDecision: Type.Optional(Fn<(event: DecisionEvent, request: FastifyRequest | null) => void>()),
    /** The clocks of the memory store, of `refusalCache` and between the stages of a request, for tests. */
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
export interface SendLimitOptions extends Static<typeof OptionsSchema> {}

/** What stands in a route's `config.limit`. */
export type RouteLimit = string | Rule | Filter | readonly (string | Rule | Filter)[]

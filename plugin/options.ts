import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from './clock.js'
import type { LimitError } from './errors.js'
import type { Filter } from './filter.js'
import type { Rule } from './rule.js'
import { Duration, Fn, Ipv4Prefix, Ipv6Prefix, isFunction, object, wholeNumber } from './schemas.js'
import { isClient, type RedisClient } from './store/client.js'
import type { Verdict } from './verdict.js'

/** One decision, as `onDecision` and the diagnostics channel get it. */
export interface DecisionEvent extends Verdict {
  /** Method and url of the route; null outside of routes. */
  route: string | null
  /** Which rules were decided: those that count `attempts`, or those that count `sends` and `failures`. */
  stage: 'attempts' | 'sends'
  /** The hashed identity of each rule that applied, by the name of the rule. */
  keys: Record<string, string>
  /**
   * What decided: the store `memory` or `redis`, the `cache` of refusals, or `none` when the decision was made without
   * a store or, on a cluster, admitted with a part of it uncounted.
   */
  store: string
}

/** The options of the plugin (docs/options.md). */
export interface SendLimitOptions {
  /** Rules that routes name. A rule named on several routes is one rule, with one count. */
  rules?: readonly Rule[]
  /** Filters that routes name. */
  filters?: readonly Filter[]
  /** Where limits are kept; by default `redis` when a `client` is given, else `memory`. */
  store?: 'memory' | 'redis'
  /** An ioredis client or Cluster; by default the client that @fastify/redis registered. */
  client?: RedisClient
  /** The namespace under which @fastify/redis registered the client. It goes with a `store`, without a `client`. */
  namespace?: string
  /**
   * Whether the client speaks to a proxy that spreads keys over several Redis by their hash tags. Each call then names
   * the keys of one identity alone. A Redis Cluster, reached by a `Cluster` of ioredis, does not need it. `false` by
   * default.
   */
  sharded?: boolean
  /** The beginning of the name of every Redis key; `sl:` by default. */
  prefix?: string
  /**
   * The secret under which every identity is hashed, 16 characters or more. With Redis it is required, and the same in
   * all processes that share it; in memory it is random by default.
   */
  secret?: string
  /** The algorithm by which contents are hashed; `md5` by default. */
  digest?: 'md5' | 'sha256'
  /** Where phone numbers without a country code are from (ISO 3166-1 alpha-2); `CN` by default. */
  region?: string
  /** How many bits of an IPv4 address name a network, 8 to 32; 32 by default, so that each address counts by itself. */
  ipv4Prefix?: number
  /** How many bits of an IPv6 address name a network, 16 to 128; 64 by default. */
  ipv6Prefix?: number
  /**
   * How long a call of Redis, a key function or a filter may take: a duration such as `"500ms"`, or milliseconds; `1s`
   * by default, `1h` at most.
   */
  timeout?: string | number
  /**
   * What holds while Redis does not answer: limits in the memory of this process (`memory`, by default), a 503 for each
   * request (`deny`), or no limits at all (`allow`).
   */
  onStoreError?: 'memory' | 'deny' | 'allow'
  /** With Redis: how long this process refuses on its own what Redis has refused, up to `1m`; not at all by default. */
  refusalCache?: string | number
  /** How many keys the memory store holds at most, up to 16,000,000; 1,000,000 by default. */
  maxKeys?: number
  /** Builds the body of a refusal in place of the problem document. It returns neither a promise nor a `Response`. */
  errorResponse?: (error: LimitError, request: FastifyRequest, reply: FastifyReply) => unknown
  /**
   * Is called with every decision, except one on the sends of a request that is over by then. Outside of routes,
   * `request` is the one that the call of `fastify.limit` was given, else null. What it throws is logged.
   */
  onDecision?: (event: DecisionEvent, request: FastifyRequest | null) => void
  /** For tests: the clocks of the memory store, of `refusalCache` and between the stages of a request. */
  clock?: Clock
}

export const OptionsSchema = object<SendLimitOptions>(
  {
    rules: { type: 'array' },
    filters: { type: 'array' },
    store: {
      enum: ['memory', 'redis'],
      description: '"memory" or "redis"; an ioredis client is the option "client"'
    },
    client: { is: isClient, description: 'an ioredis client' },
    namespace: { type: 'string' },
    sharded: { type: 'boolean' },
    prefix: { type: 'string', pattern: '^[^{}\\s]*$', description: 'text without braces and white space' },
    secret: {
      type: 'string',
      minLength: 16,
      description: 'text of at least 16 characters that nobody can guess'
    },
    digest: { enum: ['md5', 'sha256'] },
    region: { type: 'string' },
    ipv4Prefix: Ipv4Prefix,
    ipv6Prefix: Ipv6Prefix,
    timeout: Duration,
    onStoreError: { enum: ['memory', 'deny', 'allow'] },
    refusalCache: Duration,
    maxKeys: wholeNumber(1, 16_000_000),
    errorResponse: Fn,
    onDecision: Fn,
    clock: { is: isClock, description: 'an object of two functions, monotonic() and wall()' }
  },
  {}
)

function isClock(value: unknown): boolean {
  const { monotonic, wall } = (value ?? {}) as Partial<Clock>
  return isFunction(monotonic) && isFunction(wall)
}

/** What a route's `config.limit` may be: a rule, the name of a rule or filter, a filter, or a list of these. */
export type RouteLimit = string | Rule | Filter | readonly (string | Rule | Filter)[]

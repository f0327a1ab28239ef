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
  stage: 'attempts' | 'sends'
  /** The hashed identity of each rule that applied. */
  keys: Record<string, string>
  /**
   * What decided: the store `memory` or `redis`, the `cache` of refusals, or `none` when it was decided without one or, on a
   * cluster, admitted with a part of it uncounted.
   */
  store: string
}

export interface SendLimitOptions {
  /** Rules that routes name; a rule named on several routes is one rule. */
  rules?: readonly Rule[]
  /** Filters that routes name. */
  filters?: readonly Filter[]
  /** Where limits are kept; `redis` when a `client` is given, else `memory`. */
  store?: 'memory' | 'redis'
  /** An ioredis client; else the one that @fastify/redis registered is used. */
  client?: RedisClient
  /** The namespace under which @fastify/redis registered the client. */
  namespace?: string
  /**
   * A proxy stands before several Redis and spreads keys over them by their hash tags: each call then names the keys of one
   * identity alone. A Redis Cluster, reached by a `Cluster` of ioredis, needs no such word. `false` by default.
   */
  sharded?: boolean
  /** Begins the name of every Redis key; `sl:` by default. */
  prefix?: string
  /** Hashes every identity; the same in all processes that share a Redis, and needed there. */
  secret?: string
  /** How contents are digested; `md5` by default. */
  digest?: 'md5' | 'sha256'
  /** Where phone numbers without a country code are from; `CN` by default. */
  region?: string
  /** How many bits of an IPv4 address name a network; 32 by default: it names itself. */
  ipv4Prefix?: number
  /** How many bits of an IPv6 address name a network; 64 by default. */
  ipv6Prefix?: number
  /** How long the store, a key function or a filter may take; 1 s by default. */
  timeout?: string | number
  /** What holds while Redis does not answer: limits of this process, a 503, or nothing. `memory` by default. */
  onStoreError?: 'memory' | 'deny' | 'allow'
  /** With Redis: how long this process refuses on its own what Redis has refused, up to `1m`; none by default. */
  refusalCache?: string | number
  /** How many keys the memory store holds at most; a million by default. */
  maxKeys?: number
  /** Builds the body of a refusal in place of the problem document. */
  errorResponse?: (error: LimitError, request: FastifyRequest, reply: FastifyReply) => unknown
  /** Is called with every decision. */
  onDecision?: (event: DecisionEvent, request: FastifyRequest | null) => void
  /** The clocks of the memory store, of `refusalCache` and between the stages of a request, for tests. */
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

/** What stands in a route's `config.limit`. */
export type RouteLimit = string | Rule | Filter | readonly (string | Rule | Filter)[]

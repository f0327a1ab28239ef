import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Awaitable } from '../awaitable.js'
import { durationAt } from '../duration.js'
import { hasher } from '../identity/digest.js'
import { IPV4_PREFIX, IPV6_PREFIX } from '../identity/ip.js'
import type { IdentityOptions } from '../identity/part.js'
import { regionAt } from '../identity/scalar.js'
import { wrongOption } from '../mistakes.js'
import type { SendLimitOptions } from '../options.js'
import { isClient, isSharded, type RedisClient } from './client.js'
import { handleErrors } from './client-errors.js'
import { Cluster } from './cluster.js'
import { Examination } from './examine.js'
import { Fallback } from './fallback.js'
import { MemoryStore } from './memory.js'
import { fullPrefix, isRedirectError, outagesOf } from './nodes.js'
import { Outage } from './outage.js'
import { Receipts } from './receipts.js'
import { RedisStore } from './redis.js'
import { isKeyError } from './redis-errors.js'
import { RefusalCache } from './refusal-cache.js'
import { alone, type Reserver } from './reserver.js'
import { RedisServer } from './server.js'
import { StandIn } from './stand-in.js'

const MAX_REFUSAL_CACHE_MS = 60_000
const STAYS = 'stays counted, unless a later try succeeds'

interface Opened {
  reserver: Reserver
  receipts: Receipts
  identity: IdentityOptions
  /**
   * Examines the store once, before it decides: when the server starts, or when a call comes before that. Afterwards it
   * returns at once, so that no caller waits a turn.
   * @throws SecretMismatchError
   */
  begin(): Awaitable<void>
  /** @throws SecretMismatchError when a mismatch was found after the start */
  verify(): void
}

/**
 * Opens the store that the options ask for.
 * @throws OptionError
 */
export function openStore(fastify: FastifyInstance, options: SendLimitOptions, timeout: number): Opened {
  const { store = options.client ? 'redis' : 'memory', digest = 'md5' } = options
  const { ipv4Prefix = IPV4_PREFIX, ipv6Prefix = IPV6_PREFIX } = options
  const region = regionAt(options.region ?? 'CN', 'options.region')
  if (store === 'memory' && options.client)
    throw wrongOption('options.store', store, 'A client goes with the store "redis".')
  if (options.namespace !== undefined && (options.client || options.store === undefined))
    throw wrongOption(
      'options.namespace',
      options.namespace,
      'It names a client of @fastify/redis: it goes with store: "redis" and without a "client". Keys begin with the "prefix".'
    )
  const cache = refusalCache(options)
  const secret = options.secret ?? randomBytes(32).toString('base64url')
  const identity = { secret, digest, region, ipv4Prefix, ipv6Prefix, local: store === 'memory' }
  if (store === 'memory') return { identity, ...openMemory(options) }
  if (options.secret === undefined) {
    throw wrongOption(
      'options.secret',
      undefined,
      'Redis needs a secret, the same in all processes: 16 characters or more, from the environment.'
    )
  }
  return { identity, ...openRedis(fastify, options, secret, timeout, cache) }
}

function openMemory(options: SendLimitOptions): Omit<Opened, 'identity'> {
  return {
    reserver: alone(new MemoryStore(options)),
    // Its own app alone can open these receipts, whoever else has the secret.
    receipts: new Receipts({
      secret: randomBytes(32).toString('base64url'),
      scope: 'memory',
      foreign: 'was made by another app, or before a restart: what memory counts is given back there alone'
    }),
    begin() {},
    verify() {}
  }
}

function openRedis(
  fastify: FastifyInstance,
  options: SendLimitOptions,
  secret: string,
  timeout: number,
  cache: RefusalCache | undefined
): Omit<Opened, 'identity'> {
  const client = clientOf(fastify, options)
  handleErrors(client)
  const prefix = options.prefix ?? 'sl:'
  const sharded = isSharded(client, options.sharded)
  const redis = new RedisStore(client, prefix, timeout, sharded)
  const fingerprint = hasher('sha256', secret)('fingerprint')
  const { onStoreError = 'memory' } = options
  const examination = new Examination(
    new RedisServer(client, prefix, sharded),
    fingerprint,
    timeout,
    fastify.log,
    patienceOf(fastify, timeout)
  )
  const outageOf = (node: string) => {
    const about = { ...(node && { node }), onStoreError }
    const events = {
      onLost: (error: unknown) => fastify.log.error({ err: error, ...about }, 'redis does not decide'),
      onBack() {
        fastify.log.info(about, 'redis decides again')
        // Behind the same connection, or on the same node, it may be another Redis by now.
        examination.again()
      },
      onFailure: () => client.refreshSlotsCache?.()
    }
    return new Outage(timeout, events, node)
  }
  const outage = outageOf('')
  const fallback = new Fallback(cache?.watch(redis) ?? redis, {
    timeout,
    substitute: onStoreError === 'memory' ? new StandIn(new MemoryStore(options)) : onStoreError,
    outageOf: client.isCluster ? outagesOf(client, prefix, outageOf) : () => outage,
    isRequestError: (error, node) => isKeyError(error) || isRedirectError(client, node, error),
    onError: error => fastify.log.error({ err: error, onStoreError }, 'redis cannot decide on a request'),
    onUncounted: (error, entries) =>
      fastify.log.error(
        { err: error, entries, onStoreError },
        'what was admitted without redis may stay uncounted there'
      ),
    onRefundFailed: error =>
      fastify.log.error({ err: error, onStoreError }, `what redis counted too late ${STAYS}`)
  })
  const report = (error: unknown) =>
    fastify.log.error({ err: error }, `what was counted for a refusal ${STAYS}`)
  const reserver = sharded ? new Cluster(fallback, report) : fallback
  fastify.addHook('onReady', async () => examination.begin())
  fastify.addHook('onClose', async () => examination.end())
  return {
    reserver: cache?.over(reserver) ?? reserver,
    receipts: new Receipts({
      secret,
      scope: `redis ${fullPrefix(client, prefix)}`,
      foreign: 'was made under another secret or prefix, or by an app without Redis'
    }),
    begin: () => examination.begin(),
    verify: () => examination.verify()
  }
}

/**
 * How long the start may wait for Redis, in milliseconds: the time-out, but no more than half of the time after which
 * Fastify would give up the start (`pluginTimeout`; 0 for never).
 */
function patienceOf({ initialConfig: { pluginTimeout = 0 } }: FastifyInstance, timeout: number): number {
  return pluginTimeout === 0 ? timeout : Math.min(timeout, pluginTimeout / 2)
}

function refusalCache({ refusalCache: given, clock }: SendLimitOptions): RefusalCache | undefined {
  if (given === undefined) return undefined
  const ms = durationAt(given, 'options.refusalCache')
  if (ms > MAX_REFUSAL_CACHE_MS)
    throw wrongOption(
      'options.refusalCache',
      given,
      'It is 1m or shorter: a slot that another process gives back stays refused here for that long.'
    )
  return new RefusalCache({ ms, clock })
}

function clientOf(fastify: FastifyInstance, { client, namespace }: SendLimitOptions): RedisClient {
  const registered = (fastify as { redis?: unknown }).redis as
    | (RedisClient & Record<string, RedisClient>)
    | undefined
  const found = client ?? (namespace === undefined ? registered : registered?.[namespace])
  if (!isClient(found)) {
    const at = client ? 'options.client' : namespace === undefined ? 'options.store' : 'options.namespace'
    throw wrongOption(
      at,
      client ?? namespace ?? 'redis',
      'Pass an ioredis client, or register @fastify/redis before this plugin, and name its "namespace" if it has one.'
    )
  }
  return found
}

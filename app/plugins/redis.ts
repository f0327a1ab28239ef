import { once } from 'node:events'
import fastifyRedis from '@fastify/redis'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { Cluster, Redis } from 'ioredis'

/** How long the start waits for Redis, in milliseconds. */
const FIRST_CONNECT = 2_000

const retry = (times: number) => Math.min(times * 100, 2_000)

/** Commands fail at once while Redis is away; none is kept for later or sent twice. */
const options = {
  connectTimeout: FIRST_CONNECT,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false
}

function clientOf(urls: string, commandTimeout: number): Redis | Cluster {
  const [first = '', ...others] = urls.split(',')
  if (others.length === 0)
    return new Redis(first, { ...options, commandTimeout, lazyConnect: true, retryStrategy: retry })
  // The nodes that these tell of take the same name and password.
  const { username, password, protocol } = new URL(first)
  return new Cluster([first, ...others], {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retry,
    redisOptions: {
      ...options,
      commandTimeout,
      ...(username !== '' && { username: decodeURIComponent(username) }),
      ...(password !== '' && { password: decodeURIComponent(password) }),
      ...(protocol === 'rediss:' && { tls: {} })
    }
  })
}

interface Options {
  url: string | undefined
  /** How long a command may take, in milliseconds. */
  commandTimeout?: number
}

/**
 * Redis, when there is a url; several, separated by commas, are nodes of one cluster. It may be down now or later; the
 * client comes back by itself.
 */
const redis: FastifyPluginAsync<Options> = async (fastify, { url, commandTimeout = 1_000 }) => {
  if (url === undefined) return
  const client = clientOf(url, commandTimeout)
  client.on('error', error => fastify.log.warn({ err: error }, 'redis'))
  client.connect().catch(() => {})
  await once(client, 'ready', { signal: AbortSignal.timeout(FIRST_CONNECT) }).catch(() => {})
  if (client.status === 'ready') await fastify.register(fastifyRedis, { client: client as Redis })
  // @fastify/redis would wait for a client that is not ready, and the start would end with its patience.
  else fastify.decorate('redis', client as never)
  fastify.addHook('onClose', async () => {
    if (client.status === 'ready') await client.quit().catch(() => client.disconnect())
    else client.disconnect()
  })
}

export default fp(redis, { name: 'redis' })

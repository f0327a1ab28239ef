import { once } from 'node:events'
import fastifyRedis from '@fastify/redis'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { Redis } from 'ioredis'

/** How long the start waits for Redis, in milliseconds. */
const FIRST_CONNECT = 2_000

/**
 * Redis, when there is a url. It may be down now or later: commands then fail at once, none is kept for later or
 * sent twice, and the client comes back by itself.
 */
const redis: FastifyPluginAsync<{ url: string | undefined }> = async (fastify, { url }) => {
  if (url === undefined) return
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: FIRST_CONNECT,
    commandTimeout: 1_000,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    retryStrategy: times => Math.min(times * 100, 2_000)
  })
  client.on('error', error => fastify.log.warn({ err: error }, 'redis'))
  client.connect().catch(() => {})
  await once(client, 'ready', { signal: AbortSignal.timeout(FIRST_CONNECT) }).catch(() => {})
  if (client.status === 'ready') await fastify.register(fastifyRedis, { client })
  // @fastify/redis would wait for a client that is not ready, and the start would end with its patience.
  else fastify.decorate('redis', client as never)
  fastify.addHook('onClose', async () => {
    if (client.status === 'ready') await client.quit().catch(() => client.disconnect())
    else client.disconnect()
  })
}

export default fp(redis, { name: 'redis' })

import type { FastifyRedis } from '@fastify/redis'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import type { RedisAddress } from '../redis-client.js'

/** How often a cluster is asked which node has what, in milliseconds: a hanging node does not say who replaced it. */
const SLOTS_REFRESH = 2_000

interface Options extends Omit<RedisAddress, 'url'> {
  url: string | undefined
  /** How often connections are pinged, and how long closing waits for commands under way, in milliseconds. */
  timeoutMs?: number
}

/**
 * Connects to Redis, if there is a URL. Redis may be down now or later; the client reconnects by itself.
 */
const redis: FastifyPluginAsync<Options> = async (fastify, { url, timeoutMs = 1_000, ...more }) => {
  if (url === undefined) return
  // Imported only here, which makes a start without Redis a twentieth faster.
  const { connect, quit } = await import('../redis-connection.js')
  const client = await connect(fastify.log, { url, ...more }, timeoutMs)
  // Not by @fastify/redis, which would wait for a client that is not ready, until the start fails.
  fastify.decorate('redis', client as FastifyRedis)
  // Not by the client's slotsRefreshInterval, which may go on after the client has ended.
  const refreshing =
    'refreshSlotsCache' in client && setInterval(() => client.refreshSlotsCache(), SLOTS_REFRESH).unref()
  fastify.addHook('onClose', async () => {
    if (refreshing) clearInterval(refreshing)
    await quit(client, timeoutMs)
  })
}

export default fp(redis, { name: 'redis' })

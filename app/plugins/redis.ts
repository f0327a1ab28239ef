import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import type { Redis } from 'ioredis'

/** How often a cluster is asked which node has what, in milliseconds: one that hangs does not tell who replaced it. */
const SLOTS_REFRESH = 2_000

interface Options {
  url: string | undefined
  /** Whether it is that of a proxy that spreads keys over several Redis. */
  sharded?: boolean
  /** How often connections are pinged, and how long the end waits for what is under way, in milliseconds. */
  timeoutMs?: number
}

/**
 * Redis, when there is a url; several, separated by commas, are nodes of one cluster. It may be down now or later; the
 * client comes back by itself.
 */
const redis: FastifyPluginAsync<Options> = async (fastify, { url, sharded = false, timeoutMs = 1_000 }) => {
  if (url === undefined) return
  // Here alone: a start without Redis takes less, by a twentieth.
  const { connect, quit } = await import('../redis-connection.js')
  const { default: fastifyRedis } = await import('@fastify/redis')
  const client = await connect(fastify.log, url, timeoutMs, sharded)
  if (client.status === 'ready') await fastify.register(fastifyRedis, { client: client as Redis })
  // @fastify/redis would wait for a client that is not ready, and the start would end with its patience.
  else fastify.decorate('redis', client as never)
  // Not by the client's slotsRefreshInterval, which may go on after its end.
  const refreshing =
    'refreshSlotsCache' in client && setInterval(() => client.refreshSlotsCache(), SLOTS_REFRESH).unref()
  fastify.addHook('onClose', async () => {
    if (refreshing) clearInterval(refreshing)
    await quit(client, timeoutMs)
  })
}

export default fp(redis, { name: 'redis' })

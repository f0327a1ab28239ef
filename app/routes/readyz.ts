import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Cluster, type Redis } from 'ioredis'
import { Type } from 'typebox'
import { answered } from '../answered.js'
import { problem } from '../problem.js'
import { problems } from '../schemas/problem.js'

const readyz: FastifyPluginAsyncTypebox<{ timeoutMs: number }> = async (fastify, { timeoutMs }) => {
  fastify.get(
    '/readyz',
    {
      schema: {
        operationId: 'ready',
        summary: 'Whether it can do its work: Redis answers, where there is one',
        tags: ['operation'],
        security: [],
        response: {
          200: Type.Object({ status: Type.Literal('ready') }, { description: 'It can.' }),
          ...problems('REDIS_UNAVAILABLE')
        }
      }
    },
    async () => {
      if (fastify.hasDecorator('redis')) {
        await answered(works(fastify.redis), timeoutMs, () =>
          problem(503, 'REDIS_UNAVAILABLE', 'Redis does not answer.')
        )
      }
      return { status: 'ready' as const }
    }
  )
}

/** A cluster works while one node says so: one that is lost holds up what stands on it alone. */
async function works(redis: Redis | Cluster): Promise<unknown> {
  if (!(redis instanceof Cluster)) return redis.ping()
  return Promise.any(
    redis.nodes('master').map(async node => {
      const info = String(await node.cluster('INFO'))
      if (!info.includes('cluster_state:ok')) throw new Error('the cluster is down')
    })
  )
}

export default readyz

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { problem } from '../problem.js'
import { problems } from '../schemas/problem.js'

const readyz: FastifyPluginAsyncTypebox = async fastify => {
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
          ...problems(500, 503)
        }
      }
    },
    async () => {
      if (fastify.hasDecorator('redis')) {
        await fastify.redis.ping().catch(() => {
          throw problem(503, 'REDIS_UNAVAILABLE', 'Redis does not answer.')
        })
      }
      return { status: 'ready' as const }
    }
  )
}

export default readyz

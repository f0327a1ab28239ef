import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { problems } from '../schemas/problem.js'

const healthz: FastifyPluginAsyncTypebox = async fastify => {
  fastify.get(
    '/healthz',
    {
      schema: {
        operationId: 'health',
        summary: 'Check that the process is up',
        description: 'Answers as long as the process is up. It does not check Redis.',
        tags: ['operation'],
        security: [],
        response: {
          200: Type.Object(
            { status: Type.Literal('up', { description: 'Always `up`.' }) },
            { description: 'The process is up.' }
          ),
          ...problems()
        }
      }
    },
    async () => ({ status: 'up' as const })
  )
}

export default healthz

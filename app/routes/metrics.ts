import type { FastifyPluginAsync } from 'fastify'
import { problems } from '../schemas/problem.js'

const metrics: FastifyPluginAsync = async fastify => {
  const { registry } = fastify.metrics
  fastify.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        summary: 'Decisions, refusals and sends, for Prometheus',
        tags: ['operation'],
        security: [],
        response: {
          200: { description: 'The counters.', content: { 'text/plain': { schema: { type: 'string' } } } },
          ...problems()
        }
      }
    },
    async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics())
  )
}

export default metrics

import type { FastifyPluginAsync } from 'fastify'
import { problems } from '../schemas/problem.js'

const metrics: FastifyPluginAsync = async fastify => {
  const { registry } = fastify.metrics
  fastify.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        summary: 'Retrieve the metrics of the instance',
        description:
          'Decisions, refusals, messages, tries of codes and quotas, for Prometheus. No label names a person.',
        tags: ['operation'],
        security: [],
        response: {
          200: { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } },
          ...problems()
        }
      }
    },
    async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics())
  )
}

export default metrics

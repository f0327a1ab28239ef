import type { FastifyPluginAsync } from 'fastify'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { problems } from '../schemas/problem.js'

/** What Node tells of the process: once for all apps in it, since nothing ends its observers. */
const ofProcess = new Registry()
collectDefaultMetrics({ register: ofProcess })

const metrics: FastifyPluginAsync = async fastify => {
  const { registry } = fastify.metrics
  fastify.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        summary: 'Retrieve the metrics of the instance',
        description:
          'Requests, decisions, refusals, messages, tries of codes, quotas and the process, for Prometheus. No label names a person.',
        tags: ['operation'],
        security: [],
        response: {
          200: { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } },
          ...problems()
        }
      }
    },
    async (_request, reply) =>
      reply.type(registry.contentType).send((await registry.metrics()) + (await ofProcess.metrics()))
  )
}

export default metrics

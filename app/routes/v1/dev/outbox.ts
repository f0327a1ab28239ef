import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { OutboxAnswer } from '../../../schemas/outbox.js'
import { problems } from '../../../schemas/problem.js'
import type { Outbox } from '../../../senders/outbox.js'

const dev: FastifyPluginAsyncTypebox<{ outbox: Outbox }> = async (fastify, { outbox }) => {
  fastify.get(
    '/outbox',
    {
      schema: {
        operationId: 'readOutbox',
        summary: 'List the messages in the outbox',
        description: 'The last messages that were kept in place of being sent, newest first.',
        tags: ['development'],
        security: [],
        response: { 200: OutboxAnswer, ...problems() }
      }
    },
    async () => ({ messages: [...outbox.messages] })
  )
}

export default dev

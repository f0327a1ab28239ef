import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { dispatch } from '../../dispatch.js'
import { prepareMessage } from '../../prepare-message.js'
import { MailBody, MessageAnswer } from '../../schemas/message.js'
import { presentBody } from '../../schemas/present-body.js'
import { problems } from '../../schemas/problem.js'
import { BODY, KEY, LIMITED, SENDING } from '../../schemas/problem-codes.js'

// Without a key it would be a relay for anybody.
const mail: FastifyPluginAsyncTypebox = async fastify => {
  const body = () => MailBody(fastify.templates.offered('mail'))
  fastify.post(
    '/mail',
    {
      config: {
        limit: ['api-attempts', 'block-list', 'same-content', 'mail', 'account', 'service'],
        swaggerTransform: presentBody(body)
      },
      preParsing: fastify.authenticate,
      // What cannot be sent is refused before anything is counted.
      preHandler: [
        async request => {
          const { to: email, ...message } = request.body
          prepareMessage(request, { email }, message)
        },
        fastify.idempotent
      ],
      schema: {
        operationId: 'sendMail',
        summary: 'Sends a mail by template',
        tags: ['messages'],
        security: [{ apiKey: [] }],
        body: body(),
        response: {
          202: MessageAnswer,
          ...problems(
            ...BODY,
            ...LIMITED,
            ...KEY,
            ...SENDING,
            'EMAIL_INVALID',
            'TEMPLATE_UNKNOWN',
            'TEMPLATE_FORBIDDEN',
            'PARAMS_INVALID',
            'TEXT_TOO_LONG'
          )
        }
      }
    },
    async (request, reply) => {
      await dispatch(request, reply.limit)
      return reply.code(202).send({ id: request.id })
    }
  )
}

export default mail

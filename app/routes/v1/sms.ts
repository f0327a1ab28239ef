import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { dispatch } from '../../dispatch.js'
import { prepareMessage } from '../../prepare-message.js'
import { MessageAnswer, SmsBody } from '../../schemas/message.js'
import { presentBody } from '../../schemas/present-body.js'
import { problems } from '../../schemas/problem.js'
import { BODY, KEY, LIMITED, PHONE, SENDING } from '../../schemas/problem-codes.js'

const sms: FastifyPluginAsyncTypebox = async fastify => {
  const body = () => SmsBody(fastify.templates.offered('sms'))
  fastify.post(
    '/sms',
    {
      config: {
        limit: ['api-attempts', 'block-list', 'same-content', 'mobile', 'account', 'service'],
        swaggerTransform: presentBody(body)
      },
      preParsing: fastify.authenticate,
      // What cannot be sent is refused before anything is counted.
      preHandler: [
        async request => {
          const { phone, ...message } = request.body
          prepareMessage(request, { phone }, message)
        },
        fastify.idempotent
      ],
      schema: {
        operationId: 'sendSms',
        summary: 'Sends an SMS by template',
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
            ...PHONE,
            'COUNTRY_NOT_SERVED',
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

export default sms

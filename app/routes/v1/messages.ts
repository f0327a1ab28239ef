import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { dispatch } from '../../dispatch.js'
import { ownRules } from '../../facts.js'
import { prepareMessage } from '../../prepare-message.js'
import { MailBody, MessageAnswer, SmsBody } from '../../schemas/message.js'
import { presentBody } from '../../schemas/present-body.js'
import { problems } from '../../schemas/problem.js'
import { BODY, type Code, KEY, LIMITED, PHONE, SENDING } from '../../schemas/problem-codes.js'
import type { Channel } from '../../senders/sender.js'

/** How the routes for SMS and mail differ. `rule` is the one on their recipients. */
const kinds = {
  sms: {
    operationId: 'sendSms',
    summary: 'Send an SMS by template',
    description: 'Sends the text of a template to a phone number. It may take three segments of SMS at most.',
    Body: SmsBody,
    rule: 'mobile',
    codes: [...PHONE, 'COUNTRY_NOT_SERVED', 'TEXT_TOO_LONG']
  },
  mail: {
    operationId: 'sendMail',
    summary: 'Send a mail by template',
    description: 'Sends the text of a template to a mail address, with its subject and its HTML.',
    Body: MailBody,
    rule: 'mail',
    codes: ['EMAIL_INVALID']
  }
} satisfies Record<Channel, { codes: Code[]; [other: string]: unknown }>

/** Sends an SMS or a mail by template. It needs a key: otherwise it would be a relay for anybody. */
const messages: FastifyPluginAsyncTypebox<{ channel: Channel }> = async (fastify, { channel }) => {
  const { operationId, summary, description, Body, rule, codes } = kinds[channel]
  const body = () => Body(fastify.templates.offered(channel))
  fastify.post(
    `/${channel}`,
    {
      config: {
        limit: [
          'api-attempts',
          'block-list',
          'same-content',
          rule,
          'account',
          'country',
          'service',
          'budget',
          ...ownRules(fastify.policy.rules, 'message')
        ],
        swaggerTransform: presentBody(body)
      },
      preParsing: fastify.authenticate,
      // A message that cannot be sent is refused before it is counted. Only the attempt has been counted.
      preHandler: [async request => prepareMessage(request, request.body), fastify.idempotent],
      schema: {
        operationId,
        summary,
        description,
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
            ...codes,
            'TEMPLATE_UNKNOWN',
            'TEMPLATE_FORBIDDEN',
            'PARAMS_INVALID'
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

export default messages

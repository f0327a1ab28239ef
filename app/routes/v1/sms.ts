import { randomUUID } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { phoneNumber } from '../../recipient.js'
import { MessageAnswer, SmsBody } from '../../schemas/message.js'
import { problems } from '../../schemas/problem.js'
import { smsTemplates } from '../../templates/sms.js'
import { fill } from '../../templates/template.js'

const sms: FastifyPluginAsyncTypebox<{ region: string }> = async (fastify, { region }) => {
  fastify.post(
    '/sms',
    {
      config: { limit: ['api-attempts', 'same-content', 'mobile', 'account-day'] },
      preParsing: fastify.authenticate,
      // What cannot be sent is refused before anything is counted.
      preHandler: async ({ body: { phone, template, params = {} } }) => {
        phoneNumber(phone, region)
        fill(smsTemplates[template], params)
      },
      schema: {
        operationId: 'sendSms',
        summary: 'Sends an SMS by template',
        tags: ['messages'],
        security: [{ apiKey: [] }],
        body: SmsBody(smsTemplates),
        response: { 202: MessageAnswer, ...problems(400, 401, 413, 415, 422, 500, 502, 503, 504) }
      }
    },
    async ({ body: { phone, template, params = {} } }, reply) => {
      const { text } = fill(smsTemplates[template], params)
      await fastify.deliver({ channel: 'sms', to: phoneNumber(phone, region), text }, reply)
      return reply.code(202).send({ id: randomUUID() })
    }
  )
}

export default sms

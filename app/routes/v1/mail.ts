import { randomUUID } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { mailAddress } from '../../recipient.js'
import { MailBody, MessageAnswer } from '../../schemas/message.js'
import { problems } from '../../schemas/problem.js'
import { mailTemplates } from '../../templates/mail.js'
import { fill } from '../../templates/template.js'

// Without a key it would be a relay for anybody.
const mail: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/mail',
    {
      config: { limit: ['api-attempts', 'mail', 'account-mail-day'] },
      preParsing: fastify.authenticate,
      // What cannot be sent is refused before anything is counted.
      preHandler: async ({ body: { to, template, params = {} } }) => {
        mailAddress(to)
        fill(mailTemplates[template], params)
      },
      schema: {
        operationId: 'sendMail',
        summary: 'Sends a mail by template',
        tags: ['messages'],
        security: [{ apiKey: [] }],
        body: MailBody(mailTemplates),
        response: { 202: MessageAnswer, ...problems(400, 401, 413, 415, 422, 500, 502, 503, 504) }
      }
    },
    async ({ body: { to, template, params = {} } }, reply) => {
      await fastify.deliver(
        { channel: 'mail', to: mailAddress(to), ...fill(mailTemplates[template], params) },
        reply
      )
      return reply.code(202).send({ id: randomUUID() })
    }
  )
}

export default mail

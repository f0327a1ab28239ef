import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { accountOf } from '../../../accounts/account.js'
import { prepareText } from '../../../captcha/message.js'
import { localeOfCode, preparePurpose, withhold } from '../../../captcha/prepare.js'
import { sendCode } from '../../../captcha/send-code.js'
import { ownRules } from '../../../facts.js'
import { checkHasKey } from '../../../plugins/accounts.js'
import { recipientOf } from '../../../recipient.js'
import { CaptchaAnswer, CaptchaBody } from '../../../schemas/captcha.js'
import { presentBody } from '../../../schemas/present-body.js'
import { problemsOfCodes } from '../../../schemas/problem.js'
import { BODY, CAPTCHA, CHALLENGE, RECIPIENT, SENDING } from '../../../schemas/problem-codes.js'
import { checkServed } from '../../../served.js'
import { SEND_LIMITS } from './limits.js'

const send: FastifyPluginAsyncTypebox = async fastify => {
  const body = () => CaptchaBody(fastify.policy.purposes, fastify.challenging)
  fastify.post(
    '',
    {
      config: {
        limit: [...SEND_LIMITS, ...ownRules(fastify.policy.rules, 'code')],
        swaggerTransform: presentBody(body)
      },
      preParsing: fastify.identify,
      // A code that cannot be sent is refused before it is counted. Only the attempt has been counted.
      preHandler: [
        async request => {
          const { purpose, locale, send, params, phone, email } = request.body
          preparePurpose(request, purpose, '#/purpose')
          if (send === false) withhold(request)
          request.recipient = recipientOf({ phone, email }, { region: fastify.region })
          checkServed(request, '#/phone')
          // Params are text of the caller's in a message to any phone, so they need a key.
          if (params !== undefined) checkHasKey(request)
          prepareText(request, { ...request.recipient, purpose, locale, params })
        },
        fastify.idempotent,
        // Behind the look at the key, since a token is accepted once, and a repetition has the same.
        fastify.challenge
      ],
      schema: {
        operationId: 'sendCaptcha',
        summary: 'Send a verification code',
        description:
          'Makes a code for a purpose and sends it by SMS to `phone`, or by mail to `email`. Codes that were requested before stay valid. For a concealed purpose, the answer does not tell whether a message is sent.',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        body: body(),
        response: {
          202: CaptchaAnswer,
          ...problemsOfCodes(
            ...BODY,
            ...CAPTCHA,
            ...(fastify.challenging ? CHALLENGE : []),
            ...SENDING,
            ...RECIPIENT,
            'COUNTRY_NOT_SERVED',
            'PURPOSE_UNKNOWN',
            'PURPOSE_FORBIDDEN',
            'SEND_REQUIRED',
            'PARAMS_INVALID',
            'TEXT_TOO_LONG',
            'FST_SEND_LIMIT_IN_FLIGHT',
            'CODES_FULL'
          )
        }
      }
    },
    async (request, reply) => {
      const { body, recipient } = request
      if (recipient === null) throw new Error('no recipient')
      const { purpose } = body
      const locale = localeOfCode(request, { channel: recipient.channel, purpose }, body.locale)
      const asked = {
        ...recipient,
        purpose,
        locale,
        account: accountOf(request).id,
        withheld: request.withheld,
        concealed: request.concealed,
        ...(request.bound && { params: request.bound })
      }
      const issued = await fastify.captchas.start(asked)
      return sendCode(request, reply, asked, issued)
    }
  )
}

export default send

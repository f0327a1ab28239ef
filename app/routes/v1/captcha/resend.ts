import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { prepareCaptcha, preparePurpose } from '../../../captcha/prepare.js'
import { sendCode } from '../../../captcha/send-code.js'
import { problem } from '../../../problem.js'
import { CaptchaAnswer, CaptchaParams, ResendBody } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'
import { BODY, CAPTCHA, ID, SENDING } from '../../../schemas/problem-codes.js'
import { checkServed } from '../../../served.js'
import { SEND_LIMITS } from './limits.js'

const resend: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/:id/resend',
    {
      config: { limit: ['ip-attempts', ...SEND_LIMITS] },
      preParsing: fastify.identify,
      preHandler: [
        async request => {
          const captcha = await prepareCaptcha(request, request.params.id)
          preparePurpose(request, captcha.purpose)
          request.recipient = captcha
          checkServed(request)
          request.withheld = captcha.withheld
        },
        fastify.idempotent
      ],
      schema: {
        operationId: 'resendCaptcha',
        summary: 'Sends a code again: a new one, which ends the former, unless the policy says the same one',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        params: CaptchaParams,
        body: ResendBody,
        response: {
          202: CaptchaAnswer,
          ...problems(
            ...ID,
            ...BODY,
            ...CAPTCHA,
            ...SENDING,
            'CAPTCHA_UNKNOWN',
            'CAPTCHA_ENDED',
            'COUNTRY_NOT_SERVED',
            'PURPOSE_UNKNOWN',
            'PURPOSE_FORBIDDEN',
            'FST_SEND_LIMIT_IN_FLIGHT'
          )
        }
      }
    },
    async (request, reply) => {
      const { captcha, body } = request
      if (captcha === null) throw new Error('no captcha')
      const asked = { ...captcha, locale: body?.locale ?? captcha.locale }
      const issued = await fastify.captchas.renew(captcha)
      if (issued === null) throw problem(410, 'CAPTCHA_ENDED', 'This code has ended; ask for a new one.')
      return sendCode(request, reply, asked, issued)
    }
  )
}

export default resend

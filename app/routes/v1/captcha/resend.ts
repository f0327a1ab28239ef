import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Captcha } from '../../../captcha/captchas.js'
import { prepareText } from '../../../captcha/message.js'
import { codeEnded, prepareCaptcha, preparePurpose } from '../../../captcha/prepare.js'
import { sendCode } from '../../../captcha/send-code.js'
import { ownRules } from '../../../facts.js'
import type { ProblemError } from '../../../problem.js'
import { CaptchaAnswer, CaptchaParams, ResendBody } from '../../../schemas/captcha.js'
import { problemsOfCodes } from '../../../schemas/problem.js'
import { BODY, CAPTCHA, ID, SENDING } from '../../../schemas/problem-codes.js'
import { checkServed } from '../../../served.js'
import { SEND_LIMITS } from './limits.js'

const resend: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/:id/resend',
    {
      config: { limit: [...SEND_LIMITS, ...ownRules(fastify.policy.rules, 'code')] },
      preParsing: fastify.identify,
      preHandler: [
        async request => {
          const captcha = await prepareCaptcha(request, request.params.id)
          preparePurpose(request, captcha.purpose)
          request.recipient = captcha
          checkServed(request)
          // A concealed code stays concealed, whatever has become of its purpose.
          request.concealed ||= captcha.concealed
          request.withheld = captcha.withheld
          prepareAgain(request, captcha, request.body?.locale)
        },
        fastify.idempotent,
        // Behind the look at the key, since a repetition is answered as the first time. Before the send is counted: else
        // whoever has the id of an ended code could hold up its recipient's other codes, and send nothing.
        async ({ captcha }) => {
          if (captcha !== null && !fastify.captchas.mayRenew(captcha)) throw codeEnded()
        }
      ],
      schema: {
        operationId: 'resendCaptcha',
        summary: 'Resend a code',
        description:
          'Sends a new code under the same id; the former code is no longer valid. If the policy says so (`reuse`), sends the same code again instead, and its life is not extended.',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        params: CaptchaParams,
        body: ResendBody,
        response: {
          202: CaptchaAnswer,
          ...problemsOfCodes(
            ...ID,
            ...BODY,
            ...CAPTCHA,
            ...SENDING,
            'CAPTCHA_UNKNOWN',
            'CAPTCHA_ENDED',
            'TEXT_TOO_LONG',
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
      if (issued === null) throw codeEnded()
      return sendCode(request, reply, asked, issued).catch(error => {
        throw endedWhereUnbound(error)
      })
    }
  )
}

/** @throws a problem (410) when the purpose names other params by now, so the message cannot show the bound ones */
function prepareAgain(request: FastifyRequest, captcha: Captcha, locale = captcha.locale): void {
  try {
    prepareText(request, { ...captcha, locale })
  } catch (error) {
    throw endedWhereUnbound(error)
  }
}

function endedWhereUnbound(error: unknown): unknown {
  return (error as ProblemError).code === 'PARAMS_INVALID' ? codeEnded() : error
}

export default resend

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { codeEnded, prepareCaptcha } from '../../../captcha/prepare.js'
import { CancelAnswer, CaptchaParams } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'
import { CAPTCHA, ID, READ } from '../../../schemas/problem-codes.js'

const cancel: FastifyPluginAsyncTypebox = async fastify => {
  fastify.delete(
    '/:id',
    {
      config: { limit: 'ip-attempts' },
      preParsing: fastify.identify,
      schema: {
        operationId: 'cancelCaptcha',
        summary: 'Cancel a code',
        description:
          'Ends a code for good, also an expired one: it can be neither verified nor resent. A code that was used or cancelled before is answered 410.',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        params: CaptchaParams,
        response: {
          204: CancelAnswer,
          ...problems(...ID, ...READ, ...CAPTCHA, 'CAPTCHA_UNKNOWN', 'CAPTCHA_ENDED')
        }
      }
    },
    async (request, reply) => {
      const captcha = await prepareCaptcha(request, request.params.id)
      request.bound = captcha.params ?? null
      const record = (outcome: 'cancelled' | 'ended' | 'unknown') =>
        fastify.audit({ event: 'cancel', outcome, purpose: captcha.purpose }, request, captcha)
      const cancelled = await fastify.captchas.cancel(captcha).catch(error => {
        record('unknown')
        throw error
      })
      record(cancelled ? 'cancelled' : 'ended')
      if (!cancelled) throw codeEnded()
      return reply.code(204).send(null)
    }
  )
}

export default cancel

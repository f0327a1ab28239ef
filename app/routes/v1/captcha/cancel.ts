import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { prepareCaptcha } from '../../../captcha/prepare.js'
import { problem } from '../../../problem.js'
import { CancelAnswer, CaptchaParams } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'

const cancel: FastifyPluginAsyncTypebox = async fastify => {
  fastify.delete(
    '/:id',
    {
      config: { limit: 'ip-attempts' },
      preParsing: fastify.identify,
      schema: {
        operationId: 'cancelCaptcha',
        summary: 'Ends a code that has not been used',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        params: CaptchaParams,
        response: { 204: CancelAnswer, ...problems(401, 403, 404, 410, 422, 500, 503) }
      }
    },
    async (request, reply) => {
      const captcha = await prepareCaptcha(request, request.params.id)
      if (!(await fastify.captchas.cancel(captcha))) {
        throw problem(410, 'CAPTCHA_ENDED', 'This code has ended; ask for a new one.')
      }
      fastify.audit({ event: 'cancel', outcome: 'cancelled', purpose: captcha.purpose }, request, captcha)
      return reply.code(204).send(null)
    }
  )
}

export default cancel

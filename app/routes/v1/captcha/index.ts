import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Policy } from '../../../policy.js'
import type { ProblemError } from '../../../problem.js'
import { phoneNumber } from '../../../recipient.js'
import { CaptchaAnswer, CaptchaBody } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'
import { captchaTemplate } from '../../../templates/captcha.js'
import { fill } from '../../../templates/template.js'

const captcha: FastifyPluginAsyncTypebox<{ policy: Policy; region: string }> = async (
  fastify,
  { policy, region }
) => {
  const minutes = Math.round(policy.code.lifetimeSeconds / 60)
  fastify.post(
    '',
    {
      config: { limit: ['ip-attempts', 'ip', 'recipient', 'in-flight'] },
      // Such a number is refused before anything is counted.
      preHandler: async ({ body: { phone } }) => void phoneNumber(phone, region),
      schema: {
        operationId: 'sendCaptcha',
        summary: 'Sends a verification code',
        tags: ['captcha'],
        security: [],
        body: CaptchaBody(policy),
        response: { 202: CaptchaAnswer, ...problems(400, 413, 415, 422, 500, 502, 503, 504) }
      }
    },
    async ({ body: { phone, purpose } }, reply) => {
      const to = phoneNumber(phone, region)
      const { action } = policy.purposes[purpose] as Policy['purposes'][string]
      const { id, code, issuedAt, expiresAt } = await fastify.captchas.issue(to, purpose)
      const { text } = fill(captchaTemplate, { code, action, minutes })
      try {
        await fastify.deliver({ channel: 'sms', to, text }, reply)
      } catch (error) {
        const { statusCode, problem } = error as ProblemError
        // A code that may have gone out must be of use; of one that has not, nothing stays.
        if (statusCode === 504) Object.assign(problem, { id, expiresAt: iso(expiresAt) })
        else await fastify.captchas.cancel(id).catch(() => {})
        throw error
      }
      const resendAt = issuedAt + (reply.limit?.retryAfterMs ?? 0)
      return reply.code(202).send({ id, expiresAt: iso(expiresAt), resendAt: iso(resendAt) })
    }
  )
}

const iso = (ms: number) => new Date(ms).toISOString()

export default captcha

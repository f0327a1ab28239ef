import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Policy } from '../../../policy.js'
import { problem } from '../../../problem.js'
import { VerifyAnswer, VerifyBody } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'

const verify: FastifyPluginAsyncTypebox<{ policy: Policy }> = async (fastify, { policy }) => {
  fastify.post(
    '/verify',
    {
      config: { limit: ['verify-attempts', 'verify-failures'] },
      schema: {
        operationId: 'verifyCaptcha',
        summary: 'Checks a code; the right one is used up by it',
        tags: ['captcha'],
        security: [],
        body: VerifyBody(policy),
        response: { 200: VerifyAnswer, ...problems(400, 413, 415, 422, 500, 503) }
      }
    },
    async ({ body: { id, code } }) => {
      const checked = await fastify.captchas.check(id, code)
      if (checked.verified) return { verified: true as const }
      // One answer for a wrong, an ended and an unknown code.
      const { attemptsLeft } = checked
      throw problem(422, 'CODE_WRONG', 'This code is wrong or no longer valid.', {
        verified: false,
        attemptsLeft
      })
    }
  )
}

export default verify

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { prepareCaptcha } from '../../../captcha/prepare.js'
import type { Ended, Kept } from '../../../captcha/records.js'
import { iso } from '../../../clock.js'
import { CaptchaParams, StatusAnswer } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'
import { CAPTCHA, ID } from '../../../schemas/problem-codes.js'

const status: FastifyPluginAsyncTypebox = async fastify => {
  fastify.get(
    '/:id',
    {
      config: { limit: 'ip-attempts' },
      preParsing: fastify.identify,
      schema: {
        operationId: 'captchaStatus',
        summary: 'How a code stands',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        params: CaptchaParams,
        response: { 200: StatusAnswer, ...problems(...ID, ...CAPTCHA, 'CAPTCHA_UNKNOWN') }
      }
    },
    async request => {
      const captcha = await prepareCaptcha(request, request.params.id)
      const { id, channel, masked, purpose, identity, kept } = captcha
      const retryAfterMs = await waiting(identity)
      // What becomes of a message that is concealed is told to nobody, whatever has become of its purpose.
      const concealed = captcha.concealed || fastify.policy.purposes[purpose]?.conceal
      const now = fastify.clock.wall()
      return {
        id,
        channel,
        recipient: masked,
        purpose,
        status: statusOf(kept),
        delivery: concealed || kept.sender ? ('accepted' as const) : ('unknown' as const),
        attemptsLeft: kept.ended === '' && kept.lifeMs > 0 ? kept.attemptsLeft : 0,
        expiresAt: iso(now + kept.lifeMs),
        resendAt: iso(now + (retryAfterMs ?? 0))
      }
    }
  )

  // A policy may count by something else, too, and what is counted may be out of reach while the code is not.
  function waiting(recipient: string): Promise<number | null> {
    return fastify.limit.peek({ recipient }).then(
      ({ retryAfterMs }) => retryAfterMs,
      () => 0
    )
  }
}

function statusOf({ ended, lifeMs }: Kept): Exclude<Ended, ''> | 'pending' | 'expired' {
  if (ended !== '') return ended
  return lifeMs > 0 ? 'pending' : 'expired'
}

export default status

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { prepareCaptcha } from '../../../captcha/prepare.js'
import { type Ended, isUsable, type Kept } from '../../../captcha/records.js'
import { WRONG_CODES } from '../../../captcha/wrong-codes.js'
import { iso } from '../../../clock.js'
import { factsIn, keysFrom } from '../../../facts.js'
import { noteStanding } from '../../../lists/block-list.js'
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
        summary: 'Retrieve the state of a code',
        description:
          'Tells whether the code can be verified and whether its message was sent. An id is known until 30 minutes after its last code was made.',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        params: CaptchaParams,
        response: { 200: StatusAnswer, ...problems(...ID, ...CAPTCHA, 'CAPTCHA_UNKNOWN') }
      }
    },
    async request => {
      const captcha = await prepareCaptcha(request, request.params.id)
      const { id, channel, masked, purpose, kept } = captcha
      // A concealed message stays concealed, whatever has become of its purpose.
      const concealed = captcha.concealed || (fastify.policy.purposes[purpose]?.conceal ?? false)
      // The facts that rules read, as for a resend.
      request.recipient = captcha
      request.purpose = purpose
      request.concealed = concealed
      const retryAfterMs = await waiting(request)
      const now = fastify.clock.wall()
      return {
        id,
        channel,
        recipient: masked,
        purpose,
        status: statusOf(kept),
        delivery: concealed || kept.sender ? ('accepted' as const) : ('unknown' as const),
        triesLeft: isUsable(kept) ? kept.triesLeft : 0,
        expiresAt: iso(now + kept.lifeMs),
        resendAt: iso(now + (retryAfterMs ?? 0))
      }
    }
  )

  async function waiting(request: FastifyRequest): Promise<number | null> {
    try {
      await noteStanding(request, fastify.lists)
      const { limit } = fastify
      const keys = keysFrom(limit.rules, ['recipient', ...WRONG_CODES], factsIn(request))
      return (await limit.peek(keys, request)).retryAfterMs
    } catch {
      // The lists or the counts may be out of reach.
      return 0
    }
  }
}

function statusOf({ ended, lifeMs }: Kept): Exclude<Ended, ''> | 'pending' | 'expired' {
  if (ended !== '') return ended
  return lifeMs > 0 ? 'pending' : 'expired'
}

export default status

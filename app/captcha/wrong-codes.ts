import type { FastifyRequest } from 'fastify'
import type { Filter, Verdict } from '../../plugin/index.js'
import type { Config } from '../config-schema.js'
import { factsIn, keysFrom } from '../facts.js'
import { withTimeout } from '../with-timeout.js'

/** The rules on wrong codes. Verifying counts by them; sending only looks at them. */
export const WRONG_CODES = ['verify-failures', 'verify-failures-recipient']

/**
 * A filter that refuses to send a code that could not be verified, since too many wrong ones have been tried: the message
 * would only cost. A concealed request, too, as the tries at its codes count alike for every recipient. If the counts are
 * out of reach, the request passes: the decision that follows asks the same store.
 */
export function wrongCodes({ STORE_TIMEOUT }: Pick<Config, 'STORE_TIMEOUT'>): Filter {
  const unavailable = () => new Error('the counts of wrong codes are out of reach')
  return {
    name: 'wrong-codes',
    async check(request) {
      try {
        // Less than the plugin gives a filter.
        return await withTimeout(peek(request), STORE_TIMEOUT / 2, unavailable)
      } catch (error) {
        // Every request of an outage gets here, and the plugin has logged the outage.
        request.log.debug({ err: (error as Error).cause }, 'passed without a look at wrong codes')
      }
    }
  }
}

/** What the rules would say to a try of the code that is to be sent. */
async function peek(request: FastifyRequest): Promise<Verdict> {
  const { account, caller, endUserIp, ip, purpose, recipient } = request
  const tried = { account, caller, endUserIp, ip, captcha: { ...recipient, purpose } }
  const { limit } = request.server
  return limit.peek(keysFrom(limit.rules, WRONG_CODES, factsIn(tried)), tried as unknown as FastifyRequest)
}

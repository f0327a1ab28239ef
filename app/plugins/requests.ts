import { isIP } from 'node:net'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { canonicalIp } from '../../plugin/index.js'
import type { Price } from '../audit/cost.js'
import type { Captcha } from '../captcha/captchas.js'
import type { Clock } from '../clock.js'
import { errorsAt } from '../flaw.js'
import { problem } from '../problem.js'
import { countryOf, type Recipient } from '../recipient.js'
import type { Message } from '../senders/sender.js'
import type { Values } from '../templates/params.js'

declare module 'fastify' {
  interface FastifyInstance {
    clock: Clock
    /** The country of phone numbers without a country code (ISO 3166-1 alpha-2). */
    region: string
  }
  // What rules, filters and the audit trail read of a request; null until a hook of the route has set it.
  interface FastifyRequest {
    recipient: Recipient | null
    message: Message | null
    captcha: Captcha | null
    /** What a code is for. */
    purpose: string | null
    /** The values that a code is bound to; for a try, those that the caller takes it to be bound to. */
    bound: Values | null
    /** The thousand phone numbers around the recipient's: SMS pumping uses many in a row. Null for a mail address. */
    readonly numberRange: string | null
    /** The hundred thousand phone numbers around the recipient's. Null for a mail address. */
    readonly numberBlock: string | null
    /** How many messages a day the policy allows to the recipient's country; null where it says nothing. */
    readonly countryQuota: number | null
    /** The country of the recipient's phone number, where it has such a quota. */
    readonly limitedCountry: string | null
    /** What the message costs by the policy's prices; null where it has no price or is free. */
    price: Price | null
    /** IP address of the end user who is to get the message, as far as known. */
    endUserIp: string | null
    /** Whether the answer must reveal nothing about the recipient. */
    concealed: boolean
    /** Whether nothing is to be sent, although the answer does not show it. */
    withheld: boolean
  }
}

/** The header in which a server with a key says for which end user it asks. */
export const END_USER = 'x-end-user-ip'

/** How much of the end of `X-Forwarded-For` is read: it holds twenty addresses or more, and proxies add no more. */
const LONGEST_WAY = 1_000

/**
 * The end user's IP address. A server with a key may name it in END_USER; from others that header is ignored.
 * @throws a problem (422) when the header is no IP address
 */
export function endUserOf(request: FastifyRequest): string {
  const named = request.headers[END_USER]
  if (request.caller !== 'key' || named === undefined) return request.ip
  checkEndUserIp(named)
  return named
}

/**
 * @param pointer JSON pointer of the address in the body, if the body holds it
 * @throws a problem (422) when it is no IP address
 */
export function checkEndUserIp(named: string | string[], pointer?: string): asserts named is string {
  if (typeof named === 'string' && isIP(named) !== 0 && canonicalIp(named) !== undefined) return
  const detail = 'The address of the end user is not an IP address.'
  throw problem(422, 'END_USER_IP_INVALID', detail, errorsAt(pointer, 'FORMAT', { format: 'ip' }))
}

const requests: FastifyPluginAsync<{ clock: Clock; region: string }> = async (fastify, { clock, region }) => {
  fastify.decorate('clock', clock)
  fastify.decorate('region', region)
  // Fastify reads the whole header whenever it is asked for the client's address. What counts is at its end.
  fastify.addHook('onRequest', ({ headers }, _reply, done) => {
    const way = headers['x-forwarded-for']
    if (typeof way === 'string' && way.length > LONGEST_WAY)
      headers['x-forwarded-for'] = way.slice(way.indexOf(',', way.length - LONGEST_WAY) + 1)
    done()
  })
  for (const name of ['recipient', 'message', 'price', 'captcha', 'purpose', 'bound', 'endUserIp'] as const) {
    fastify.decorateRequest(name, null)
  }
  fastify.decorateRequest('concealed', false)
  fastify.decorateRequest('withheld', false)
  fastify.decorateRequest('countryQuota', {
    getter() {
      const { countryQuotas } = this.server.policy
      const country = countryQuotas && this.recipient && countryOf(this.recipient)
      return country ? (countryQuotas[country] ?? countryQuotas.default ?? null) : null
    }
  })
  fastify.decorateRequest('limitedCountry', {
    getter() {
      return this.countryQuota === null ? null : countryOf(this.recipient as Recipient)
    }
  })
  for (const [name, digits] of [
    ['numberRange', 3],
    ['numberBlock', 5]
  ] as const) {
    fastify.decorateRequest(name, {
      getter() {
        const { channel, to = '' } = this.recipient ?? {}
        return channel === 'sms' ? to.slice(0, -digits) : null
      }
    })
  }
}

export default fp(requests, { name: 'requests' })

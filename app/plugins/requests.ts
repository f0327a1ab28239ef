import { isIP } from 'node:net'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { canonicalIp } from '../../plugin/index.js'
import type { Captcha } from '../captcha/captchas.js'
import type { Clock } from '../clock.js'
import { errorsAt } from '../flaw.js'
import { problem } from '../problem.js'
import type { Recipient } from '../recipient.js'
import type { Message } from '../senders/sender.js'
import type { Values } from '../templates/params.js'

declare module 'fastify' {
  interface FastifyInstance {
    clock: Clock
    /** The country of phone numbers without a country code (ISO 3166-1 alpha-2). */
    region: string
  }
  // What rules, filters and the audit trail read of a request; null until a hook of the route has found it out.
  interface FastifyRequest {
    recipient: Recipient | null
    message: Message | null
    captcha: Captcha | null
    /** What a code is for. */
    purpose: string | null
    /** What a code is bound to, or, where it is tried, is said to be bound to. */
    bound: Values | null
    /** The thousand phone numbers of which the recipient has one: who pumps has many in a row. Of a mail address null. */
    readonly numberRange: string | null
    /** Address of the one who is to get the message, as far as it is known. */
    endUserIp: string | null
    /** Whether the answer is to say nothing of the recipient. */
    concealed: boolean
    /** Whether nothing is to be sent, which the answer conceals. */
    withheld: boolean
  }
}

/** Where a server that holds a key says for whom it asks. */
export const END_USER = 'x-end-user-ip'

/** Proxies add no more to `X-Forwarded-For`: the addresses of twenty or more. */
const LONGEST_WAY = 1_000

/**
 * The end user's address. Servers that hold a key may name it; whoever else names one is not listened to.
 * @throws a problem (422) when what was named is no address
 */
export function endUserOf(request: FastifyRequest): string {
  const named = request.headers[END_USER]
  if (request.caller !== 'key' || named === undefined) return request.ip
  checkEndUserIp(named)
  return named
}

/**
 * @param pointer where it stands in the body, if it does
 * @throws a problem (422) when it is no address
 */
export function checkEndUserIp(named: string | string[], pointer?: string): asserts named is string {
  if (typeof named === 'string' && isIP(named) !== 0 && canonicalIp(named) !== undefined) return
  const detail = 'The address of the end user is not an IP address.'
  throw problem(422, 'END_USER_IP_INVALID', detail, errorsAt(pointer, 'FORMAT', { format: 'ip' }))
}

const requests: FastifyPluginAsync<{ clock: Clock; region: string }> = async (fastify, { clock, region }) => {
  fastify.decorate('clock', clock)
  fastify.decorate('region', region)
  // Fastify reads all of it, and does so each time that it is asked for the client's address; what counts stands at its end.
  fastify.addHook('onRequest', ({ headers }, _reply, done) => {
    const way = headers['x-forwarded-for']
    if (typeof way === 'string' && way.length > LONGEST_WAY)
      headers['x-forwarded-for'] = way.slice(way.indexOf(',', way.length - LONGEST_WAY) + 1)
    done()
  })
  for (const name of ['recipient', 'message', 'captcha', 'purpose', 'bound', 'endUserIp'] as const) {
    fastify.decorateRequest(name, null)
  }
  fastify.decorateRequest('concealed', false)
  fastify.decorateRequest('withheld', false)
  fastify.decorateRequest('numberRange', {
    getter() {
      const { channel, to = '' } = this.recipient ?? {}
      return channel === 'sms' ? to.slice(0, -3) : null
    }
  })
}

export default fp(requests, { name: 'requests' })

import { createHmac, randomUUID } from 'node:crypto'
import { type Clock, iso } from '../clock.js'
import { poster } from './post.js'
import { provider } from './provider.js'
import { type Message, SendError } from './sender.js'

/** Posts messages to a service of the operator's own, signed as Standard Webhooks says (standardwebhooks.com). */
export const webhook = provider({
  channels: ['sms', 'mail'],
  needs: ['WEBHOOK_URL', 'WEBHOOK_SECRET'],
  async open({ WEBHOOK_URL: address, WEBHOOK_SECRET: secret, SEND_TIMEOUT: ms }, clock) {
    const url = new URL(address)
    const post = poster(url.protocol, ms)
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
    return {
      name: 'webhook',
      async send(message, signal) {
        const { id, body, headers } = signed(message, key, clock)
        const response = await post({ url, headers, body, signal })
        // The status says everything. The body is not read, since it may never end.
        response.destroy()
        const { statusCode = 0, headers: answered } = response
        if (statusCode >= 200 && statusCode < 300) return { sender: 'webhook', reference: id }
        throw outcomeOf(statusCode, answered['retry-after'], clock)
      }
    }
  }
})

/** The body and headers for a message. The signature covers id, time and body. */
function signed(message: Message, key: Buffer, clock: Clock) {
  const id = `msg_${randomUUID()}`
  const now = clock.wall()
  const seconds = Math.floor(now / 1_000)
  const body = JSON.stringify({ type: 'message.send', timestamp: iso(now), data: message })
  const signature = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': `v1,${signature}`
  }
  return { id, body, headers }
}

function outcomeOf(status: number, retryAfter: string | undefined, clock: Clock): SendError {
  const code = `HTTP_${status}`
  const retryAfterMs = waitOf(retryAfter, clock)
  if (status === 429) return new SendError('limited', { code, retryAfterMs })
  if (status === 422) return new SendError('refused', { code })
  if (status === 421) return new SendError('failed', { code, ofMessage: true })
  // 404 and 410 are about the service's address, not the recipient's. A redirect is not followed. A service that
  // answers 503 with Retry-After has taken nothing.
  const sure = (status >= 300 && status < 500) || (status === 503 && retryAfterMs !== undefined)
  return new SendError(sure ? 'failed' : 'unknown', { code })
}

/** Retry-After: seconds, or a date, which begins with the day's name (RFC 9110, sections 10.2.3 and 5.6.7). */
function waitOf(text: string | undefined, clock: Clock): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,7}$/.test(text)) return Number(text) * 1_000
  // Date.parse makes dates of other text, too: 1.5 is a day in January. Of the three forms, asctime's has no zone.
  const date = text.endsWith('GMT') ? text : `${text} GMT`
  const ms = /^[a-z]/i.test(text) ? Date.parse(date) - clock.wall() : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.max(ms, 0)
}

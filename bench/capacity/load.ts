// Asks for codes as the servers of a few accounts would. The messages go to a webhook of this process, so it knows the
// codes.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { certificateIn } from '../../test/helper/certificate.js'
import { answer, asked } from '../lib/child.js'
import { type Exchange, type Exchanged, exchangeAll } from '../lib/exchanges.js'
import { addressOf, pad } from '../lib/policy.js'

/** What is asked for. `bare` asks the bare route for a code, `keyed` asks for a code with an Idempotency-Key. */
export type What = 'bare' | 'code' | 'keyed' | 'verification' | 'resend' | 'refusal'
/** `webhook`: where messages are to go. */
export type Question = 'webhook' | { what: What; port: number; connections: number; count: number }
export type Asked = Exchanged

/** How many recipients are asked for again and again, who have just had a code. */
export const REFUSED = 100

interface Issued {
  /** Number of the recipient. */
  i: number
  id: string
  code: string
}

/** The code of each message, by phone number. */
const messages = new Map<string, string>()
/** Codes that were asked for. The newest are verified; the oldest, from more than a minute ago, are resent. */
const issued: Issued[] = []
let oldest = 0
let recipients = 0

// In a thousand blocks in turn, and each in another range, since the policy admits few in one.
const phoneOf = (i: number) =>
  `+86138${pad(i % 1_000, 3)}${pad(Math.floor(i / 1_000) % 100, 2)}${pad(Math.floor(i / 100_000), 3)}`

function post(i: number, path: string, body: object | undefined, expected: number, header = ''): Exchange {
  const text = body === undefined ? '' : JSON.stringify(body)
  const key = keys[i % keys.length]
  return {
    request: `POST /v1/captcha${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-api-key: ${key}\r\nx-end-user-ip: ${addressOf(i)}\r\n${header}content-length: ${text.length}\r\n\r\n${text}`,
    answered(status, answer) {
      if (status !== expected) throw new Error(`${path || '/'} was answered ${status}: ${answer}`)
    }
  }
}

const codeFor = (i: number, expected: number, header?: string) =>
  post(i, '', { phone: phoneOf(i), purpose: 'login' }, expected, header)

function issuing(i: number, header?: string): Exchange {
  const { request, answered } = codeFor(i, 202, header)
  return {
    request,
    answered(status, body) {
      answered(status, body)
      const code = messages.get(phoneOf(i))
      if (code === undefined) throw new Error('answered before the message was there')
      messages.delete(phoneOf(i))
      issued.push({ i, id: JSON.parse(body.toString()).id, code })
    }
  }
}

const make: Record<What, (turn: number) => Exchange> = {
  bare: turn => codeFor(turn, 202),
  code: () => issuing(recipients++),
  keyed: () => issuing(recipients++, `idempotency-key: "${randomUUID()}"\r\n`),
  verification() {
    const { i, id, code } = issued.pop() as Issued
    return post(i, '/verify', { id, code }, 200)
  },
  resend() {
    const { i, id } = issued[oldest++] as Issued
    return post(i, `/${id}/resend`, undefined, 202)
  },
  refusal: turn => codeFor((issued.at(-1 - (turn % REFUSED)) as Issued).i, 429)
}

async function ask({ what, port, connections, count }: Exclude<Question, 'webhook'>): Promise<Asked> {
  let turn = 0
  return exchangeAll({ port, connections, awake: false }, () =>
    turn < count ? make[what](turn++) : undefined
  )
}

/** Starts the webhook, which takes every message at once. @returns its URL */
async function listen(): Promise<string> {
  const { cert, key } = certificateIn(folder)
  const tls = { cert: readFileSync(cert), key: readFileSync(key) }
  const server = createServer(tls, async (request, response) => {
    const { data } = (await json(request)) as { data: { to: string; text: string } }
    messages.set(data.to, /\d{6}/.exec(data.text)?.[0] ?? '')
    response.end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const [folder = '', ...keys] = asked() ?? []
if (asked()) {
  const url = await listen()
  answer((question: Question) => (question === 'webhook' ? url : ask(question)))
}

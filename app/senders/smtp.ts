import type { Readable } from 'node:stream'
import { provider } from './provider.js'
import { type Message, SendError } from './sender.js'

/** How many connections are kept open at most. */
const CONNECTIONS = 5

/** Mail through a server, over connections that are kept open. */
export const smtp = provider({
  channels: ['mail'],
  needs: ['SMTP_URL', 'MAIL_FROM'],
  packages: 'nodemailer',
  async open({ SMTP_URL: url, MAIL_FROM: from, SMTP_TLS: tls, NODE_ENV: env, SEND_TIMEOUT: ms }) {
    const { createTransport } = await import('nodemailer')
    const transport = createTransport({
      pool: true,
      url,
      requireTLS: (tls ?? (env === 'production' ? 'required' : 'opportunistic')) === 'required',
      connectionTimeout: ms * 0.4,
      greetingTimeout: ms * 0.4,
      socketTimeout: ms * 0.8,
      maxConnections: CONNECTIONS,
      // Another try for each kept connection that turns out to be dead, or to take no more messages, before anything of
      // the message has left.
      maxRequeues: CONNECTIONS,
      disableFileAccess: true,
      disableUrlAccess: true
    })
    transport.use('stream', (mail, done) => {
      const { watch } = mail.data as Watched
      const { message } = mail
      const create = message.createReadStream.bind(message)
      message.createReadStream = options => (watch.body = create(options))
      const envelope = message.getEnvelope.bind(message)
      message.getEnvelope = () => (watch.envelope = envelope())
      done()
    })
    return {
      name: 'smtp',
      check,
      async send(message, signal) {
        check(message)
        const { to, subject = '', text, html } = message
        const watch: Watched['watch'] = {}
        const early = new AbortController()
        const giveUp = (share: number, when: () => boolean) =>
          setTimeout(() => when() && early.abort(), ms * share)
        // Each leaves time for the next sender.
        const timers = [
          // What waits longer for a connection would begin only to be broken off, and the connection with it.
          giveUp(0.6, () => watch.body === undefined),
          // The time-out of the socket starts anew with each byte, and with the second try.
          giveUp(0.8, () => watch.body?.readableDidRead !== true)
        ]
        // `to` is an object, so that nodemailer does not parse the address and take it for several.
        const mail = {
          from,
          to: { name: '', address: to },
          headers: { subject: encoded(subject), 'auto-submitted': 'auto-generated' },
          text,
          ...(html && { html }),
          signal: AbortSignal.any([signal, early.signal]),
          watch
        }
        try {
          const { messageId } = await transport.sendMail(mail)
          return { sender: 'smtp', reference: messageId }
        } catch (error) {
          if (early.signal.aborted) throw new SendError('failed', { code: 'ETIMEDOUT' })
          const cause = refusalIn(watch.envelope) ?? (error as SmtpError)
          throw outcomeOf(cause, watch.body?.readableDidRead === true, to)
        } finally {
          for (const timer of timers) clearTimeout(timer)
        }
      },
      close: () => transport.close()
    }
  }
})

/** Refuses addresses with `<` or `>`: nodemailer would put spaces in their place, and so address another mailbox. */
function check({ to }: Message): void {
  if (/[<>]/.test(to)) throw new SendError('refused', { code: 'EENVELOPE' })
}

/**
 * Encodes a subject that nodemailer, which leaves ASCII alone, would not: one that mail programs would decode (RFC
 * 2047, section 6.2), or one that makes a line of more than 998 characters, as it has no place to break (RFC 5322,
 * section 2.1.1).
 */
function encoded(subject: string) {
  if (!/=\?|[^ ]{900}/.test(subject)) return subject
  const words = subject.match(/.{1,9}/gsu)?.map(part => `=?utf-8?B?${Buffer.from(part).toString('base64')}?=`)
  return { prepared: true, value: words?.join('\r\n ') ?? '' }
}

interface Watched {
  watch: {
    /** The stream from which the message is read for the server; unset until nodemailer makes it. */
    body?: Readable
    /** Of the newest try; nodemailer notes in it what the server replies. */
    envelope?: Envelope
  }
}

interface Envelope {
  to: unknown
  mailError?: SmtpError
  rejectedErrors?: SmtpError[]
}

type SmtpError = Error & { code?: string; command?: string; response?: string; responseCode?: number }

/**
 * The refusal of the sender or the recipient. With PIPELINING nodemailer awaits the reply to DATA as well, and forgets
 * the refusal if the server closes before, as Exim does by `drop`. (421 it reports itself.)
 */
function refusalIn(envelope: Envelope | undefined): SmtpError | undefined {
  const refusal = envelope?.mailError ?? envelope?.rejectedErrors?.[0]
  return refusal?.responseCode === 421 ? undefined : refusal
}

/** A matter of policy, such as a rate limit or greylisting (RFC 3463, section 3.8). */
const POLICY = /^\d{3}[ -][45]\.7\./

/**
 * A matter of the recipient's address or mailbox (RFC 3463, sections 3.2 and 3.3). Some servers, such as Exchange
 * Online, check it only after the data.
 */
const MAILBOX = /^\d{3}[ -][45]\.(?:1\.(?:[1236]|10)|2\.[12])\b/
/** The replies of Amazon SES and Gmail at their limits. */
const LIMIT = /^(?:454 Throttling|\d{3}[ -][45]\.4\.5)\b/

/** The message is too big, or its content is not accepted (RFC 3463, sections 3.4 and 3.7). */
const CONTENT = /^\d{3}[ -][45]\.(?:3\.4|6\.\d{1,3})\b/

/** A non-ASCII mailbox (RFC 6531). Servers without SMTPUTF8, such as Amazon SES, may refuse it only after the data. */
const BEYOND_ASCII = /[^\0-\x7f].*@/

function outcomeOf(
  { code, command, response = '', responseCode }: SmtpError,
  begun: boolean,
  to: string
): SendError {
  const answer = { code: String(responseCode ?? code ?? 'ERROR') }
  // By 4yz and 5yz a server says that it has not taken the message (RFC 5321, section 4.2.1). Any other reply, such as
  // 354, is about something else and does not tell.
  if (responseCode === undefined || responseCode < 400 || responseCode > 599)
    return new SendError(begun ? 'unknown' : 'failed', answer)
  const policy = POLICY.test(response)
  const rate = responseCode === 452 || ([421, 450, 451].includes(responseCode) && policy)
  if (rate || LIMIT.test(response)) return new SendError('limited', answer)
  const behindData = command === 'DATA'
  const ofRecipient = command === 'RCPT TO' || (behindData && MAILBOX.test(response))
  // A policy with 5yz is about this client, as in "relaying denied", not about the mailbox.
  if (ofRecipient && responseCode >= 500 && !policy) return new SendError('refused', answer)
  const ofMail = behindData && (CONTENT.test(response) || (responseCode >= 500 && BEYOND_ASCII.test(to)))
  // A server that replies to RCPT works, unless the reply is that it closes (421).
  return new SendError('failed', { ...answer, ofMessage: ofMail || (ofRecipient && responseCode !== 421) })
}

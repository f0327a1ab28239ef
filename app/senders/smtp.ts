import type { Readable } from 'node:stream'
import { provider } from './provider.js'
import { type Message, SendError } from './sender.js'

/** Mail through a server, over connections that are kept. */
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
      // Once more, when a kept connection turns out to be dead before anything of the message has left.
      maxRequeues: 1,
      disableFileAccess: true,
      disableUrlAccess: true
    })
    transport.use('stream', (mail, done) => {
      const { watch } = mail.data as Watched
      const { message } = mail
      const create = message.createReadStream.bind(message)
      message.createReadStream = options => (watch.body = create(options))
      done()
    })
    return {
      name: 'smtp',
      check,
      async send(message, signal) {
        check(message)
        const { to, subject = '', text, html } = message
        const watch: Watched['watch'] = {}
        // As an object, so that one address stays one address.
        const mail = {
          from,
          to: { name: '', address: to },
          headers: { subject: encoded(subject), 'auto-submitted': 'auto-generated' },
          text,
          ...(html && { html }),
          signal,
          watch
        }
        try {
          const { messageId } = await transport.sendMail(mail)
          return { sender: 'smtp', reference: messageId }
        } catch (error) {
          throw outcomeOf(error as SmtpError, watch.body?.readableDidRead === true, to)
        }
      },
      close: () => transport.close()
    }
  }
})

/** nodemailer would write spaces in place of these, and so another mailbox. */
function check({ to }: Message): void {
  if (/[<>]/.test(to)) throw new SendError('refused', { code: 'EENVELOPE' })
}

/**
 * nodemailer leaves ASCII alone, also what mail programs would decode (RFC 2047, section 6.2), and what makes a line of more
 * than 998 characters, as it has nowhere to break (RFC 5322, section 2.1.1).
 */
function encoded(subject: string) {
  if (!/=\?|[^ ]{900}/.test(subject)) return subject
  const words = subject.match(/.{1,9}/gsu)?.map(part => `=?utf-8?B?${Buffer.from(part).toString('base64')}?=`)
  return { prepared: true, value: words?.join('\r\n ') ?? '' }
}

interface Watched {
  /** The message as it is read for the server. */
  watch: { body?: Readable }
}

type SmtpError = Error & { code?: string; command?: string; response?: string; responseCode?: number }

/** RFC 3463, section 3.8: a policy, such as a rate, or grey-listing. */
const POLICY = /^\d{3}[ -][45]\.7\./

/**
 * The recipient's address or mailbox (RFC 3463, sections 3.2 and 3.3): some servers, such as Exchange Online, look at it
 * behind the data alone.
 */
const MAILBOX = /^\d{3}[ -][45]\.(?:1\.(?:[1236]|10)|2\.[12])\b/
/** What Amazon SES and Gmail say at their limits. */
const LIMIT = /^(?:454 Throttling|\d{3}[ -][45]\.4\.5)\b/

/** The message is too big, or holds what is not taken (RFC 3463, sections 3.4 and 3.7). */
const CONTENT = /^\d{3}[ -][45]\.(?:3\.4|6\.\d{1,3})\b/

/** A mailbox beyond ASCII (RFC 6531): servers without SMTPUTF8, such as Amazon SES, may refuse it behind the data alone. */
const BEYOND_ASCII = /[^\0-\x7f].*@/

function outcomeOf(
  { code, command, response = '', responseCode }: SmtpError,
  begun: boolean,
  to: string
): SendError {
  const answer = { code: String(responseCode ?? code ?? 'ERROR') }
  // With 4yz and 5yz a server says that it has not taken the message (RFC 5321, section 4.2.1). All else tells nothing of it,
  // as 354, which belongs to something else.
  if (responseCode === undefined || responseCode < 400 || responseCode > 599)
    return new SendError(begun ? 'unknown' : 'failed', answer)
  const policy = POLICY.test(response)
  const rate = responseCode === 452 || ([421, 450, 451].includes(responseCode) && policy)
  if (rate || LIMIT.test(response)) return new SendError('limited', answer)
  const behindData = command === 'DATA'
  const ofRecipient = command === 'RCPT TO' || (behindData && MAILBOX.test(response))
  // A policy of 5yz is about us, as in "relaying denied", not about the mailbox.
  if (ofRecipient && responseCode >= 500 && !policy) return new SendError('refused', answer)
  const ofMail = behindData && (CONTENT.test(response) || (responseCode >= 500 && BEYOND_ASCII.test(to)))
  // A server that answers to a recipient works, unless it says goodbye (421).
  return new SendError('failed', { ...answer, ofMessage: ofMail || (ofRecipient && responseCode !== 421) })
}

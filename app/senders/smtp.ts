import { createTransport } from 'nodemailer'
import { type Sender, UnclearError } from './sender.js'

/** Mail through a server. */
export function smtpSender({ url, from }: { url: string; from: string }): Sender {
  const transport = createTransport({ url })
  return {
    name: 'smtp',
    async send({ to, subject, text }, signal) {
      try {
        // As an object, so that one address stays one address.
        await transport.sendMail({ from, to: { name: '', address: to }, subject, text, signal })
      } catch (error) {
        throw isRefusal(error) ? error : new UnclearError('the connection broke off', { cause: error })
      }
    }
  }
}

// Before the server takes the envelope there is no message that it could have.
const BEFORE_DATA = new Set(['EDNS', 'ETLS', 'EAUTH', 'ENOAUTH', 'EOAUTH2', 'EENVELOPE', 'EPROXY'])

function isRefusal(error: unknown): boolean {
  const {
    code = '',
    syscall,
    responseCode = 0
  } = error as { code?: string; syscall?: string; responseCode?: number }
  return responseCode >= 400 || syscall === 'connect' || BEFORE_DATA.has(code)
}

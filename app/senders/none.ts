import { SendError, type Sender } from './sender.js'

/** Fails every message, where no sender is configured: a message that goes nowhere must not look sent. */
export const none: Sender = {
  name: 'none',
  async send() {
    throw new SendError('failed', { sender: 'none', code: 'NO_SENDER', ofMessage: true })
  }
}

import { problem } from '../problem.js'
import type { Sender } from './sender.js'

/** Stands where no sender is configured: a message that goes nowhere must not look sent. */
export const none: Sender = {
  name: 'none',
  async send({ channel }) {
    throw problem(503, 'NO_SENDER', `No sender for ${channel} is configured.`)
  }
}

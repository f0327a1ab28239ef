import type { Clock } from '../clock.js'
import type { Config } from '../config.js'
import { none } from './none.js'
import { Outbox } from './outbox.js'
import type { Senders } from './sender.js'
import { smtpSender } from './smtp.js'

/** The senders that the configuration names. Without one it is the outbox; in production that is not kept. */
export function openSenders(config: Config, clock: Clock, print: (line: string) => void) {
  const kept = config.NODE_ENV !== 'production' && config.DEV_OUTBOX === 'on'
  const outbox = kept ? new Outbox(clock, print) : null
  const { SMTP_URL: url, MAIL_FROM: from } = config
  const senders: Senders = {
    sms: outbox ?? none,
    mail: url !== undefined && from !== undefined ? smtpSender({ url, from }) : (outbox ?? none)
  }
  return { outbox, senders }
}

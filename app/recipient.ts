import { canonicalEmail, canonicalPhone, phoneCountry } from '../plugin/index.js'
import { errorsAt } from './flaw.js'
import { problem } from './problem.js'
import type { Channel } from './senders/sender.js'
import { takesSms } from './sms-numbers.js'

/**
 * Stands for numbers that belong to no country, as UN M.49 has 001 for the world: satellite phones (+881, +870) and
 * international networks (+882). A message to one costs many times as much, so it is sent only if the policy says so.
 */
export const NO_COUNTRY = '001'

/** The recipient of a message. */
export interface Recipient {
  channel: Channel
  /** Where messages are sent: a phone number in E.164, or a mail address as it was given, without a final dot. */
  to: string
  /** One form for all spellings, for limits and lists. */
  identity: string
  /** What may be shown of the number or address. */
  masked: string
}

interface RecipientOptions {
  /** The country of phone numbers without a country code (ISO 3166-1 alpha-2). */
  region: string
  /** JSON pointer of the recipient in the body, for errors. */
  pointer?: string
}

/**
 * Reads the recipient of a body, whether or not its country is served.
 * @throws a problem (422) when there is no recipient or two, or it can receive no message
 */
export function recipientOf(given: { phone?: string; email?: string }, options: RecipientOptions): Recipient {
  const { phone, email } = given
  checkOne(given, ['phone', 'email'])
  return phone === undefined ? mailRecipient(email as string, options) : smsRecipient(phone, options)
}

/** @throws a problem (422) unless a body names one recipient, by one of these members */
export function checkOne<Member extends string>(
  body: { [member in Member]?: string },
  members: readonly Member[]
): void {
  if (members.filter(member => body[member] !== undefined).length === 1) return
  throw problem(422, 'RECIPIENT_MISSING', 'Name one recipient, by one of {members}.', { members })
}

/**
 * Whether both are the same number or mailbox. Here only the case of ASCII letters makes no difference: addresses that
 * limits count as one may belong to two people.
 */
export function isSame(one: Pick<Recipient, 'to'>, other: Pick<Recipient, 'to'>): boolean {
  return inLowerCase(one.to) === inLowerCase(other.to)
}

// Not by toLowerCase, which would also turn the kelvin sign into a "k".
const inLowerCase = (text: string) => text.replace(/[A-Z]/g, letter => letter.toLowerCase())

function smsRecipient(phone: string, { region, pointer = '#/phone' }: RecipientOptions): Recipient {
  const errors = errorsAt(pointer, 'UNSENDABLE')
  const to = canonicalPhone(phone, region)
  if (to === undefined) throw problem(422, 'PHONE_INVALID', 'This is not a possible phone number.', errors)
  if (!takesSms(to))
    throw problem(422, 'PHONE_TAKES_NO_SMS', 'This kind of number cannot receive SMS.', errors)
  return { channel: 'sms', to, identity: to, masked: maskPhone(to) }
}

/** The country of a phone number (ISO 3166-1), or `001` if it has none; null for a mail address. */
export function countryOf({ channel, to }: Pick<Recipient, 'channel' | 'to'>): string | null {
  return channel === 'sms' ? (phoneCountry(to) ?? NO_COUNTRY) : null
}

function mailRecipient(email: string, { pointer = '#/email' }: RecipientOptions): Recipient {
  const identity = canonicalEmail(email)
  if (identity === undefined) {
    const errors = errorsAt(pointer, 'UNSENDABLE')
    throw problem(422, 'EMAIL_INVALID', 'This is not a possible mail address.', errors)
  }
  // Mail servers refuse the dot (RFC 5321, section 4.1.2). Browsers and nodemailer read all of these as one.
  const to = email.trim().replace(/[.。．｡]$/u, '')
  return { channel: 'mail', to, identity, masked: maskEmail(to) }
}

/**
 * Keeps the first two digits and the last four, fewer of short numbers, since at least four are hidden: +86*******8000
 */
function maskPhone(number: string): string {
  const hidden = Math.max(4, number.length - 7)
  return number.slice(0, 3) + '*'.repeat(hidden) + number.slice(3 + hidden)
}

/** Keeps the first letter and the domain. The number of letters left out is not shown. */
function maskEmail(address: string): string {
  const at = address.lastIndexOf('@')
  return `${[...address][0]}***${address.slice(at)}`
}

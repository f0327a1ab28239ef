import type { CountryCode } from 'libphonenumber-js/max'
import { canonicalEmail, canonicalPhone, phoneCountry } from '../plugin/index.js'
import { errorsAt } from './flaw.js'
import { problem } from './problem.js'
import type { Channel } from './senders/sender.js'
import { takesSms } from './sms-numbers.js'

/**
 * Stands for numbers that belong to no country (UN M.49 has the world as 001): satellite phones, +881 and +870. A message
 * to one costs many times as much, so they are sent to where a policy says so alone.
 */
export const NO_COUNTRY = '001'

/** Who a message goes to. */
export interface Recipient {
  channel: Channel
  /** Where it is sent: a phone number in E.164, or a mail address as it was given. */
  to: string
  /** One form for all spellings, for limits and lists. */
  identity: string
  /** What may be shown of it. */
  masked: string
}

interface RecipientOptions {
  /** Where phone numbers without a country code are from (ISO 3166-1 alpha-2). */
  region: string
  /** Where it stands, for the errors: as a JSON pointer. */
  pointer?: string
}

/**
 * Reads the one recipient of a body, whether its country is served or not.
 * @throws a problem (422) when there is none or two, or no message can go there
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
 * Whether both are one number or mailbox. Addresses that limits take for one may be those of two people: only the case
 * of ASCII letters makes no difference here.
 */
export function isSame(one: Pick<Recipient, 'to'>, other: Pick<Recipient, 'to'>): boolean {
  return inLowerCase(one.to) === inLowerCase(other.to)
}

// toLowerCase makes a "k" of the sign for kelvin, too.
const inLowerCase = (text: string) => text.replace(/[A-Z]/g, letter => letter.toLowerCase())

function smsRecipient(phone: string, { region, pointer = '#/phone' }: RecipientOptions): Recipient {
  const errors = errorsAt(pointer, 'UNSENDABLE')
  const to = canonicalPhone(phone, region as CountryCode)
  if (to === undefined) throw problem(422, 'PHONE_INVALID', 'This is not a possible phone number.', errors)
  if (!takesSms(to))
    throw problem(422, 'PHONE_TAKES_NO_SMS', 'This kind of number cannot receive SMS.', errors)
  return { channel: 'sms', to, identity: to, masked: maskPhone(to) }
}

/** The country of a phone number (ISO 3166-1), or `001`; null of a mail address. */
export function countryOf({ channel, to }: Pick<Recipient, 'channel' | 'to'>): string | null {
  return channel === 'sms' ? (phoneCountry(to) ?? NO_COUNTRY) : null
}

function mailRecipient(email: string, { pointer = '#/email' }: RecipientOptions): Recipient {
  const identity = canonicalEmail(email)
  if (identity === undefined) {
    const errors = errorsAt(pointer, 'UNSENDABLE')
    throw problem(422, 'EMAIL_INVALID', 'This is not a possible mail address.', errors)
  }
  const to = email.trim()
  return { channel: 'mail', to, identity, masked: maskEmail(to) }
}

/** The first two digits and the last four stay, of short numbers fewer, as four are hidden of each: +86*******8000 */
function maskPhone(number: string): string {
  const hidden = Math.max(4, number.length - 7)
  return number.slice(0, 3) + '*'.repeat(hidden) + number.slice(3 + hidden)
}

/** The first letter and the domain stay; how many are left out is not told. */
function maskEmail(address: string): string {
  const at = address.lastIndexOf('@')
  return `${[...address][0]}***${address.slice(at)}`
}

import { canonicalEmail, canonicalPhone } from '../plugin/index.js'
import { problem } from './problem.js'

const invalid = (pointer: string, detail: string) =>
  problem(422, 'RECIPIENT', 'No message can go there.', { errors: [{ pointer, detail }] })

/**
 * The number that a message goes to, in E.164.
 * @param region where numbers without a country code are from
 * @throws a problem (422)
 */
export function phoneNumber(text: string, region: string): string {
  const number = canonicalPhone(text, region as Parameters<typeof canonicalPhone>[1])
  if (number === undefined) throw invalid('#/phone', 'is no phone number')
  return number
}

/**
 * The address that a mail goes to, as it was given.
 * @throws a problem (422)
 */
export function mailAddress(text: string): string {
  if (canonicalEmail(text) === undefined) throw invalid('#/to', 'is no mail address')
  return text.trim()
}

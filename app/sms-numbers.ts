// As in the plugin: `libphonenumber-js/max` has `Metadata` only as an ES module, not as CommonJS.
import { Metadata } from 'libphonenumber-js/core'
import { type CountryCode, type NumberType, parsePhoneNumberFromString } from 'libphonenumber-js/max'
import metadata from 'libphonenumber-js/metadata.max'
import { phoneCountry } from '../plugin/index.js'

/** What the library's types leave out: the numbering plan of a country, and a kind of its numbers. */
interface Plan {
  callingCode(): string
  type(name: NumberType): Kind | undefined
}
interface Kind {
  pattern(): string
  possibleLengths(): number[]
}

/**
 * Kinds of numbers that can receive an SMS. Where mobile numbers cannot be told from fixed lines, all of both can.
 * Personal numbers (+44 70) are not among them: their owners set the price and get a share of it.
 */
const MOBILE = new Set<NumberType>(['MOBILE', 'FIXED_LINE_OR_MOBILE'])

const plans = new Metadata(metadata) as unknown as {
  numberingPlan: Plan
  selectNumberingPlan(of: string): void
}
/** Kept, since the library compiles its patterns anew for each number. */
const patterns = new Map<CountryCode, RegExp>()

/** Whether a valid number in E.164 is of a kind that can receive an SMS. */
export function takesSms(number: string): boolean {
  const country = phoneCountry(number)
  if (country === undefined) return MOBILE.has(parsePhoneNumberFromString(number)?.getType())
  let pattern = patterns.get(country)
  if (pattern === undefined) {
    pattern = patternOf(country)
    patterns.set(country, pattern)
  }
  return pattern.test(number)
}

function patternOf(country: CountryCode): RegExp {
  plans.selectNumberingPlan(country)
  const { numberingPlan: plan } = plans
  const mobile = plan.type('MOBILE')
  // Where mobile numbers look like fixed lines, the pattern of those stands for both. Each country has fixed lines.
  const kind = mobile?.pattern() ? mobile : (plan.type('FIXED_LINE') as Kind)
  const lengths = kind.possibleLengths().map(length => `.{${length}}`)
  return new RegExp(`^\\+${plan.callingCode()}(?=(?:${lengths.join('|')})$)(?:${kind.pattern()})$`)
}

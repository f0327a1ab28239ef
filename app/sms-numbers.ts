// As in the plugin: `libphonenumber-js/max` has it as a module alone.
import { Metadata } from 'libphonenumber-js/core'
import { type CountryCode, type NumberType, parsePhoneNumberFromString } from 'libphonenumber-js/max'
import metadata from 'libphonenumber-js/metadata.max'
import { phoneCountry } from '../plugin/index.js'

/** What the library's types leave out: of a country, and of a kind of its numbers. */
interface Plan {
  callingCode(): string
  type(name: NumberType): Kind | undefined
}
interface Kind {
  pattern(): string
  possibleLengths(): number[]
}

/**
 * Kinds of numbers that take an SMS; where a country does not tell mobile numbers from others, all of both. Personal
 * numbers (+44 70) are not among them: they cost as their owners please, who share in it.
 */
const MOBILE = new Set<NumberType>(['MOBILE', 'FIXED_LINE_OR_MOBILE'])

const plans = new Metadata(metadata) as unknown as {
  numberingPlan: Plan
  selectNumberingPlan(of: string): void
}
/** The library compiles its own patterns anew for each number. */
const patterns = new Map<CountryCode, RegExp>()

/** Whether a number, valid and in E.164, is of a kind that takes an SMS. */
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
  // Where mobile numbers look like all others, one pattern stands for both. Each country has fixed lines.
  const kind = mobile?.pattern() ? mobile : (plan.type('FIXED_LINE') as Kind)
  const lengths = kind.possibleLengths().map(length => `.{${length}}`)
  return new RegExp(`^\\+${plan.callingCode()}(?=(?:${lengths.join('|')})$)(?:${kind.pattern()})$`)
}

import type { CountryCode } from 'libphonenumber-js'
import { countryIn, type NumberingPlan, planOf, planOfNumber } from './numbering-plan.js'

/**
 * The E.164 form of digits that are a valid number as they stand: a national one of `region`, or one with a plus and a
 * calling code. Digits behind a trunk prefix, or behind a calling code without its plus, are read, too, if they can
 * mean no other number. `undefined` where the library must be asked.
 */
export function plainNumber(digits: string, region: CountryCode | undefined): string | undefined {
  try {
    return recognised(digits, region)
  } catch {
    // Another version of the library may lack the metadata that its types leave out. Then the library itself is asked.
    return undefined
  }
}

/** The country of a valid number in E.164; `undefined` where the library must be asked. */
export function plainCountry(number: string): CountryCode | undefined {
  try {
    return countryOf(number)
  } catch {
    return undefined
  }
}

function recognised(digits: string, region: CountryCode | undefined): string | undefined {
  if (digits.startsWith('+')) {
    const plan = planOfNumber(digits)
    if (!plan) return undefined
    return standing(plan, digits) ?? withoutTrunk(plan, nationalOf(plan, digits))
  }
  const plan = region && planOf(region)
  if (!plan) return undefined
  if (digits.startsWith(plan.callingCode)) return beginningAlike(plan, digits, region)
  if (plan.mainNational.test(digits)) return `+${plan.callingCode}${digits}`
  const [abroad] = plan.abroad.exec(digits) ?? []
  if (abroad !== undefined) return recognised(`+${digits.slice(abroad.length)}`, undefined)
  return countryIn(plan, digits) ? `+${plan.callingCode}${digits}` : withoutTrunk(plan, digits)
}

/** A number with a plus, as it is, if it is valid. */
function standing(plan: NumberingPlan, number: string): string | undefined {
  const own = nationalOf(plan, number)
  return plan.main.test(own) || countryIn(plan, own) ? number : undefined
}

function withoutTrunk({ callingCode, trunk, national }: NumberingPlan, digits: string): string | undefined {
  const [prefix, ...groups] = trunk.exec(digits) ?? []
  // If the prefix has captured groups, the library makes another number of them.
  if (prefix === undefined || groups.some(group => group !== undefined)) return undefined
  const rest = digits.slice(prefix.length)
  const number = `+${callingCode}${rest}`
  const plan = national.test(rest) && planOfNumber(number)
  return plan ? standing(plan, number) : undefined
}

/**
 * Reads digits that begin as the calling code does: either the code lacks its plus, or they are a national number.
 * `undefined` where it may be both.
 */
function beginningAlike(plan: NumberingPlan, digits: string, region: CountryCode): string | undefined {
  const { callingCode, countries, trunk, national } = plan
  if (plan.abroad.test(digits)) return undefined
  const whole = `+${digits}`
  if (trunk.test(digits)) return withoutTrunk(plan, digits) === whole ? whole : undefined
  const rest = digits.slice(callingCode.length)
  if (trunk.test(rest)) return undefined
  if (!national.test(digits)) return national.test(rest) ? recognised(whole, undefined) : undefined
  const sure = countries[0]?.code === region && !countries.some(({ numbers }) => numbers.test(rest))
  return sure && plan.mainNational.test(digits) ? `+${callingCode}${digits}` : undefined
}

function countryOf(number: string): CountryCode | undefined {
  const plan = planOfNumber(number)
  if (!plan) return undefined
  const { countries } = plan
  return countries.length === 1 ? countries[0]?.code : countryIn(plan, nationalOf(plan, number))
}

/** The digits behind the plus and the calling code. */
function nationalOf({ callingCode }: NumberingPlan, number: string): string {
  return number.slice(1 + callingCode.length)
}

import type { CountryCode } from 'libphonenumber-js'
// `libphonenumber-js/max` has it as a module alone, not as CommonJS: tsx and others make that of an app.
import { Metadata } from 'libphonenumber-js/core'
import metadata from 'libphonenumber-js/metadata.max'

/** What the library knows of a country, 0 for nothing; its types leave it out. */
interface Plan {
  callingCode(): string
  IDDPrefix(): string | 0
  nationalPrefixForParsing(): string | 0
  nationalNumberPattern(): string
  leadingDigits(): string | 0
  type(name: string): { pattern(): string; possibleLengths(): number[] } | undefined
}

interface Plans {
  numberingPlan: Plan
  selectNumberingPlan(countryOrCallingCode: string): void
  hasCallingCode(code: string): boolean
  getCountryCodesForCallingCode(code: string): string[] | undefined
}

/** A country, and what its numbers look like; the library compiles its own patterns anew for each number. */
interface Country {
  code: CountryCode
  /** What its numbers begin with, of no other country of its calling code, where the library tells that. */
  leading: RegExp | undefined
  numbers: RegExp
}

/** How numbers are read that are dialled in one country, or that begin with one calling code. */
interface Compiled {
  callingCode: string
  /** Those of this calling code, the main one first. */
  countries: readonly Country[]
  /** A trunk prefix, one that is not empty. */
  trunk: RegExp
  /** What any national number looks like. */
  national: RegExp
  /** What a call abroad begins with. */
  abroad: RegExp
  /** Most numbers, by one look: those of the main country without a trunk prefix. */
  main: RegExp
  /** Those of them that do not begin as a call abroad does. */
  mainNational: RegExp
}

const TYPES = [
  'MOBILE',
  'FIXED_LINE',
  'PREMIUM_RATE',
  'TOLL_FREE',
  'SHARED_COST',
  'VOIP',
  'PERSONAL_NUMBER',
  'PAGER',
  'UAN',
  'VOICEMAIL'
]
const NEVER = '(?!)'

const plans = new Metadata(metadata) as unknown as Plans
const compiled = new Map<string, Compiled | null>()
const countries = new Map<string, Country>()

/**
 * The E.164 form of digits that are a valid number as they stand: a national one of `region`, or with a plus and a
 * calling code. So are those behind a trunk prefix, or a calling code that lacks its plus, where no other can be meant.
 * `undefined` where the library must be asked.
 */
export function plainNumber(digits: string, region: CountryCode | undefined): string | undefined {
  try {
    return recognised(digits, region)
  } catch {
    // Another version of the library may lack what its types leave out: then it is asked itself.
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
    return standing(plan, digits) ?? withoutTrunk(plan, digits.slice(1 + plan.callingCode.length))
  }
  const plan = region && planOf(region)
  if (!plan) return undefined
  if (digits.startsWith(plan.callingCode)) return beginningAlike(plan, digits, region)
  if (plan.mainNational.test(digits)) return `+${plan.callingCode}${digits}`
  const [abroad] = plan.abroad.exec(digits) ?? []
  if (abroad !== undefined) return recognised(`+${digits.slice(abroad.length)}`, undefined)
  return countryIn(plan, digits) ? `+${plan.callingCode}${digits}` : withoutTrunk(plan, digits)
}

/** With a plus, the number as it is where it is valid. */
function standing(plan: Compiled, number: string): string | undefined {
  const own = number.slice(1 + plan.callingCode.length)
  return plan.main.test(own) || countryIn(plan, own) ? number : undefined
}

function withoutTrunk({ callingCode, trunk, national }: Compiled, digits: string): string | undefined {
  const [prefix, ...groups] = trunk.exec(digits) ?? []
  // Of what stands in groups the library makes another number.
  if (prefix === undefined || groups.some(group => group !== undefined)) return undefined
  const rest = digits.slice(prefix.length)
  const number = `+${callingCode}${rest}`
  const plan = national.test(rest) && planOfNumber(number)
  return plan ? standing(plan, number) : undefined
}

/** Of digits that begin as the calling code does: it lacks its plus, or they are a national number, but surely not both. */
function beginningAlike(plan: Compiled, digits: string, region: CountryCode): string | undefined {
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
  return countries.length === 1
    ? countries[0]?.code
    : countryIn(plan, number.slice(1 + plan.callingCode.length))
}

/** As the library does: it takes the first country whose leading digits they have, or, if it has none, whose type. */
function countryIn({ countries, trunk }: Compiled, digits: string): CountryCode | undefined {
  if (trunk.test(digits)) return undefined
  const found = countries.find(({ leading, numbers }) => (leading ?? numbers).test(digits))
  return found?.numbers.test(digits) ? found.code : undefined
}

function planOfNumber(digits: string): Compiled | null | undefined {
  for (let end = 2; end <= 4; end++) {
    const code = digits.slice(1, end)
    if (plans.hasCallingCode(code)) return planOf(code)
  }
}

function planOf(countryOrCallingCode: string): Compiled | null {
  const known = compiled.get(countryOrCallingCode)
  if (known !== undefined) return known
  const plan = compile(countryOrCallingCode)
  compiled.set(countryOrCallingCode, plan)
  return plan
}

/** @returns null for what is no country's, such as +800 */
function compile(countryOrCallingCode: string): Compiled | null {
  plans.selectNumberingPlan(countryOrCallingCode)
  const own = plans.numberingPlan
  const callingCode = own.callingCode()
  const [main, ...others] = (plans.getCountryCodesForCallingCode(callingCode) ?? []).map(countryFor)
  if (main === undefined) return null
  // Of some countries it may be empty.
  const trunk = `(?:${own.nationalPrefixForParsing() || NEVER})(?<!^)`
  const abroad = own.IDDPrefix() || NEVER
  const numbers = `(?=${main.leading?.source ?? ''})${main.numbers.source}`
  return {
    callingCode,
    countries: [main, ...others],
    trunk: new RegExp(`^${trunk}`),
    national: new RegExp(`^(?:${own.nationalNumberPattern()})$`),
    abroad: new RegExp(`^(?:${abroad})`),
    main: new RegExp(`^(?!${trunk})${numbers}`),
    mainNational: new RegExp(`^(?!${abroad})(?!${trunk})${numbers}`)
  }
}

function countryFor(code: string): Country {
  const known = countries.get(code)
  if (known !== undefined) return known
  plans.selectNumberingPlan(code)
  const plan = plans.numberingPlan
  const leading = plan.leadingDigits()
  const country = {
    code: code as CountryCode,
    leading: leading ? new RegExp(`^(?:${leading})`) : undefined,
    numbers: new RegExp(`^${numbersOf(plan)}$`)
  }
  countries.set(code, country)
  return country
}

/** One pattern for all that counts, and one look at a number. */
function numbersOf(plan: Plan): string {
  const types = TYPES.flatMap(name => {
    const type = plan.type(name)
    if (!type?.pattern()) return []
    const lengths = type.possibleLengths().map(length => `.{${length}}`)
    return [`(?=(?:${lengths.join('|')})$)(?:${type.pattern()})`]
  })
  return `(?=(?:${plan.nationalNumberPattern()})$)(?:${types.join('|') || NEVER})`
}

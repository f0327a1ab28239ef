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
export interface NumberingPlan {
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
const compiled = new Map<string, NumberingPlan | null>()
const countries = new Map<string, Country>()

/** As the library does: it takes the first country whose leading digits they have, or, if it has none, whose type. */
export function countryIn({ countries, trunk }: NumberingPlan, digits: string): CountryCode | undefined {
  if (trunk.test(digits)) return undefined
  const found = countries.find(({ leading, numbers }) => (leading ?? numbers).test(digits))
  return found?.numbers.test(digits) ? found.code : undefined
}

/** That of the calling code which digits with a plus begin with. */
export function planOfNumber(digits: string): NumberingPlan | null | undefined {
  for (let end = 2; end <= 4; end++) {
    const code = digits.slice(1, end)
    if (plans.hasCallingCode(code)) return planOf(code)
  }
}

/** @returns null for what is no country's, such as +800 */
export function planOf(countryOrCallingCode: string): NumberingPlan | null {
  const known = compiled.get(countryOrCallingCode)
  if (known !== undefined) return known
  const plan = compile(countryOrCallingCode)
  compiled.set(countryOrCallingCode, plan)
  return plan
}

function compile(countryOrCallingCode: string): NumberingPlan | null {
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

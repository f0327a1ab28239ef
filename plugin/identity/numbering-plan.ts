import type { CountryCode } from 'libphonenumber-js'
// Not from `libphonenumber-js/max`, which exports `Metadata` only to ES modules: tsx and others make CommonJS of an
// app.
import { Metadata } from 'libphonenumber-js/core'
import metadata from 'libphonenumber-js/metadata.max'

/** What the library's metadata says of a country, 0 for nothing. The library's types leave it out. */
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

/** A country and the patterns of its numbers, compiled once; the library compiles its patterns anew for each number. */
interface Country {
  code: CountryCode
  /** How only this country's numbers begin, of all with its calling code, where the library says that. */
  leading: RegExp | undefined
  numbers: RegExp
}

/** How numbers are read that are dialled in one country, or that begin with one calling code. */
export interface NumberingPlan {
  callingCode: string
  /** The countries with this calling code, the main one first. */
  countries: readonly Country[]
  /** A trunk prefix, one that is not empty. */
  trunk: RegExp
  /** What any national number looks like. */
  national: RegExp
  /** What a call abroad begins with. */
  abroad: RegExp
  /** Matches most numbers at once: those of the main country without a trunk prefix. */
  main: RegExp
  /** Matches those numbers of `main` that do not begin as a call abroad does. */
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
const knownPlans = new Map<string, NumberingPlan | null>()
const knownCountries = new Map<string, Country>()

/**
 * The country of national digits, found as the library does: the first one whose leading digits they begin with or, if
 * it has none, whose numbers they match.
 */
export function countryIn({ countries, trunk }: NumberingPlan, digits: string): CountryCode | undefined {
  if (trunk.test(digits)) return undefined
  const found = countries.find(({ leading, numbers }) => (leading ?? numbers).test(digits))
  return found?.numbers.test(digits) ? found.code : undefined
}

/** The plan of the calling code with which digits behind a plus begin. */
export function planOfNumber(digits: string): NumberingPlan | null | undefined {
  for (let end = 2; end <= 4; end++) {
    const code = digits.slice(1, end)
    if (plans.hasCallingCode(code)) return planOf(code)
  }
}

/** @returns null for a calling code that is no country's, such as +800 */
export function planOf(countryOrCallingCode: string): NumberingPlan | null {
  const known = knownPlans.get(countryOrCallingCode)
  if (known !== undefined) return known
  const plan = compile(countryOrCallingCode)
  knownPlans.set(countryOrCallingCode, plan)
  return plan
}

function compile(countryOrCallingCode: string): NumberingPlan | null {
  plans.selectNumberingPlan(countryOrCallingCode)
  const own = plans.numberingPlan
  const callingCode = own.callingCode()
  const [main, ...others] = (plans.getCountryCodesForCallingCode(callingCode) ?? []).map(countryFor)
  if (main === undefined) return null
  // For some countries the prefix may be empty, which `(?<!^)` rules out.
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
  const known = knownCountries.get(code)
  if (known !== undefined) return known
  plans.selectNumberingPlan(code)
  const plan = plans.numberingPlan
  const leading = plan.leadingDigits()
  const country = {
    code: code as CountryCode,
    leading: leading ? new RegExp(`^(?:${leading})`) : undefined,
    numbers: new RegExp(`^${numbersOf(plan)}$`)
  }
  knownCountries.set(code, country)
  return country
}

/** One pattern for the form, the types and the lengths of a country's numbers, so that a number is matched once. */
function numbersOf(plan: Plan): string {
  const types = TYPES.flatMap(name => {
    const type = plan.type(name)
    if (!type?.pattern()) return []
    const lengths = type.possibleLengths().map(length => `.{${length}}`)
    return [`(?=(?:${lengths.join('|')})$)(?:${type.pattern()})`]
  })
  return `(?=(?:${plan.nationalNumberPattern()})$)(?:${types.join('|') || NEVER})`
}

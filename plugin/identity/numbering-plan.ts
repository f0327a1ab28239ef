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

/** What is valid in one country as it stands, as patterns; the library compiles its own anew for each number. */
interface Compiled {
  callingCode: string
  /** The only country of this calling code; undefined where several share it. */
  country: CountryCode | undefined
  /** The valid numbers of the main country of this calling code that have no trunk prefix. */
  valid: RegExp
  /** Those of them that do not begin as a call abroad does. */
  national: RegExp
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

/**
 * The E.164 form of digits that are a valid number as they stand: a national one of `region`, or with a plus and a
 * calling code. `undefined` where the library must be asked, since a prefix may have to go or another country be meant.
 */
export function plainNumber(digits: string, region: CountryCode | undefined): string | undefined {
  try {
    return recognised(digits, region)
  } catch {
    // Another version of the library may lack what its types leave out: then it is asked itself.
    return undefined
  }
}

/** The country of a valid number in E.164; `undefined` where the library must be asked, since several share its calling code. */
export function plainCountry(number: string): CountryCode | undefined {
  try {
    return planOfNumber(number)?.country
  } catch {
    return undefined
  }
}

function recognised(digits: string, region: CountryCode | undefined): string | undefined {
  if (digits.startsWith('+')) {
    const plan = planOfNumber(digits)
    return plan?.valid.test(digits.slice(1 + plan.callingCode.length)) ? digits : undefined
  }
  const plan = region && planOf(region)
  if (!plan || digits.startsWith(plan.callingCode)) return undefined
  return plan.national.test(digits) ? `+${plan.callingCode}${digits}` : undefined
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
  const [main, ...others] = plans.getCountryCodesForCallingCode(callingCode) ?? []
  if (main === undefined) return null
  plans.selectNumberingPlan(main)
  const valid = validIn(plans.numberingPlan, own.nationalPrefixForParsing() || NEVER)
  return {
    callingCode,
    country: others.length === 0 ? (main as CountryCode) : undefined,
    valid: new RegExp(`^${valid}$`),
    national: new RegExp(`^(?!${own.IDDPrefix() || NEVER})${valid}$`)
  }
}

/**
 * One pattern for all that counts, and one look at a number. Where several countries share a calling code, the
 * library asks the main one first, by its leading digits or its types.
 */
function validIn(plan: Plan, trunk: string): string {
  const types = TYPES.flatMap(name => {
    const type = plan.type(name)
    if (!type?.pattern()) return []
    const lengths = type.possibleLengths().map(length => `.{${length}}`)
    return [`(?=(?:${lengths.join('|')})$)(?:${type.pattern()})`]
  })
  const leading = plan.leadingDigits() || ''
  return `(?!${trunk})(?=${leading})(?=(?:${plan.nationalNumberPattern()})$)(?:${types.join('|') || NEVER})`
}

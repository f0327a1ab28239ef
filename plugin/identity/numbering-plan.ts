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
  type(name: string): { pattern(): string; possibleLengths(): number[] | undefined } | undefined
}

interface Plans {
  numberingPlan: Plan
  selectNumberingPlan(countryOrCallingCode: string): void
  hasCallingCode(code: string): boolean
  getCountryCodesForCallingCode(code: string): string[] | undefined
}

/** One country's plan with its patterns compiled, which the library does anew for each number. */
interface Compiled {
  callingCode: string
  /** Beginnings that may mean something else than the number itself. */
  international: RegExp
  trunk: RegExp
  /** Whether that is a valid number of the main country of this calling code. */
  isValid(national: string): boolean
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
const NEVER = /(?!)/

const plans = new Metadata(metadata) as unknown as Plans
const compiled = new Map<string, Compiled | null>()

/**
 * The E.164 form of digits that are a valid number as they stand: a national one of `region`, or with a plus and a
 * calling code. `undefined` where the library must be asked, since a prefix may have to go or another country be meant.
 */
export function plainNumber(digits: string, region: CountryCode): string | undefined {
  try {
    return recognised(digits, region)
  } catch {
    // Another version of the library may lack what its types leave out: then it is asked itself.
    return undefined
  }
}

function recognised(digits: string, region: CountryCode): string | undefined {
  if (digits.startsWith('+')) {
    const plan = planOfNumber(digits)
    const national = digits.slice(1 + (plan?.callingCode.length ?? 0))
    return plan && !plan.trunk.test(national) && plan.isValid(national) ? digits : undefined
  }
  const plan = planOf(region)
  if (!plan || digits.startsWith(plan.callingCode)) return undefined
  if (plan.international.test(digits) || plan.trunk.test(digits)) return undefined
  return plan.isValid(digits) ? `+${plan.callingCode}${digits}` : undefined
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
  const [main] = plans.getCountryCodesForCallingCode(callingCode) ?? []
  if (main === undefined) return null
  plans.selectNumberingPlan(main)
  return {
    callingCode,
    international: beginning(own.IDDPrefix()),
    trunk: beginning(own.nationalPrefixForParsing()),
    isValid: validOf(plans.numberingPlan)
  }
}

/** Where several countries share a calling code, the library asks the main one first, by its leading digits or its types. */
function validOf(plan: Plan): (national: string) => boolean {
  const leading = plan.leadingDigits()
  const starts = leading ? beginning(leading) : /^/
  const pattern = whole(plan.nationalNumberPattern())
  const types = TYPES.flatMap(name => {
    const type = plan.type(name)
    return type?.pattern() ? [{ pattern: whole(type.pattern()), lengths: type.possibleLengths() }] : []
  })
  return national =>
    starts.test(national) &&
    pattern.test(national) &&
    types.some(type => (type.lengths?.includes(national.length) ?? true) && type.pattern.test(national))
}

function beginning(pattern: string | 0): RegExp {
  return pattern ? new RegExp(`^(?:${pattern})`) : NEVER
}

function whole(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`)
}

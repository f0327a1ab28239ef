import {
  type CountryCode,
  getCountries,
  type PhoneNumber,
  parsePhoneNumberFromString
} from 'libphonenumber-js/max'
import { memoize, memoizeEach } from './memoize.js'
import { plainCountry, plainNumber } from './plain-number.js'

/** Longer text is no phone number: E.164 has at most 15 digits, the rest is room for spelling. */
const MAX_LENGTH = 64

/** Invisible characters: format controls, joiners, variation selectors. Copied text is full of them. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu
const DIALLED = /^\+?[0-9]{3,25}$/
const DIGIT = /\p{Nd}/u
const OTHER_DIGITS = /(?![0-9])\p{Nd}/gu
/** Spaces, dashes (with those that Unicode calls something else), dots, slashes, brackets, `~`. */
const SEPARATORS = /[\t\p{Zs}\p{Pd}\u2212\u2043\u30fc.\u00b7\u2022\u30fb\u3002/\u2044\u2215()[\]~]/gu
/**
 * An extension needs a word or a sign that no list of numbers has: providers take `number,number`
 * for two recipients, hence a bare comma or semicolon is refused.
 */
const EXTENSION = /(?:;ext=|[,;]?\p{Zs}*(?:ext(?:ension|n)?|x|#|доб|分机|转)[.:]?\p{Zs}*)[0-9]{1,8}#?$/iu

/**
 * Some phones are reached by two calling codes: Palestinian ones also by Israel's, those of San Marino also by Italy's.
 * A number that begins with the first of a pair is folded to the second, if that is a number that exists.
 */
const REACHED_TWICE = [
  ['+972', '+970'],
  ['+390549', '+3780549']
] as const

/** A set, since each phone number asks: the library takes almost as long to answer as all else that a number takes. */
const REGIONS: ReadonlySet<string> = new Set(getCountries())

/** Tells whether `text` names a region (ISO 3166-1 alpha-2, upper case) whose numbers are known. */
export function isRegion(text: string | undefined): text is CountryCode {
  return text !== undefined && REGIONS.has(text)
}

/**
 * The E.164 form of a phone number, or `undefined` where the text is not one number that can exist.
 *
 * Only the digits and a leading plus carry meaning: digits of any script, spaces, punctuation and invisible characters
 * make no difference, and neither does an extension. `tel:` URIs are read by RFC 3966 section 3. A number without a
 * country code belongs to `region`, whose international and trunk prefixes are known. Digits that begin with the
 * region's own calling code are read as if they had a plus where that makes a mobile number, unless they are a mobile
 * number without it, too. Without a `region`, or with one that does not exist, a number needs its country code. A phone
 * that two calling codes reach has one form.
 */
export function canonicalPhone(text: string, region?: string): string | undefined {
  if (typeof text !== 'string') return undefined
  // A client that names the region may name any text, and answers are remembered for each region. So a text that is no
  // region, such as a calling code, counts as none.
  const own = isRegion(region) ? region : undefined
  const number = (DIALLED.test(text) ? plainNumber(text, own) : undefined) ?? read(text, own)
  return number === undefined ? undefined : ownNumber(number)
}

/**
 * The country of a phone number (ISO 3166-1 alpha-2, and `XK` for Kosovo). The text is read as by `canonicalPhone`.
 * `undefined` where it is no number, or one that belongs to no country: satellite phones, +881 and +870, or +800.
 */
export function phoneCountry(text: string, region?: string): CountryCode | undefined {
  const number = canonicalPhone(text, region)
  return number === undefined ? undefined : (plainCountry(number) ?? askCountry(number))
}

const read = memoizeEach(readPhone)
const askCountry = memoize(number => parsePhoneNumberFromString(number)?.country)

function readPhone(text: string, region: CountryCode | undefined): string | undefined {
  if (text.length > MAX_LENGTH) return undefined
  const plain = text.normalize('NFKC').replace(INVISIBLE, '').replace(OTHER_DIGITS, asciiDigit).trim()
  const subscriber = /^tel:/i.test(plain) ? fromTelUri(plain.slice(4)) : plain.replace(EXTENSION, '')
  const dialled = subscriber?.replace(SEPARATORS, '')
  return dialled !== undefined && DIALLED.test(dialled) ? dialledNumber(dialled, region) : undefined
}

function ownNumber(number: string): string {
  for (const [other, own] of REACHED_TWICE)
    if (number.startsWith(other)) return plainNumber(number.replace(other, own), undefined) ?? number
  return number
}

/**
 * Reads the digits, and then what that gives, until it reads as itself: from the number that the library gives for some
 * countries (Japan, Belarus) it strips a prefix at the next reading.
 */
function dialledNumber(dialled: string, region: CountryCode | undefined): string | undefined {
  const number = plainNumber(dialled, region) ?? readDialled(dialled, region)
  return number === undefined || number === dialled ? number : dialledNumber(number, region)
}

function readDialled(dialled: string, region: CountryCode | undefined): string | undefined {
  const own = validNumber(dialled, region)
  // Some plans are so loose that the calling code passes for an area code (Germany's 49).
  const begins = own !== undefined && dialled.startsWith(own.countryCallingCode)
  const whole = begins ? validNumber(`+${dialled}`, region) : undefined
  return (isMobile(whole) && !isMobile(own) ? whole : own)?.number
}

function validNumber(dialled: string, region: CountryCode | undefined): PhoneNumber | undefined {
  const number = parsePhoneNumberFromString(dialled, { defaultCountry: region, extract: false })
  return number?.isValid() ? number : undefined
}

function isMobile(number: PhoneNumber | undefined): number is PhoneNumber {
  return number?.getType() === 'MOBILE'
}

/** Unicode has the ten digits of a script in a row, from zero. Where several such rows adjoin, each is complete. */
function asciiDigit(digit: string): string {
  const code = digit.codePointAt(0) as number
  let zero = code
  while (DIGIT.test(String.fromCodePoint(zero - 1))) zero--
  return String((code - zero) % 10)
}

/** RFC 3966: a local number stands behind its `phone-context`; `ext` and `isub` lead to the same line. */
function fromTelUri(uri: string): string | undefined {
  const [subscriber = '', ...parameters] = uri.split(';')
  let context: string | undefined
  for (const parameter of parameters) {
    // No comma in a value: some providers would read a second number behind it.
    const [, name = '', value = ''] = /^([a-z-]+)=([^,]+)$/i.exec(parameter) ?? []
    switch (name.toLowerCase()) {
      case 'ext':
      case 'isub':
        continue
      case 'phone-context':
        if (context !== undefined || !/^\+[0-9().-]+$/.test(value)) return undefined
        context = value
        continue
      default:
        return undefined
    }
  }
  return (context ?? '') + subscriber
}

import { type Flaw, type FlawCode, flaw, pointerTo } from '../flaw.js'
import { LONGEST, type Param } from './schema.js'

/** Values as they are put into a text: all spellings of a value give the same one. */
export type Values = Record<string, string>

/** A text that is the same for equal values, in whatever order they were given. */
export const canonical = (values: Values): string => JSON.stringify(Object.entries(values).sort())

/** The operator's examples of values. */
export const examplesOf = (params: Readonly<Record<string, Param>>, names = Object.keys(params)): Values =>
  Object.fromEntries(names.map(name => [name, params[name]?.example ?? '']))

type Read = { value: string } | { code: FlawCode; more?: object }

/** Values for parameters as they were given, before they are read. */
export type Given = Readonly<Record<string, unknown>>

/**
 * Reads the values given for parameters.
 * @param given values of a caller
 * @param own values of the operator or the API, which callers cannot replace, and which may be spelled with joiners
 * @returns the values, and everything that is wrong with them
 */
export function readParams(
  params: Readonly<Record<string, Param>>,
  given: Given,
  own: Given = {}
): { values: Values; flaws: Flaw[] } {
  const values: Values = {}
  const flaws: Flaw[] = []
  for (const [name, param] of Object.entries(params)) {
    const isOwn = Object.hasOwn(own, name)
    const from = isOwn ? own : given
    const read = Object.hasOwn(from, name)
      ? readParam(param, from[name], isOwn)
      : ({ code: 'REQUIRED' } satisfies Read)
    if ('value' in read) values[name] = read.value
    else flaws.push(flaw(pointerTo('#/params', name), read.code, read.more))
  }
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(params, name) && !Object.hasOwn(own, name)) continue
    flaws.push(flaw(pointerTo('#/params', name), 'UNEXPECTED'))
  }
  return { values, flaws }
}

/** Reads values without knowing their parameters, to compare them with values that were read by their parameters. */
export function readValues(given: Given): { values: Values; flaws: Flaw[] } {
  return readParams(Object.fromEntries(Object.keys(given).map(name => [name, ANY])), given)
}

const ANY: Param = { type: 'string', maxLength: LONGEST, example: '' }

function readParam(param: Param, given: unknown, own: boolean): Read {
  if (typeof given !== 'string' && typeof given !== 'number') return { code: 'NOT_SCALAR' }
  if (param.type === 'integer') return readInteger(param, String(given))
  // By now, 20261122000012345678 has become another number, and 12.50 has become 12.5.
  if (typeof given === 'number' && !Number.isSafeInteger(given)) return { code: 'INEXACT' }
  const text = String(given)
  const bare = (spelled: string) => (own ? spelled.replace(JOINERS, '') : spelled)
  if (INVISIBLE.test(bare(text))) return { code: 'INVISIBLE' }
  const { maxLength: limit = 0, pattern } = param
  const spaced = text.replace(/\s+/g, ' ').trim()
  // Checked before `normalize`, whose time grows with the square of the number of accents. A character has at most four
  // parts of two UTF-16 units.
  if (spaced.length > 8 * limit) return { code: 'TOO_LONG', more: { limit } }
  const value = spaced.normalize('NFC')
  if (value === '') return { code: 'EMPTY' }
  if ([...value].length > limit) return { code: 'TOO_LONG', more: { limit } }
  const isUrl = param.type === 'url'
  if (isUrl && !isHttps(value)) return { code: 'NOT_URL' }
  if (pattern !== undefined && !whole(pattern).test(value)) return { code: 'PATTERN', more: { pattern } }
  return !isUrl && hasLink(bare(value)) ? { code: 'LINK' } : { value }
}

function readInteger({ minimum = 0, maximum = 0 }: Param, text: string): Read {
  if (!/^(0|-?[1-9]\d*)$/.test(text)) return { code: 'NOT_INTEGER' }
  if (Number(text) < minimum) return { code: 'TOO_SMALL', more: { limit: minimum } }
  if (Number(text) > maximum) return { code: 'TOO_LARGE', more: { limit: maximum } }
  return { value: text }
}

const whole = (pattern: string) => new RegExp(`^(?:${pattern})$`, 'u')

// Line breaks in a subject make mail headers. Bidi controls make one text look like another. Invisible characters make
// many messages of one. Characters that are unassigned, private or half a surrogate pair may show as anything.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u

// Joiners where spelling needs them, roughly as in RFC 5892 (A.1, A.2): after a virama, or a non-joiner between Arabic
// letters, and before a letter. Callers may not use them, since in some fonts a text looks the same without them.
const JOINERS =
  /(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c-\u200d](?=\p{L})|(?<=(?=\p{L})\p{Script=Arabic}\p{M}?)\u200c(?=(?=\p{L})\p{Script=Arabic})/gu

const LINKS = [
  /:\/\//,
  /\b(?:mailto|tel|sms|smsto|javascript|data|weixin|alipays?):/i,
  // Phones make links of bare domain names, in any script or emoji. Browsers take an ideographic full stop for a dot.
  // The pattern starts at the dot: to start at all that may stand before it would take ten times as long.
  /\.(?<=[\p{L}\p{N}\p{M}\p{S}\p{Pc}\p{Pd}]\.)[\p{L}\p{M}]{2,}/u,
  /。(?<=[\p{L}\p{N}\p{M}\p{S}\p{Pc}\p{Pd}]。)[a-z]{2,}/iu,
  /\b\d{1,3}(?:\.\d{1,3}){3}\b/,
  /[^\s@]@[^\s@]/
]

/** Whether a phone or a mail program could make a link of the text or a part of it. */
function hasLink(text: string): boolean {
  // NFKC, since browsers take full-width letters and dots for plain ones.
  const plain = text.normalize('NFKC')
  return LINKS.some(link => link.test(plain))
}

function isHttps(text: string): boolean {
  if (/[\s<>"'`{}|\\^]/.test(text)) return false
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.protocol === 'https:' && url.username === '' && url.password === ''
}

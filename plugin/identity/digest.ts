import { hash } from 'node:crypto'

const MAX_DEPTH = 64
/** Text that JSON writes without escapes. */
const PLAIN = /^[ !#-[\]-~]*$/

/**
 * One text for all equal values, another for every different one: JSON with the members of objects in the order of
 * their names, and words for what JSON lacks (`undefined`, `NaN`, `1n`, `Date(0)`, `Bytes(ff)`).
 *
 * Of objects the own enumerable string keys count, whatever their class, except for lists, dates and bytes. A hole is
 * `undefined`, `-0` is `0`; lone surrogates keep their value. Several parts go in as an array, so that their texts
 * never run into each other.
 * @throws RangeError where objects and arrays nest deeper than 64.
 * @throws TypeError for a value whose content cannot be seen from outside (a function, a symbol, a `Map`).
 */
export function canonicalJson(value: unknown): string {
  return written(value, 0)
}

function written(value: unknown, depth: number): string {
  return typeof value === 'object' && value !== null ? object(value, depth + 1) : scalar(value)
}

function scalar(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value)
    case 'bigint':
      return `${value}n`
    case 'function':
    case 'symbol':
      throw new TypeError(`a ${typeof value} has no canonical form`)
    default:
      return String(value)
  }
}

function object(value: object, depth: number): string {
  if (depth > MAX_DEPTH) throw new RangeError(`nested deeper than ${MAX_DEPTH}`)
  if (Array.isArray(value)) {
    let items = ''
    for (let i = 0; i < value.length; i++) items += (i > 0 ? ',' : '') + written(value[i], depth)
    return `[${items}]`
  }
  if (value instanceof Date) return `Date(${value.getTime()})`
  if (value instanceof Uint8Array) return `Bytes(${Buffer.from(value).toString('hex')})`
  return members(value, depth)
}

function members(value: object, depth: number): string {
  const kind = Object.prototype.toString.call(value)
  if (kind !== '[object Object]') throw new TypeError(`${kind} has no canonical form`)
  const names = Object.keys(value)
  // Most are sorted already. Sorting them takes as long as all the rest, and leaves more garbage.
  if (!isSorted(names)) names.sort()
  let text = ''
  for (const name of names) {
    const member = written((value as Record<string, unknown>)[name], depth)
    text += `${text === '' ? '' : ','}${scalar(name)}:${member}`
  }
  return `{${text}}`
}

function isSorted(names: readonly string[]): boolean {
  for (let i = 1; i < names.length; i++) if ((names[i - 1] as string) > (names[i] as string)) return false
  return true
}

export type Algorithm = 'md5' | 'sha256'

/**
 * Gives the function that turns text into its pseudonym under `secret`: 22 characters of base64url, all 128
 * bits of MD5 or the first 132 of SHA-256.
 *
 * A plain hash with the secret in front suffices, at a quarter of the price of HMAC. Without the secret
 * nobody finds a number by hashing them all; the known collisions of MD5 need the state it starts from,
 * which a whole block of unknown characters sets. Length extension (MD5 shows its full state) gives the
 * pseudonym of a longer text and tells nothing about the first; it would break a MAC, which this is not.
 * SHA-256 needs no such block: behind 132 bits of the secret, most texts still fit into the first block.
 * @throws Error where the platform has no such algorithm (MD5 under FIPS).
 */
export function hasher(algorithm: Algorithm, secret: string): (text: string) => string {
  const prefix =
    algorithm === 'md5' ? hash('sha256', secret, 'hex') : hash('sha256', secret, 'base64url').slice(0, 22)
  hash(algorithm, prefix)
  return text => {
    // UTF-8 writes every lone surrogate as U+FFFD, UTF-16 keeps them. The prefix has other bytes in UTF-16, so no text
    // of the one form has the bytes of one of the other.
    const whole = prefix + text
    const data = whole.isWellFormed() ? whole : Buffer.from(whole, 'utf16le')
    return hash(algorithm, data, 'base64url').slice(0, 22)
  }
}

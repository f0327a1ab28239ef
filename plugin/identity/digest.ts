import { hash } from 'node:crypto'
import { remembering } from './remembering.js'

const MAX_DEPTH = 64
const LONE_SURROGATE = /\p{Surrogate}/u

/**
 * One text for all equal values, another for every different one: JSON with the members of objects in the
 * order of their names, and words for what JSON lacks (`undefined`, `NaN`, `1n`, `Date(0)`, `Bytes(ff)`).
 *
 * Own enumerable string keys count, in objects of any class; `-0` is `0`; lone surrogates keep their value.
 * Texts never run into each other: several parts go in as an array.
 * @throws RangeError where objects and arrays nest deeper than 64.
 * @throws TypeError for a value whose content cannot be seen from outside (a function, a symbol, a `Map`).
 */
export function canonicalJson(value: unknown): string {
  const out: string[] = []
  write(value, 0, out)
  return out.join('')
}

function write(value: unknown, depth: number, out: string[]): void {
  if (typeof value === 'object' && value !== null) writeObject(value, depth + 1, out)
  else out.push(scalar(value))
}

function scalar(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value)
    case 'bigint':
      return `${value}n`
    case 'function':
    case 'symbol':
      throw new TypeError(`a ${typeof value} has no canonical form`)
    default:
      return String(value)
  }
}

function writeObject(value: object, depth: number, out: string[]): void {
  if (depth > MAX_DEPTH) throw new RangeError(`nested deeper than ${MAX_DEPTH}`)
  if (Array.isArray(value)) {
    out.push('[')
    for (let index = 0; index < value.length; index++) {
      if (index > 0) out.push(',')
      write(value[index], depth, out)
    }
    out.push(']')
  } else if (value instanceof Date) out.push(`Date(${value.getTime()})`)
  else if (value instanceof Uint8Array) out.push(`Bytes(${Buffer.from(value).toString('hex')})`)
  else writeMembers(value, depth, out)
}

function writeMembers(value: object, depth: number, out: string[]): void {
  const kind = Object.prototype.toString.call(value)
  if (kind !== '[object Object]') throw new TypeError(`${kind} has no canonical form`)
  let separator = '{'
  for (const name of Object.keys(value).sort()) {
    out.push(separator, JSON.stringify(name), ':')
    write((value as Record<string, unknown>)[name], depth, out)
    separator = ','
  }
  out.push(separator === '{' ? '{}' : '}')
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
 * SHA-256 needs no such block: 132 bits of the secret leave room for most texts in the first.
 * @throws Error where the platform has no such algorithm (MD5 under FIPS).
 */
export function hasher(algorithm: Algorithm, secret: string): (text: string) => string {
  const prefix =
    algorithm === 'md5' ? hash('sha256', secret, 'hex') : hash('sha256', secret, 'base64url').slice(0, 22)
  hash(algorithm, prefix)
  return remembering(text => {
    // UTF-8 writes every lone surrogate as U+FFFD; UTF-16 keeps them, and its prefix has other bytes.
    const data = LONE_SURROGATE.test(text) ? Buffer.from(prefix + text, 'utf16le') : prefix + text
    return hash(algorithm, data, 'base64url').slice(0, 22)
  })
}

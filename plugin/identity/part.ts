import type { CountryCode } from 'libphonenumber-js'
import { conform } from '../conform.js'
import { FunctionError, KeyInvalidError, KeyMissingError, wrongOption } from '../errors.js'
import { DigestPart, type KeyFunction, type KeyPart, keyParts } from '../options.js'
import { isPromise } from '../store/store.js'
import { type Algorithm, canonicalJson } from './digest.js'
import { canonicalEmail } from './email.js'
import { canonicalIp, compileIpList } from './ip.js'
import { compilePath, type Source } from './path.js'
import { canonicalPhone, isRegion } from './phone.js'

export interface IdentityOptions {
  secret: string
  digest: Algorithm
  region: string
  ipv6Prefix: number
}

/** One part of a key, compiled: what it reads and how all spellings of it become one. */
export interface CompiledPart {
  kind: 'all' | 'phone' | 'email' | 'ip' | 'value' | 'digest' | 'function'
  /** What it is called in errors and docs: its path, or its kind. */
  label: string
  read(source: Source): unknown
  /** The one spelling, or undefined when the value cannot be such an identity. */
  canonical(value: unknown): string | undefined
  /** A matcher for the values of an allow or block list. */
  list(values: readonly string[], at: string): (value: unknown) => boolean
}

/** What it is called where a value is no such thing. */
export function nameOf({ kind }: CompiledPart): string {
  return {
    all: 'key',
    phone: 'phone number',
    email: 'mail address',
    ip: 'network address',
    value: 'value',
    digest: 'content',
    function: 'key'
  }[kind]
}

/** @throws OptionError with the path of the mistake */
export function compilePart(part: KeyPart, options: IdentityOptions, at: string): CompiledPart {
  if (part === 'ip') return ipPart('ip', source => source.ip, options)
  if (part === 'all') return everybody
  if (typeof part === 'function') return functionPart(part, at)
  if (typeof part !== 'object' || part === null) throw wrongOption(at, part, right)
  if ('digest' in part) return digestPart(conform(DigestPart, part, at).digest, options, `${at}.digest`)
  const kind = (Object.keys(keyParts) as (keyof typeof keyParts)[]).find(name => name in part)
  if (kind === undefined) throw wrongOption(at, part, right)
  if (Object.keys(part).filter(name => name in keyParts).length > 1) {
    throw wrongOption(at, part, 'A part is of one kind; for several write a list of parts.')
  }
  conform(keyParts[kind], part, at)
  const path = (part as Record<string, string>)[kind] as string
  const read = compilePath(path, `${at}.${kind}`)
  if (kind === 'ip') return ipPart(path, read, options)
  if (kind === 'phone')
    return phonePart(path, read, (part as { region?: string }).region ?? options.region, `${at}.region`)
  if (kind === 'email') return scalarPart('email', path, read, value => canonicalEmail(String(value)))
  return scalarPart('value', path, read, String)
}

const right =
  'Write "ip", "all", { phone, email, ip, value or digest: path }, a function, or a list of these.'

/** One identity for all requests, whatever their values. */
const everybody: CompiledPart = {
  kind: 'all',
  label: 'all',
  read: () => 'all',
  canonical: () => '',
  list(values, at) {
    throw wrongOption(at, values, 'Everybody is one here; allow or block in a rule keyed otherwise.')
  }
}

function scalarPart(
  kind: CompiledPart['kind'],
  label: string,
  read: CompiledPart['read'],
  fold: (value: string) => string | undefined
): CompiledPart {
  const canonical = (value: unknown) => fold(scalar(value, label))
  return { kind, label, read, canonical, list: (values, at) => exactList(values, canonical, at) }
}

function phonePart(label: string, read: CompiledPart['read'], region: string, at: string): CompiledPart {
  if (!isRegion(region))
    throw wrongOption(at, region, 'Write a country as two letters, such as "CN" or "US".')
  return scalarPart('phone', label, read, value => canonicalPhone(value, region as CountryCode))
}

function ipPart(label: string, read: CompiledPart['read'], { ipv6Prefix }: IdentityOptions): CompiledPart {
  return {
    ...scalarPart('ip', label, read, value => canonicalIp(value, ipv6Prefix)),
    list(values, at) {
      try {
        const matches = compileIpList(values)
        return value => matches(scalar(value, label))
      } catch (error) {
        throw wrongOption(at, values, `${(error as Error).message}. Write addresses or CIDR ranges.`)
      }
    }
  }
}

function functionPart(read: KeyFunction, at: string): CompiledPart {
  const canonical = (value: unknown) => {
    if (typeof value === 'object' || Number.isNaN(value))
      throw new FunctionError(at, 'a string, a number or a boolean')
    return scalar(value, at)
  }
  return {
    kind: 'function',
    label: 'the key',
    read(source) {
      const value = read(source as Parameters<KeyFunction>[0])
      if (!isPromise(value)) return value
      const promise = Promise.resolve(value)
      // When another key fails first, nobody waits for this one any more.
      promise.catch(() => {})
      return promise
    },
    canonical,
    list: (values, where) => exactList(values, canonical, where)
  }
}

function digestPart(items: readonly unknown[], options: IdentityOptions, at: string): CompiledPart {
  const parts = items.map((item, i) => {
    const where = `${at}[${i}]`
    if (typeof item === 'string')
      return { label: item, kind: 'value', read: compilePath(item, where), canonical: undefined }
    if (typeof item === 'function' || (typeof item === 'object' && item !== null && 'digest' in item)) {
      throw wrongOption(where, item, 'Write a path, or a part such as { phone: "body.phone" }.')
    }
    return compilePart(item as KeyPart, options, where)
  })
  const label = parts.map(part => part.label).join(', ')
  return {
    kind: 'digest',
    label,
    read(source) {
      const values = parts.map(part => part.read(source))
      return values.every(value => value === undefined) ? undefined : values
    },
    canonical(value) {
      const values = Array.isArray(value) && value.length === parts.length ? value : [value]
      // One of several alone would be another identity, and a block of it would block nobody.
      if (values.length !== parts.length)
        throw new KeyInvalidError(label, `content: it is a list of ${parts.length} values`)
      const folded = parts.map((part, i) => {
        const each = values[i]
        if (each === undefined || part.canonical === undefined) return each
        const one = part.canonical(each)
        if (one === undefined) throw new KeyInvalidError(part.label, nameOf(part as CompiledPart))
        return one
      })
      try {
        return canonicalJson(folded)
      } catch {
        throw new KeyInvalidError(label, 'content: it is nested too deeply')
      }
    },
    list(_values, where) {
      throw wrongOption(where, _values, 'A content has no list; allow or block in a rule keyed otherwise.')
    }
  }
}

function exactList(
  values: readonly string[],
  canonical: CompiledPart['canonical'],
  at: string
): (value: unknown) => boolean {
  const set = new Set(
    values.map((value, i) => {
      const one = canonical(value)
      if (one === undefined)
        throw wrongOption(`${at}[${i}]`, value, 'It cannot be what the rule is keyed by.')
      return one
    })
  )
  return value => set.has(canonical(value) ?? '')
}

function scalar(value: unknown, label: string): string {
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint')
    return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  if (typeof value === 'function' || typeof value === 'symbol')
    throw new FunctionError(label, 'a string, number or boolean')
  throw new KeyMissingError(label)
}

import type { CountryCode } from 'libphonenumber-js'
import { handled } from '../awaitable.js'
import { FunctionError, KeyMissingError } from '../errors.js'
import type { KeyFunction } from '../key.js'
import { typeOf, wrongOption, wrongReturn } from '../mistakes.js'
import { canonicalIp } from './ip.js'
import { compileIpList } from './ip-list.js'
import { type CompiledPart, nameOf, type Prefixes } from './part.js'
import { isRegion } from './phone.js'

/** The region that an option names. @throws OptionError when there is no such region */
export function regionAt(region: string, at: string): CountryCode {
  if (isRegion(region)) return region
  throw wrongOption(at, region, 'Write a country as two capital letters (ISO 3166-1), such as "CN" or "GB".')
}

export function ipPart(
  label: string,
  read: CompiledPart['read'],
  { ipv4Prefix, ipv6Prefix }: Prefixes
): CompiledPart {
  return {
    ...scalarPart('ip', label, read, value => canonicalIp(value, ipv6Prefix, ipv4Prefix)),
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

export function functionPart(read: KeyFunction, label: string, at: string): CompiledPart {
  const canonical = (value: unknown) => {
    const none = ['object', 'function', 'symbol'].includes(typeof value)
    if (none || (typeof value === 'number' && !Number.isFinite(value)))
      throw wrongReturn(value, at, 'a string, a number or a boolean')
    return scalar(value, at)
  }
  return {
    kind: 'function',
    label,
    read: source => handled(read(source as Parameters<KeyFunction>[0])),
    canonical,
    list: (values, where) => exactList(values, 'function', canonical, where)
  }
}

/** @param fold returns the one spelling, or undefined when the text cannot be such an identity */
export function scalarPart(
  kind: CompiledPart['kind'],
  label: string,
  read: CompiledPart['read'],
  fold: (value: string) => string | undefined
): CompiledPart {
  const canonical = (value: unknown) => fold(scalar(value, label))
  return { kind, label, read, canonical, list: (values, at) => exactList(values, kind, canonical, at) }
}

function exactList(
  values: readonly string[],
  kind: CompiledPart['kind'],
  canonical: CompiledPart['canonical'],
  at: string
): (value: unknown) => boolean {
  const set = new Set(
    values.map((value, i) => {
      const one = canonical(value)
      if (one === undefined) throw wrongOption(`${at}[${i}]`, value, `It must be a ${nameOf({ kind })}.`)
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
    throw new FunctionError(label, `be a string, number or boolean, but is ${typeOf(value)}`)
  throw new KeyMissingError(label)
}

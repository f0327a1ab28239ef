import { handled, isPromise } from '../awaitable.js'
import type { Algorithm } from './digest.js'
import type { Source } from './path.js'

/** How many bits of an address name a network. */
export interface Prefixes {
  ipv4Prefix: number
  ipv6Prefix: number
}

export interface IdentityOptions extends Prefixes {
  secret: string
  digest: Algorithm
  region: string
  /** Whether the store is this process's own memory, which keeps no text: it is asked about texts, not their hashes. */
  local?: boolean
}

export interface KeyOptions extends IdentityOptions {
  /** What a function in it answers, as errors and docs call it. */
  called: string
}

/** One part of a key, compiled: what it reads and how all spellings of it become one. */
export interface CompiledPart {
  kind: 'all' | 'phone' | 'email' | 'ip' | 'value' | 'digest' | 'function'
  /** What it is called in errors and docs: its path, or its kind. */
  label: string
  read(source: Source): unknown
  /** The same value; in place of a list whose values are all missing the first of them. */
  gather?(value: unknown): unknown
  /** The one spelling, or undefined when the value cannot be such an identity. */
  canonical(value: unknown): string | undefined
  /** A matcher for the values of an allow or block list. */
  list(values: readonly string[], at: string): (value: unknown) => boolean
}

/** What it is called where a value is no such thing. */
export function nameOf({ kind }: Pick<CompiledPart, 'kind'>): string {
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

/** What it is read from; of a content there are several. */
export function pathsOf({ label }: Pick<CompiledPart, 'label'>): string[] {
  return label.split(', ')
}

/** The values of several parts, as a list; a promise of it where any is one. */
export function readAll(parts: readonly Pick<CompiledPart, 'read'>[], source: Source): unknown {
  const values = new Array(parts.length)
  let late = false
  for (let i = 0; i < parts.length; i++) {
    values[i] = (parts[i] as Pick<CompiledPart, 'read'>).read(source)
    late ||= isPromise(values[i])
  }
  return late ? handled(Promise.all(values)) : values
}

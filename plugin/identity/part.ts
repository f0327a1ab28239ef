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
  /** Whether the store is this process's memory, which keeps no text: it is asked about the texts, not their hashes. */
  local?: boolean
}

export interface KeyOptions extends IdentityOptions {
  /** What errors and docs call the value that a function in the key returns. */
  called: string
}

/** One part of a key, compiled: what it reads and how all spellings of it become one. */
export interface CompiledPart {
  kind: 'all' | 'phone' | 'email' | 'ip' | 'value' | 'digest' | 'function'
  /** What errors and docs call the part: its path, or its kind. */
  label: string
  read(source: Source): unknown
  /** Returns the same value or, for a list whose values are all missing, the first of them. */
  gather?(value: unknown): unknown
  /**
   * The one spelling, or undefined when the value cannot be such an identity.
   * @throws KeyMissingError, KeyInvalidError, FunctionError
   */
  canonical(value: unknown): string | undefined
  /** A matcher for the values of an allow or block list. @throws OptionError for a value that cannot be on one */
  list(values: readonly string[], at: string): (value: unknown) => boolean
}

/** What an error calls a value of this kind, as in `is not a valid phone number`. */
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

/** The paths that a part is read from: several for a content. */
export function pathsOf({ label }: Pick<CompiledPart, 'label'>): string[] {
  return label.split(', ')
}

/** Reads the values of several parts as a list, or as a promise of the list if any value is a promise. */
export function readAll(parts: readonly Pick<CompiledPart, 'read'>[], source: Source): unknown {
  const values = new Array(parts.length)
  let late = false
  for (let i = 0; i < parts.length; i++) {
    values[i] = (parts[i] as Pick<CompiledPart, 'read'>).read(source)
    late ||= isPromise(values[i])
  }
  return late ? handled(Promise.all(values)) : values
}

import { KeyInvalidError, KeyMissingError } from '../errors.js'
import type { Key, KeyPart } from '../key.js'
import { wrongOption } from '../mistakes.js'
import { compilePart } from './compile.js'
import { hasher } from './digest.js'
import { memoize } from './memoize.js'
import { type CompiledPart, type KeyOptions, nameOf, pathsOf } from './part.js'
import { isAddress } from './path.js'

export interface CompiledKey {
  parts: readonly CompiledPart[]
  /** Whether the key names the caller (address, account): what is left may then be told to the caller. */
  caller: boolean
  /** Path of the first part that needs the body, if any. */
  body: string | undefined
  /**
   * Finds the identity that a value means. For several parts it is a list of values.
   * @returns the identity, as the store is asked about it; null when the rule does not apply
   * @throws KeyMissingError, KeyInvalidError, FunctionError
   */
  identify(value: unknown, optional: boolean): string | null
  /** The hash that stands in logs and events for an identity that `identify` has found. */
  pseudonym(identity: string): string
}

/** @throws OptionError with the path of the mistake */
export function compileKey(key: Key, options: KeyOptions, at: string): CompiledKey {
  const several = Array.isArray(key)
  // Spread, since `map` passes over a hole.
  const parts = (several ? [...key] : [key]).map((part, i) =>
    compilePart(part as KeyPart, options, several ? `${at}[${i}]` : at)
  )
  if (parts.length === 0) throw wrongOption(at, key, 'Name at least one part.')
  const content = parts.some(part => part.kind === 'digest')
  const hash = hasher(content ? options.digest : 'sha256', options.secret)
  const heads = parts.map(({ kind }) => `${kind.length}:${kind}`)
  const headed = (canonical: string, i: number) => `${heads[i]}${canonical.length}:${canonical}`
  const single = parts.length === 1
  const hashed = (text: string) => hash(single ? headed(text, 0) : text)
  const { local = false } = options
  const textOf = (value: unknown, optional: boolean): string | null => {
    if (single) return canonicalOf(parts[0] as CompiledPart, value, optional)
    let text = ''
    for (let i = 0; i < parts.length; i++) {
      const canonical = canonicalOf(parts[i] as CompiledPart, (value as readonly unknown[])[i], optional)
      if (canonical === null) return null
      text += headed(canonical, i)
    }
    return text
  }
  const identityOf = (value: unknown, optional: boolean): string | null => {
    const text = textOf(value, optional)
    return local || text === null ? text : hashed(text)
  }
  // Remembered texts stay in memory. So contents are not remembered, which may hold a code, nor keys of several parts, one
  // of which may be a content.
  const remembered = single && !content
  const known = remembered && !local ? memoize(value => identityOf(value, false)) : undefined
  return {
    parts,
    caller: parts.every(part => pathsOf(part).every(path => path === 'ip' || path.startsWith('request.'))),
    body: parts.find(part => pathsOf(part).some(path => /^body(\.|$)/.test(path)))?.label,
    identify: (value, optional) =>
      known && typeof value === 'string' ? known(value) : identityOf(value, optional),
    pseudonym: !local ? identity => identity : remembered ? memoize(hashed) : hashed
  }
}

/** The one spelling of a part's value; null when the rule does not apply. @throws as `identify` */
function canonicalOf(part: CompiledPart, given: unknown, optional: boolean): string | null {
  const value = part.gather ? part.gather(given) : given
  if ((value === undefined || value === null) && part.kind !== 'all') {
    if (optional || (isAddress(part.label) && value === null)) return null
    throw new KeyMissingError(part.label)
  }
  const canonical = part.canonical(value)
  if (canonical === undefined) throw new KeyInvalidError(part.label, nameOf(part))
  return canonical
}

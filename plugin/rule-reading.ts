import type { CompiledRule } from './compiled-rule.js'
import type { CompiledKey } from './identity/key.js'
import { type CompiledPart, pathsOf, readAll } from './identity/part.js'
import { isAddress } from './identity/path.js'

/** What a rule counts by, its key and the different values of `distinct`, and the functions by which it reads that. */
export function readingOf(
  { key, distinct }: Pick<CompiledRule, 'key' | 'distinct'>,
  optional: boolean
): Pick<CompiledRule, 'parts' | 'read' | 'whoOf' | 'distinctOf'> {
  const parts = [...key.parts, ...(distinct?.parts ?? [])]
  return {
    parts,
    read: parts.length === 1 ? (parts[0] as CompiledPart).read : source => readAll(parts, source),
    whoOf: values => (distinct === undefined ? values : ownOf(key, values as readonly unknown[])),
    distinctOf(values) {
      if (distinct === undefined) return undefined
      const own = (values as readonly unknown[]).slice(key.parts.length)
      const identified = distinct.identify(ownOf(distinct, own), optional)
      return identified === null ? null : numberOf(distinct.pseudonym(identified))
    }
  }
}

/** Whether a rule counts by the client's address, or by different addresses. */
export function countsByAddress({ parts }: Pick<CompiledRule, 'parts'>): boolean {
  return parts.flatMap(pathsOf).some(isAddress)
}

/** The argument of `key.identify`: for one part its value, for several parts a list that begins with their values. */
function ownOf({ parts }: CompiledKey, values: readonly unknown[]): unknown {
  return parts.length > 1 ? values : values[0]
}

/** The first 48 bits of a hash in base64url. */
function numberOf(hash: string): number {
  return Buffer.from(hash.slice(0, 8), 'base64url').readUIntBE(0, 6)
}

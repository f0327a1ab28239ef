import { KeyInvalidError } from '../errors.js'
import { wrongOption } from '../mistakes.js'
import { canonicalJson } from './digest.js'
import { type CompiledPart, nameOf, readAll } from './part.js'
import { isAddress } from './path.js'

/** A part of a content. Without `canonical` its value counts as it is, and may be of any kind. */
type Member = Pick<CompiledPart, 'kind' | 'label' | 'read'> & Partial<CompiledPart>

/** Several values as one identity: a digest of their canonical JSON. */
export function contentPart(parts: readonly Member[]): CompiledPart {
  const label = parts.map(part => part.label).join(', ')
  // The address of a client on a Unix socket is null, which counts as missing.
  const isMissing = (value: unknown, i: number) =>
    value === undefined || (value === null && isAddress((parts[i] as Member).label))
  const areOurs = (value: unknown): value is unknown[] =>
    Array.isArray(value) && value.length === parts.length
  return {
    kind: 'digest',
    label,
    read: source => readAll(parts, source),
    gather: value => (areOurs(value) && value.every(isMissing) ? value[0] : value),
    canonical(value) {
      const values = areOurs(value) ? value : [value]
      // One value in place of several would be another identity, and blocking that would block nobody.
      if (values.length !== parts.length)
        throw new KeyInvalidError(label, `content: it is a list of ${parts.length} values`)
      const folded = new Array(parts.length)
      for (let i = 0; i < parts.length; i++) folded[i] = fold(parts[i] as Member, values[i])
      try {
        return canonicalJson(folded)
      } catch (error) {
        const why =
          error instanceof RangeError ? 'it is nested too deeply' : 'it holds what cannot be compared'
        throw new KeyInvalidError(label, `content: ${why}`)
      }
    },
    list(values, where) {
      throw wrongOption(where, values, 'Content has no list; allow or block in a rule keyed otherwise.')
    }
  }
}

/** @throws KeyInvalidError */
function fold(part: Member, value: unknown): unknown {
  if (value === undefined || value === null || part.canonical === undefined) return value
  const one = part.canonical(value)
  if (one === undefined) throw new KeyInvalidError(part.label, nameOf(part))
  return one
}

import type { Entry, Spec } from '../store/store.js'
import { count } from './count.js'
import { distinct } from './distinct.js'
import type { Bounds, Kind } from './kind.js'
import { lock } from './lock.js'
import { log } from './log.js'

// The registry: a new kind of limit is a line here, a file of its own, and its part of the scripts.
const kinds = { log, count, lock, distinct }

export function kindOf(spec: Spec): Kind<Spec> {
  return kinds[spec.kind] as Kind<Spec>
}

const fixed = new WeakMap<Spec, readonly Bounds[]>()

/** The limits of an entry, in the order of its facts. */
export function boundsOf({ spec, max }: Entry): readonly Bounds[] {
  if (max !== undefined) return kindOf(spec).bounds(spec, max)
  const known = fixed.get(spec)
  if (known !== undefined) return known
  const bounds = kindOf(spec).bounds(spec, undefined)
  fixed.set(spec, bounds)
  return bounds
}

/** How many facts an entry has. */
export function factsOf(spec: Spec): number {
  return 2 + 2 * kindOf(spec).width(spec)
}

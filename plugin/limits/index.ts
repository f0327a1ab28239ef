import type { Entry, Limit, Spec } from '../store/store.js'
import { count } from './count.js'
import { distinct } from './distinct.js'
import type { Kind } from './kind.js'
import { lock } from './lock.js'
import { log } from './log.js'

// The registry: a new kind of limit is a spec (store.ts), a line here, a file of its own, its part of the scripts
// `reserve`, `refund` and, if it is held, `renew`, and members of a rule that are compiled to it (compile.ts).
const kinds = { log, count, lock, distinct }

export function kindOf(spec: Spec): Kind<Spec> {
  return kinds[spec.kind] as Kind<Spec>
}

/** Whether a request holds it while it runs, as a lock, rather than counts in it. */
export function isHeld(spec: Spec): boolean {
  return kindOf(spec).renew !== undefined
}

/** The limits of an entry, in the order of its facts. */
export function limitsOf({ spec, max }: Entry): readonly Limit[] {
  return max ? spec.limits.map((limit, i) => ({ ...limit, max: max[i] ?? limit.max })) : spec.limits
}

import { isHeld } from '../limits/index.js'
import { type Facts, FIRST, factsOf, NOW, PASSES, RECEIPT, RETURNS_IN } from './facts.js'
import type { Entry, Taken } from './store.js'

/** The slots that a reservation counted, in the form that `refund` takes. */
export function takenOf<E extends Entry>(entries: readonly E[], facts: Facts): Taken<E>[] {
  const taken: Taken<E>[] = []
  let head = FIRST
  for (const entry of entries) {
    const receipt = facts[head + RECEIPT] as number
    const ends =
      entry.spec.kind === 'count' ? (facts[NOW] as number) + (facts[head + RETURNS_IN] as number) : 0
    if (facts[head] === PASSES && receipt !== 0) taken.push({ entry, receipt, ends })
    head += factsOf(entry.spec)
  }
  return taken
}

/**
 * The facts as though the slots `given` had not been counted. Distinct entries stay as they are: the facts do not tell
 * whether the value had been counted before as well.
 */
export function uncounted(entries: readonly Entry[], facts: Facts, given: readonly Taken[]): Facts {
  const left = [...facts]
  let head = FIRST
  for (const entry of entries) {
    if (entry.spec.kind !== 'distinct' && given.some(each => each.entry === entry)) left[head + RECEIPT] = 0
    head += factsOf(entry.spec)
  }
  return left
}

/** The locks that a reservation may have taken, in the form that `refund` takes: its token tells whether they were. */
export function locksOf(entries: readonly Entry[]): Taken[] {
  return entries.filter(({ spec }) => isHeld(spec)).map(entry => ({ entry, receipt: 1, ends: 0 }))
}

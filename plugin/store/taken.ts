import { factsOf, isHeld } from '../limits/index.js'
import { type Entry, type Facts, PASSES, type Taken } from './store.js'

/** The slots that a reservation counted, in the form that `refund` takes. */
export function takenOf<E extends Entry>(entries: readonly E[], facts: Facts): Taken<E>[] {
  const taken: Taken<E>[] = []
  let head = 2
  for (const entry of entries) {
    const receipt = facts[head + 1] as number
    const ends = entry.spec.kind === 'count' ? (facts[0] as number) + (facts[head + 3] as number) : 0
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
  let head = 2
  for (const entry of entries) {
    if (entry.spec.kind !== 'distinct' && given.some(each => each.entry === entry)) left[head + 1] = 0
    head += factsOf(entry.spec)
  }
  return left
}

/** The locks that a reservation may have taken, in the form that `refund` takes: its token tells whether they were. */
export function locksOf(entries: readonly Entry[]): Taken[] {
  return entries.filter(({ spec }) => isHeld(spec)).map(entry => ({ entry, receipt: 1, ends: 0 }))
}

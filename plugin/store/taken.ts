import { factsOf } from '../limits/index.js'
import { type Entry, type Facts, PASSES, type Taken } from './store.js'

/** What a reservation counted, as a refund names it. */
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

/** The facts as though these had not been counted. Of different values nobody knows whether one was counted before, too. */
export function uncounted(entries: readonly Entry[], facts: Facts, given: readonly Taken[]): Facts {
  const left = [...facts]
  let head = 2
  for (const entry of entries) {
    if (entry.spec.kind !== 'distinct' && given.some(each => each.entry === entry)) left[head + 1] = 0
    head += factsOf(entry.spec)
  }
  return left
}

/** The locks that a reservation may have taken, as a refund names them: their token tells whether it has. */
export function locksOf(entries: readonly Entry[]): Taken[] {
  return entries.filter(({ spec }) => spec.kind === 'lock').map(entry => ({ entry, receipt: 1, ends: 0 }))
}

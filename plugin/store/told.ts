import { factsOf, limitsOf } from '../limits/index.js'
import { BLOCKED, type Entry, type Facts, PASSES } from './store.js'

/** What a store has answered of one entry, which is a copy: state, receipt, and two numbers a limit. */
export interface Told {
  entry: Entry
  facts: Facts
}

export function toldOf(entries: readonly Entry[], facts: Facts): Told[] {
  let head = 2
  return entries.map(({ spec, identity, max, value }) => {
    const from = head
    head += factsOf(spec)
    // The entry of a request holds its rule, which may be replaced before this is forgotten.
    return { entry: { spec, identity, max, value }, facts: facts.slice(from, head) }
  })
}

/** Whether it refuses, or would if it were not observed. */
export function refuses({ facts }: Told): boolean {
  return facts[0] !== PASSES
}

/** When its block and the limits that refuse cease to, in ticks from the store's answer; Infinity without an end. */
export function resetsOf({ entry, facts }: Told): number[] {
  const resets = limitsOf(entry).flatMap(({ max }, i) =>
    (facts[2 + i * 2] as number) >= max ? [facts[3 + i * 2] as number] : []
  )
  return facts[0] === BLOCKED ? [facts[1] as number, ...resets] : resets
}

/** Whether a refusal lasts: a lock ends any time, and a limit that comes from a request is that of no other. */
export function isLasting({ spec, max, zoned }: Entry): boolean {
  return spec.kind !== 'lock' && max === undefined && !zoned
}

/** Whether they ask the same of the same: a rule that was replaced has another spec. */
export function isSame(a: Entry, b: Entry): boolean {
  return a.spec === b.spec && a.identity === b.identity && a.value === b.value && isLasting(b)
}

/** Writes what was told, as it is so many ticks later. @param head where it begins */
export function writeTold(facts: number[], head: number, { facts: told }: Told, later: number): void {
  facts[head] = told[0] as number
  // Whose refusal is told has not ended.
  facts[head + 1] = told[0] === BLOCKED ? (told[1] as number) - later : 0
  for (let i = 2; i < told.length; i += 2) {
    const reset = told[i + 1] as number
    facts[head + i] = told[i] as number
    facts[head + i + 1] = reset === 0 ? 0 : Math.max(reset - later, 1)
  }
}

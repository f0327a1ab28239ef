import { ADMITTED, type Facts, FIRST, factsOf, NOW, PASSES, RECEIPT, RETURNS_IN, UNKNOWN } from './facts.js'
import type { Entry } from './store.js'

/** The entries of one identity: their keys carry one hash tag, so one node of a cluster has them all. */
export interface Group {
  identity: string
  entries: Entry[]
  /** The index of each entry among all entries of the decision. */
  places: number[]
}

/** Groups the entries by identity, in the order in which every process counts them. */
export function groupsOf(entries: readonly Entry[]): Group[] {
  const groups = new Map<string, Group>()
  for (const [place, entry] of entries.entries()) {
    const group = groups.get(entry.identity) ?? { identity: entry.identity, entries: [], places: [] }
    group.entries.push(entry)
    group.places.push(place)
    groups.set(entry.identity, group)
  }
  return [...groups.values()].sort((a, b) => (a.identity < b.identity ? -1 : 1))
}

/**
 * The facts of all groups as those of one store, in the order of the entries.
 * @param found the facts of each group; null for a group that was admitted without a question
 */
export function merge(
  entries: readonly Entry[],
  groups: readonly Group[],
  found: readonly (Facts | null)[]
): Facts {
  const asked = found.filter(facts => facts !== null)
  const now = asked[0]?.[NOW] ?? 0
  const admitted = asked.every(facts => facts[ADMITTED] === 1)
  const parts: number[][] = entries.map(() => [])
  for (const [g, group] of groups.entries()) {
    const facts = found[g] as Facts | null
    let head = FIRST
    for (const [i, entry] of group.entries.entries()) {
      const { spec } = entry
      const part = facts?.slice(head, head + factsOf(spec)) ?? [UNKNOWN, ...Array(factsOf(spec) - 1).fill(0)]
      const passes = part[0] === PASSES
      // What was counted before a group refused is given back, so no entry of a refusal has a receipt.
      if (passes && !admitted) part[RECEIPT] = 0
      // Each node has its own clock, and waiting times go by that. But a refund names the end of the period in which it
      // was counted (`takenOf`), so that has to stay the same instant on the clock of the first group.
      if (passes && spec.kind === 'count' && part[RECEIPT] !== 0)
        part[RETURNS_IN] = (part[RETURNS_IN] as number) + ((facts?.[NOW] as number) - now)
      parts[group.places[i] as number] = part
      head += part.length
    }
  }
  return [now, admitted ? 1 : 0, ...parts.flat()]
}

import { boundsOf, factsOf } from '../limits/index.js'
import { type Entry, type Facts, PASSES, UNKNOWN } from './store.js'

/** One rule in a decision: its entries stand and fall together. */
export interface Part {
  key: string
  entries: Entry[]
  /** State, receipt, and two numbers a limit, entry by entry; none before the store has answered. */
  facts: Facts
}

/** Who, under which rule. */
export function keyOf({ identity, spec }: Entry): string {
  return `${identity}:${spec.rule}`
}

/** The entries of a decision, rule by rule. */
export function partsOf(entries: readonly Entry[]): Part[] {
  const parts: Part[] = []
  for (const entry of entries) {
    const key = keyOf(entry)
    const last = parts.at(-1)
    if (last?.key === key) last.entries.push(entry)
    else parts.push({ key, entries: [entry], facts: [] })
  }
  return parts
}

/** Deals out what a store has answered. */
export function fill(parts: readonly Part[], facts: Facts): void {
  let head = 2
  for (const part of parts) {
    const length = part.entries.reduce((sum, { spec }) => sum + factsOf(spec), 0)
    part.facts = facts.slice(head, head + length)
    head += length
  }
}

/** Each entry with its state, and of each of its limits: `max`, used, reset. */
function read({ entries, facts }: Part): { state: number; limits: [number, number, number][] }[] {
  let head = 0
  return entries.map(entry => {
    const at = head
    head += factsOf(entry.spec)
    const limits = boundsOf(entry).map(({ max }, i): [number, number, number] => [
      max,
      facts[at + 2 + i * 2] as number,
      facts[at + 3 + i * 2] as number
    ])
    return { state: facts[at] as number, limits }
  })
}

/** Whether one of its entries refuses, or would if it were not observed. */
export function refuses(part: Part): boolean {
  return read(part).some(({ state }) => state !== PASSES)
}

/** When the limits that refuse cease to, in ticks from the store's answer; a block has no time. */
export function resetsOf(part: Part): number[] {
  return read(part).flatMap(({ limits }) =>
    limits.filter(([max, used]) => used >= max).map(([, , reset]) => reset)
  )
}

export function isObserved({ entries }: Part): boolean {
  return entries.some(({ spec }) => spec.observed)
}

/** Whether a refusal lasts: a lock ends any time, and a limit that comes from a request is that of no other. */
export function isLasting({ entries }: Part): boolean {
  return entries.every(({ spec, max, zoned }) => spec.kind !== 'lock' && max === undefined && !zoned)
}

/** Whether they ask the same: a rule that was replaced has other specs. */
export function isSame(a: Part, b: Part): boolean {
  return (
    a.entries.length === b.entries.length &&
    a.entries.every(({ spec, value }, i) => spec === b.entries[i]?.spec && value === b.entries[i]?.value) &&
    isLasting(b)
  )
}

/** Adds the facts of a part as they are so many ticks later. */
export function tell(facts: number[], part: Part, later: number): void {
  for (const { state, limits } of read(part)) {
    facts.push(state, 0)
    for (const [, used, reset] of limits) facts.push(used, reset === 0 ? 0 : Math.max(reset - later, 1))
  }
}

/** Adds as many facts of a part that was not asked about. */
export function unknown(facts: number[], { entries }: Part): void {
  for (const { spec } of entries) facts.push(UNKNOWN, ...Array(factsOf(spec) - 1).fill(0))
}

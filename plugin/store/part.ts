import { boundsOf, factsOf } from '../limits/index.js'
import { BLOCKED, type Entry, type Facts, PASSES, UNKNOWN } from './store.js'

/** One rule in a decision: its entries stand and fall together. */
export interface Part {
  identity: string
  /** Number of the rule. */
  rule: number
  entries: Entry[]
  /** State, receipt, and two numbers a limit, entry by entry; none before the store has answered. */
  facts: Facts
}

/** The entries of a decision, rule by rule. */
export function partsOf(entries: readonly Entry[]): Part[] {
  const parts: Part[] = []
  for (const entry of entries) {
    const { identity } = entry
    const { rule } = entry.spec
    const last = parts[parts.length - 1]
    if (last?.rule === rule && last.identity === identity) last.entries.push(entry)
    else parts.push({ identity, rule, entries: [entry], facts: [] })
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

interface Read {
  state: number
  /** Ticks until its block ends; Infinity without an end, or a block. */
  blockedFor: number
  /** Of each limit: `max`, used, reset. */
  limits: [number, number, number][]
}

function read({ entries, facts }: Part): Read[] {
  let head = 0
  return entries.map(entry => {
    const at = head
    head += factsOf(entry.spec)
    const limits = boundsOf(entry).map(({ max }, i): [number, number, number] => [
      max,
      facts[at + 2 + i * 2] as number,
      facts[at + 3 + i * 2] as number
    ])
    const state = facts[at] as number
    return {
      state,
      blockedFor: state === BLOCKED ? (facts[at + 1] as number) : Number.POSITIVE_INFINITY,
      limits
    }
  })
}

/** Whether one of its entries refuses, or would if it were not observed. */
export function refuses(part: Part): boolean {
  return read(part).some(({ state }) => state !== PASSES)
}

/** When the limits and blocks that refuse cease to, in ticks from the store's answer. */
export function resetsOf(part: Part): number[] {
  return read(part).flatMap(({ blockedFor, limits }) => [
    blockedFor,
    ...limits.filter(([max, used]) => used >= max).map(([, , reset]) => reset)
  ])
}

export function isObserved({ entries }: Part): boolean {
  return entries.some(({ spec }) => spec.observed)
}

/** Whether a refusal lasts: a lock ends any time, and a limit that comes from a request is that of no other. */
export function isLasting({ entries }: Part): boolean {
  return entries.every(({ spec, max, zoned }) => spec.kind !== 'lock' && max === undefined && !zoned)
}

/** Whether they ask the same of the same: a rule that was replaced has other specs. */
export function isSame(a: Part, b: Part): boolean {
  return (
    a.rule === b.rule &&
    a.identity === b.identity &&
    a.entries.length === b.entries.length &&
    a.entries.every(({ spec, value }, i) => spec === b.entries[i]?.spec && value === b.entries[i]?.value) &&
    isLasting(b)
  )
}

/** Adds the facts of a part as they are so many ticks later. */
export function tell(facts: number[], { entries, facts: told }: Part, later: number): void {
  let head = 0
  for (const { spec } of entries) {
    const end = head + factsOf(spec)
    const state = told[head] as number
    facts.push(state, state === BLOCKED ? Math.max((told[head + 1] as number) - later, 1) : 0)
    for (head += 2; head < end; head += 2) {
      const reset = told[head + 1] as number
      facts.push(told[head] as number, reset === 0 ? 0 : Math.max(reset - later, 1))
    }
  }
}

/** Adds as many facts of a part that was not asked about. */
export function unknown(facts: number[], { entries }: Part): void {
  for (const { spec } of entries) {
    facts.push(UNKNOWN)
    for (let left = factsOf(spec); left > 1; left--) facts.push(0)
  }
}

import { factsOf, kindOf } from '../limits/index.js'
import type { Fields, Now } from '../limits/kind.js'
import { BLOCKED, type Entry, type Facts, PASSES, REFUSES } from './store.js'

// Copied, not written: V8 may take what a literal makes for long-lived (docs/speed.md). The clock is no small integer,
// so neither is what stands in its place.
const nothingAsked: Facts = [0.5, 1]

/** The facts before any entry is read. @param now ticks of the wall clock */
export function factsAt(now: number): number[] {
  const facts = nothingAsked.slice()
  facts[0] = now
  return facts
}

/**
 * Adds the facts of one entry as it stands, nothing counted, and what they mean for the whole.
 * @param blockedFor ticks until its block ends; not above 0 when there is none
 */
export function readEntry(
  facts: number[],
  { spec, max, value = 0 }: Entry,
  fields: Fields,
  now: Now,
  blockedFor: number
): void {
  const head = facts.push(PASSES, 0) - 2
  const passes = kindOf(spec).read(facts, fields, now, spec, max, value)
  if (passes && blockedFor <= 0) return
  facts[head] = blockedFor > 0 ? BLOCKED : REFUSES
  facts[head + 1] = Math.max(blockedFor, 0)
  if (!spec.observed) facts[1] = 0
}

/** Rules that are only observed and would refuse, or nothing: those are not counted. */
export function observedRefusals(entries: readonly Entry[], facts: Facts): Set<number> | undefined {
  let refused: Set<number> | undefined
  let head = 2
  for (const { spec } of entries) {
    if (spec.observed && facts[head] !== PASSES) {
      refused ??= new Set()
      refused.add(spec.rule)
    }
    head += factsOf(spec)
  }
  return refused
}

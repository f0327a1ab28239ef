import { factsOf, kindOf } from '../limits/index.js'
import type { Fields, Now } from '../limits/kind.js'
import { BLOCKED, type Entry, type Facts, PASSES, REFUSES } from './store.js'

// What is copied is made in the young generation, always: V8 may find that what a literal makes outlives collections.
const nothingAsked: Facts = [0.5, 1]

/** The facts before any entry is read. @param now ticks of the wall clock */
export function factsAt(now: number): number[] {
  const facts = nothingAsked.slice()
  facts[0] = now
  return facts
}

/** Adds the facts of one entry as it stands, nothing counted, and what they mean for the whole. */
export function readEntry(
  facts: number[],
  { spec, max, value = 0 }: Entry,
  fields: Fields,
  now: Now,
  blocked: boolean
): void {
  const head = facts.push(PASSES, 0) - 2
  const passes = kindOf(spec).read(facts, fields, now, spec, max, value)
  if (passes && !blocked) return
  facts[head] = blocked ? BLOCKED : REFUSES
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

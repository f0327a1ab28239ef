import { factsOf, kindOf } from '../limits/index.js'
import type { Fields, Now } from '../limits/kind.js'
import { BLOCKED, type Entry, type Facts, PASSES, REFUSES } from './store.js'

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

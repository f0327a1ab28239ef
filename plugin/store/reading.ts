import { factsOf, kindOf } from '../limits/index.js'
import type { Fields, Now } from '../limits/kind.js'
import { BLOCKED, type Entry, type Facts, PASSES, REFUSES } from './store.js'

// As long as the longest facts so far. It begins with a fraction, so that V8 holds doubles in it: the clock is no small integer.
const blank = [0.5]

/**
 * The facts before any entry is read, at their final length. A copy, no literal: V8 may make those in the old
 * generation at once (docs/speed.md).
 * @param now ticks of the wall clock
 */
export function factsAt(now: number, entries: readonly Entry[]): number[] {
  let length = 2
  for (const { spec } of entries) length += factsOf(spec)
  while (blank.length < length) blank.push(0)
  const facts = blank.slice(0, length)
  facts[0] = now
  facts[1] = 1
  return facts
}

/**
 * Writes the facts of one entry as it stands, nothing counted, and what they mean for the whole.
 * @param head where they begin
 * @param blockedFor ticks until its block ends; not above 0 when there is none
 */
export function readEntry(
  facts: number[],
  head: number,
  entry: Entry,
  fields: Fields,
  now: Now,
  blockedFor: number
): void {
  const { spec } = entry
  const passes = kindOf(spec).read(facts, head + 2, fields, now, entry) && blockedFor <= 0
  facts[head] = passes ? PASSES : blockedFor > 0 ? BLOCKED : REFUSES
  facts[head + 1] = Math.max(blockedFor, 0)
  if (!passes && !spec.observed) facts[1] = 0
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

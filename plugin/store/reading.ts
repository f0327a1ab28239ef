import { kindOf } from '../limits/index.js'
import type { Fields, Now } from '../limits/kind.js'
import {
  ADMITTED,
  BLOCKED,
  BLOCKED_FOR,
  type Facts,
  FIRST,
  factsOf,
  NOW,
  PASSES,
  REFUSES,
  USED
} from './facts.js'
import type { Entry } from './store.js'

// As long as the longest facts so far. The fraction makes V8 keep doubles in it from the start, since the clock is no
// small integer.
const blank = [0.5]

/**
 * The facts before any entry is read, at their final length. They are copied, since V8 may make literals in the old
 * generation at once (docs/speed.md).
 * @param now ticks of the wall clock
 */
export function factsAt(now: number, entries: readonly Entry[]): number[] {
  let length = FIRST
  for (const { spec } of entries) length += factsOf(spec)
  while (blank.length < length) blank.push(0)
  const facts = blank.slice(0, length)
  facts[NOW] = now
  facts[ADMITTED] = 1
  return facts
}

/**
 * Writes the facts of one entry as it stands, with nothing counted. If the entry refuses, the decision does.
 * @param head where the entry's facts begin
 * @param blockedFor ticks until the entry's block ends; 0 or less when there is none
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
  const passes = kindOf(spec).read(facts, head + USED, fields, now, entry) && blockedFor <= 0
  facts[head] = passes ? PASSES : blockedFor > 0 ? BLOCKED : REFUSES
  facts[head + BLOCKED_FOR] = Math.max(blockedFor, 0)
  if (!passes && !spec.observed) facts[ADMITTED] = 0
}

/** The numbers of observed rules that would refuse, which are therefore not counted; undefined when there are none. */
export function observedRefusals(entries: readonly Entry[], facts: Facts): Set<number> | undefined {
  let refused: Set<number> | undefined
  let head = FIRST
  for (const { spec } of entries) {
    if (spec.observed && facts[head] !== PASSES) {
      refused ??= new Set()
      refused.add(spec.rule)
    }
    head += factsOf(spec)
  }
  return refused
}

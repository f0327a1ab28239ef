import { factsOf, kindOf } from '../limits/index.js'
import type { Fields } from '../limits/kind.js'
import { observedRefusals, readEntry } from './reading.js'
import type { Entry, Facts } from './store.js'

/** A Redis value as fields: six bytes each; a blocked one ends in six more and a `B`. */
export class Value implements Fields {
  readonly length: number

  /** @param size in bytes, from `start` on; 0: there is none */
  constructor(
    private readonly bytes: Buffer,
    private readonly start: number,
    private readonly size: number
  ) {
    this.length = Math.floor((size - (size % 6 === 1 ? 7 : 0)) / 6)
  }

  at(index: number): number {
    return this.bytes.readUIntBE(this.start + index * 6, 6)
  }

  blockedUntil(): number {
    return this.size % 6 === 1 ? this.at(this.length) : 0
  }
}

/**
 * The facts of what the script that decides has answered: values, its clock, whether it admitted. One packed answer is
 * read in a fifth of the time that a client takes for a list of them.
 */
export function decided(entries: readonly Entry[], answer: Buffer): Facts {
  const values: Value[] = []
  // MessagePack, as far as Redis writes it here; values are strings, those of no key `false`.
  let at = entries.length + 2 < 16 ? 1 : 3
  for (let i = 0; i < entries.length; i++) {
    const type = answer[at++] as number
    let size = 0
    if (type >= 0xa0 && type < 0xc0) size = type - 0xa0
    else if (type === 0xd9) size = answer.readUInt8(at++)
    else if (type === 0xda) {
      size = answer.readUInt16BE(at)
      at += 2
    }
    values.push(new Value(answer, at, size))
    at += size
  }
  // A number of 64 bits, then one of seven.
  return factsFrom(entries, values, answer.readUIntBE(at + 3, 6), answer[at + 9])
}

/**
 * Facts are reckoned here, not in Redis, whose time is everybody's.
 * @param values those from before
 * @param ticks the clock of Redis
 * @param admitted what the script decided, if it did
 */
export function factsFrom(
  entries: readonly Entry[],
  values: readonly Value[],
  ticks: number,
  admitted?: number
): Facts {
  const now = { steady: ticks, wall: ticks, fresh: ticks }
  const facts = [ticks, 1]
  for (const [i, entry] of entries.entries()) {
    const head = facts.length
    const value = values[i] as Value
    readEntry(facts, entry, value, now, value.blockedUntil() > ticks)
    if (admitted === 1) facts[head + 1] = kindOf(entry.spec).receipt(value, now)
  }
  if (admitted === undefined) return facts
  facts[1] = admitted
  const skipped = admitted === 1 && observedRefusals(entries, facts)
  if (!skipped) return facts
  let head = 2
  for (const { spec } of entries) {
    if (skipped.has(spec.rule)) facts[head + 1] = 0
    head += factsOf(spec)
  }
  return facts
}

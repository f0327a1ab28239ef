import { isHeld, limitsOf } from '../limits/index.js'
import { BLOCKED, BLOCKED_FOR, type Facts, PASSES, PER_LIMIT, RETURNS_IN, USED } from './facts.js'
import { type Entry, isInForce } from './store.js'

/** A decision that refused. Times are ticks of this process's clock. */
export interface KnownRefusal {
  /** What the store answered. */
  facts: Facts
  /** When it answered. */
  answered: number
  /** Until then every entry that refused goes on refusing, unless one of its slots is given back. */
  until: number
  /** What the refusal tells of each entry; undefined for an entry whose state may not last. */
  entries: readonly (KnownEntry | undefined)[]
}

/** What a refusal tells of one entry. */
export class KnownEntry {
  /** @param head where the entry's facts begin */
  constructor(
    readonly entry: Entry,
    private readonly head: number,
    readonly refusal: KnownRefusal
  ) {}

  get state(): number {
    return this.refusal.facts[this.head] as number
  }

  /** Whether the entry refuses, or would if it were not observed. */
  get refuses(): boolean {
    return this.state !== PASSES
  }

  /**
   * When the entry's block ends, and when each of its limits that refuses has a slot again, in ticks from the store's
   * answer; Infinity for a block without an end.
   */
  get resets(): number[] {
    const { entry, head } = this
    const { facts } = this.refusal
    const resets = limitsOf(entry).flatMap(({ max }, i) => {
      const at = head + i * PER_LIMIT
      return (facts[at + USED] as number) >= max ? [facts[at + RETURNS_IN] as number] : []
    })
    return this.state === BLOCKED ? [facts[head + BLOCKED_FOR] as number, ...resets] : resets
  }

  /** Writes the entry's facts as they are at the tick `now`. @param head where to write them */
  write(facts: number[], head: number, now: number): void {
    const { refusal, head: from } = this
    const known = refusal.facts
    const later = now - refusal.answered
    facts[head] = this.state
    // The block has not ended: else the refusal would have.
    facts[head + BLOCKED_FOR] = this.state === BLOCKED ? (known[from + BLOCKED_FOR] as number) - later : 0
    const { limits } = this.entry.spec
    for (let i = 0; i < limits.length * PER_LIMIT; i += PER_LIMIT) {
      const reset = known[from + i + RETURNS_IN] as number
      facts[head + i + USED] = known[from + i + USED] as number
      facts[head + i + RETURNS_IN] = reset === 0 ? 0 : Math.max(reset - later, 1)
    }
  }
}

/**
 * Whether a refusal lasts: a lock may end at any time, a limit or cost that comes from a request holds for no other, and
 * what a rule refuses that was replaced, or is gone, another version of it may admit.
 */
export function isLasting({ spec, max, cost, zoned }: Entry): boolean {
  return !isHeld(spec) && max === undefined && cost === undefined && !zoned && isInForce(spec)
}

/** Whether `b` asks what `a` asked, of which the refusal lasts (`isLasting`), and the rule was not replaced since. */
export function asksTheSame(a: Entry, b: Entry): boolean {
  const same = a.spec === b.spec && a.identity === b.identity && a.value === b.value
  return same && b.max === undefined && b.cost === undefined && isInForce(b.spec)
}

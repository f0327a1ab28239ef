import type { Entry, Spec, Taken } from './store.js'

/** How many notes are kept: the latest ones. */
const PLACES = 2 ** 16
/** Characters of an identity. */
const CHARS = 22
/** In place of the time, in a note of a clear: the primary store was asked to clear, or has done so. */
export const CLEARING = -1
export const CLEARED = 0

/** Notes of what the primary store has counted, to be counted in the memory later: a note costs a tenth of counting. */
export class Journal {
  private readonly specs: (Spec | undefined)[] = []
  private readonly identities = Buffer.alloc(PLACES * CHARS)
  /** For a calendar limit the end of its period; for others the `value` of the entry. */
  private readonly values = new Float64Array(PLACES)
  /** What it cost; 0 where its rule has no cost. */
  private readonly costs = new Float64Array(PLACES)
  /** When the primary store counted it, in ticks of the memory; once the note is counted, what its counting returned. */
  private readonly times = new Float64Array(PLACES)
  private noted = 0
  private counted = 0

  /** Number of the next note. */
  get next(): number {
    return this.noted
  }

  /** Whether `countNext` has come past every note before this number. */
  isCounted(next: number): boolean {
    return next <= this.counted
  }

  note({ spec, identity, value = 0, cost = 0 }: Entry, ends: Taken['ends'], at: number): void {
    const place = this.noted++ % PLACES
    this.specs[place] = spec
    for (let i = 0; i < CHARS; i++) this.identities[place * CHARS + i] = identity.charCodeAt(i)
    this.values[place] = spec.kind === 'count' ? ends : value
    this.costs[place] = cost
    this.times[place] = at
  }

  /**
   * Counts the earliest note that is not counted yet.
   * @param count counts in the memory and returns the receipt; for a clear that is not done, the last receipt so far
   * @returns whether there was such a note
   */
  countNext(count: (entry: Entry, at: number, ends: number) => number): boolean {
    this.counted = Math.max(this.counted, this.noted - PLACES)
    if (this.counted === this.noted) return false
    const place = this.counted++ % PLACES
    const spec = this.specs[place]
    if (spec === undefined) return true
    const identity = this.identities.toString('latin1', place * CHARS, (place + 1) * CHARS)
    const value = this.values[place] as number
    const [own, ends] = spec.kind === 'count' ? [0, value] : [value, 0]
    const cost = this.costs[place] || undefined
    this.times[place] = count({ spec, identity, value: own, cost }, this.times[place] as number, ends)
    return true
  }

  /**
   * Marks the clear of a note as done.
   * @returns what the counting of the note has returned, 0 when the note was overwritten; undefined while neither this
   *   note nor a later one is counted
   */
  clear(note: number): number | undefined {
    if (note < this.noted - PLACES) return 0
    const place = note % PLACES
    if (note < this.counted) return this.times[place]
    this.times[place] = CLEARED
    return undefined
  }

  /**
   * Strikes out the note of a spec among those of one decision.
   * @param first number of the decision's first note
   * @param count how many notes the decision has
   * @returns the receipt in the memory, 0 when the note was not counted there
   */
  strike(spec: Spec, first: number, count: number): number {
    for (let note = Math.max(first, this.noted - PLACES); note < first + count; note++) {
      const place = note % PLACES
      if (this.specs[place] !== spec) continue
      this.specs[place] = undefined
      return note < this.counted ? (this.times[place] as number) : 0
    }
    return 0
  }
}

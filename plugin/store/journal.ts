import type { Entry, Spec, Taken } from './store.js'

/** So many notes are kept, the latest. */
const PLACES = 2 ** 16
/** Of an identity. */
const CHARS = 22
/** In place of a time, of a note that is no send: a clear that was asked for, and one that is done. */
export const CLEARING = -1
export const CLEARED = 0

/** What was counted elsewhere of late, to be counted here in time: a note costs a tenth of that. */
export class Journal {
  private readonly specs: (Spec | undefined)[] = []
  private readonly identities = Buffer.alloc(PLACES * CHARS)
  /** Of a count the end of its period, of others the value. */
  private readonly values = new Float64Array(PLACES)
  /** When it was counted there, then its receipt here. */
  private readonly times = new Float64Array(PLACES)
  private noted = 0
  private counted = 0

  /** Number of the next note. */
  get next(): number {
    return this.noted
  }

  /** Whether all before this number is counted, or gone. */
  isCounted(next: number): boolean {
    return next <= Math.max(this.counted, this.noted - PLACES)
  }

  note({ spec, identity, value = 0 }: Entry, ends: Taken['ends'], at: number): void {
    const place = this.noted++ % PLACES
    this.specs[place] = spec
    for (let i = 0; i < CHARS; i++) this.identities[place * CHARS + i] = identity.charCodeAt(i)
    this.values[place] = spec.kind === 'count' ? ends : value
    this.times[place] = at
  }

  /** Counts the earliest that is not counted yet. @param count gives the receipt @returns whether there was one */
  countNext(count: (entry: Entry, at: number, ends: number) => number): boolean {
    this.counted = Math.max(this.counted, this.noted - PLACES)
    if (this.counted === this.noted) return false
    const place = this.counted++ % PLACES
    const spec = this.specs[place]
    if (spec === undefined) return true
    const identity = this.identities.toString('latin1', place * CHARS, (place + 1) * CHARS)
    const value = this.values[place] as number
    const [own, ends] = spec.kind === 'count' ? [0, value] : [value, 0]
    this.times[place] = count({ spec, identity, value: own }, this.times[place] as number, ends)
    return true
  }

  /** Says that what a note asked to be cleared is. @returns whether nothing behind it is counted yet */
  clear(note: number): boolean {
    const waits = note >= Math.max(this.counted, this.noted - PLACES)
    if (waits) this.times[note % PLACES] = CLEARED
    return waits
  }

  /**
   * Strikes out the note of a spec among those of one decision.
   * @returns the receipt of what was counted for it, 0 for none
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

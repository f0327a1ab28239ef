import type { Entry, Spec } from './store.js'

/** So many are kept; each takes 36 bytes. */
const PLACES = 2 ** 16
/** By so many characters of an identity the memory store knows it. */
const CHARS = 12

/** What was counted elsewhere of late, to be counted here when it is needed: a note costs a tenth of that. */
export class Journal {
  private readonly specs: (Spec | undefined)[] = []
  private readonly identities = Buffer.alloc(PLACES * CHARS)
  private readonly values = new Float64Array(PLACES)
  // When it was counted elsewhere; its receipt as soon as it is counted here.
  private readonly times = new Float64Array(PLACES)
  private noted = 0
  private counted = 0

  /** @returns the number of the note */
  note({ spec, identity, value = 0 }: Entry, at: number): number {
    const place = this.noted % PLACES
    this.specs[place] = spec
    for (let i = 0; i < CHARS; i++) this.identities[place * CHARS + i] = identity.charCodeAt(i)
    this.values[place] = value
    this.times[place] = at
    return this.noted++
  }

  /** Counts what is noted and not counted yet, in that order. @param count gives the receipt */
  catchUp(count: (entry: Entry, at: number) => number): void {
    this.counted = Math.max(this.counted, this.noted - PLACES)
    for (; this.counted < this.noted; this.counted++) {
      const place = this.counted % PLACES
      const spec = this.specs[place]
      if (spec === undefined) continue
      const identity = this.identities.toString('latin1', place * CHARS, (place + 1) * CHARS)
      const entry = { spec, identity, value: this.values[place] as number }
      this.times[place] = count(entry, this.times[place] as number)
    }
  }

  /** Strikes out a note. @returns the receipt of what was counted for it, 0 for none */
  strike(note: number): number {
    const place = note % PLACES
    if (note < this.noted - PLACES || this.specs[place] === undefined) return 0
    this.specs[place] = undefined
    return note < this.counted ? (this.times[place] as number) : 0
  }
}

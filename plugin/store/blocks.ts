import { HalfSipHash } from './half-sip-hash.js'
import type { Entry } from './store.js'

/**
 * Who is blocked in memory, by a hash of the identity, and until when, in ticks; Infinity for a block without an end.
 */
export class Blocks {
  private readonly ends = new Map<string, number>()
  private swept = this.ends.entries()
  /** The series in which somebody may be blocked: for all others no hash is computed. */
  private readonly series = new Set<number>()
  private readonly hash = new HalfSipHash()

  /** How many blocks are held, with those that have ended but are not dropped yet. */
  get size(): number {
    return this.ends.size
  }

  /** Ticks until the block of an entry ends; 0 or less when there is none. */
  left(entry: Entry, now: number): number {
    const until = this.series.has(entry.spec.series) ? this.ends.get(this.nameOf(entry)) : undefined
    return until === undefined ? 0 : until - now
  }

  set(entry: Entry, until: number): void {
    this.series.add(entry.spec.series)
    this.ends.set(this.nameOf(entry), until)
  }

  delete(entry: Entry): void {
    if (this.series.has(entry.spec.series)) this.ends.delete(this.nameOf(entry))
  }

  /** Looks at the next `looks` blocks, and after the last one begins anew; drops those that have ended at `now`. */
  sweep(now: number, looks: number): void {
    for (let left = Math.min(looks, this.ends.size + 1); left > 0; left--) {
      const { value: block } = this.swept.next()
      if (block === undefined) this.swept = this.ends.entries()
      else if (block[1] <= now) this.ends.delete(block[0])
    }
    if (this.ends.size === 0) this.series.clear()
  }

  /** Forgets the text that it was asked about last. */
  forget(): void {
    this.hash.forget()
  }

  private nameOf({ identity, spec }: Entry): string {
    this.hash.read(identity)
    return `${this.hash.first} ${this.hash.second} ${spec.series}`
  }
}

import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import { OldestFirst } from '../oldest-first.js'
import {
  type CurrentEntry,
  full,
  type ListEntry,
  type Lists,
  MAX_ENTRIES,
  type NewEntry,
  type Page,
  type PageEntry
} from './lists.js'

interface Held {
  entry: ListEntry
  /** Number of the placing; newer ones are higher. */
  order: number
  /** Infinity for an entry that never ends. */
  ends: Instant
}

/** Looking through all entries takes up to 3 ms, so an ended entry may stay this long before a request looks for it. */
const SWEEP_MS = 1_000
/** The most ended entries that are deleted at once: 100,000 would take 40 ms. */
const SWEPT = 1_000
const NEVER: Instant = { monotonic: Number.POSITIVE_INFINITY, wall: Number.POSITIVE_INFINITY }

/** Lists in the memory of this process. */
export class MemoryLists implements Lists {
  // In the order in which they were placed.
  private readonly held = new OldestFirst<string, Held>()
  private placings = 0
  /** No entry ends before this. */
  private earliest = NEVER

  constructor(
    private readonly clock: Clock,
    private readonly max = MAX_ENTRIES
  ) {}

  async put(recipientHash: string, { standing, masked, reason, durationMs }: NewEntry): Promise<ListEntry> {
    this.sweep(this.held.size < this.max ? SWEEP_MS : 0)
    if (this.held.get(recipientHash) === undefined && this.held.size >= this.max) throw full(this.max)
    const ends = durationMs === undefined ? NEVER : instantIn(durationMs, this.clock)
    const entry: ListEntry = {
      standing,
      ...(masked !== undefined && { masked }),
      ...(reason !== undefined && { reason }),
      since: this.clock.wall(),
      ...(durationMs !== undefined && { until: ends.wall })
    }
    this.held.set(recipientHash, { entry, order: ++this.placings, ends })
    this.earliest = earlier(this.earliest, ends)
    return entry
  }

  async get(recipientHash: string): Promise<CurrentEntry | null> {
    this.sweep(SWEEP_MS)
    const found = this.held.get(recipientHash)
    if (found === undefined) return null
    const { entry, ends } = found
    const leftMs = Math.ceil(msUntil(ends, this.clock))
    // Not every ended entry has been swept.
    if (leftMs <= 0) return null
    return { ...entry, ...(entry.until !== undefined && { leftMs }) }
  }

  async remove(recipientHash: string): Promise<void> {
    this.held.delete(recipientHash)
  }

  async all({ standing, limit, after }: Page): Promise<{ entries: PageEntry[]; next: string | null }> {
    this.sweep(0)
    const before = after === undefined ? Number.POSITIVE_INFINITY : Number(after)
    const entries: PageEntry[] = []
    let last = before
    for (const { key, value } of this.held.newestFirst()) {
      const { entry, order, ends } = value
      if (order >= before || (standing ?? entry.standing) !== entry.standing) continue
      // The sweep may have left ended entries.
      if (msUntil(ends, this.clock) <= 0) continue
      if (entries.length === limit) return { entries, next: String(last) }
      entries.push({ recipientHash: key, ...entry })
      last = order
    }
    return { entries, next: null }
  }

  async verify(): Promise<void> {}

  /** Deletes up to `SWEPT` ended entries. @param patienceMs how long an ended entry may stay */
  private sweep(patienceMs: number): void {
    if (msUntil(this.earliest, this.clock) > -patienceMs) return
    const now = instantIn(0, this.clock)
    let left = SWEPT
    this.earliest = NEVER
    for (const { key, value } of this.held.newestFirst()) {
      const { ends } = value
      const hasEnded = ends.monotonic <= now.monotonic || ends.wall <= now.wall
      if (!hasEnded) this.earliest = earlier(this.earliest, ends)
      else if (left-- > 0) this.held.delete(key)
      else {
        this.earliest = now
        return
      }
    }
  }
}

const earlier = (one: Instant, other: Instant): Instant => ({
  monotonic: Math.min(one.monotonic, other.monotonic),
  wall: Math.min(one.wall, other.wall)
})

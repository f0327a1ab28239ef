import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import {
  type Found,
  full,
  type Listed,
  type Lists,
  MAX_ENTRIES,
  type Page,
  type Placed,
  type Placing
} from './lists.js'

interface Held {
  placed: Placed
  /** Counts up with each placing: newer is higher. */
  order: number
  /** Infinity: never. */
  ends: Instant
}

const NEVER: Instant = { monotonic: Number.POSITIVE_INFINITY, wall: Number.POSITIVE_INFINITY }

/** Lists of this process. */
export class MemoryLists implements Lists {
  // In the order of their placing, the newest last.
  private readonly held = new Map<string, Held>()
  private placings = 0
  /** No entry ends before. */
  private earliest = NEVER

  constructor(
    private readonly clock: Clock,
    private readonly max = MAX_ENTRIES
  ) {}

  async put(recipientHash: string, { standing, masked, reason, durationMs }: Placing): Promise<Placed> {
    this.sweep()
    if (!this.held.has(recipientHash) && this.held.size >= this.max) throw full(this.max)
    const ends = durationMs === undefined ? NEVER : instantIn(durationMs, this.clock)
    const placed: Placed = {
      standing,
      ...(masked !== undefined && { masked }),
      ...(reason !== undefined && { reason }),
      since: this.clock.wall(),
      ...(durationMs !== undefined && { until: ends.wall })
    }
    this.held.delete(recipientHash)
    this.held.set(recipientHash, { placed, order: ++this.placings, ends })
    this.earliest = earlier(this.earliest, ends)
    return placed
  }

  async get(recipientHash: string): Promise<Found | null> {
    this.sweep()
    const found = this.held.get(recipientHash)
    if (found === undefined) return null
    const { placed, ends } = found
    const leftMs = Math.ceil(msUntil(ends, this.clock))
    // It may have ended since it was swept.
    if (leftMs <= 0) return null
    return { ...placed, ...(placed.until !== undefined && { leftMs }) }
  }

  async remove(recipientHash: string): Promise<void> {
    this.held.delete(recipientHash)
  }

  async all({ standing, limit, after }: Page): Promise<{ entries: Listed[]; next: string | null }> {
    this.sweep()
    const before = after === undefined ? Number.POSITIVE_INFINITY : Number(after)
    const found = [...this.held]
      .filter(([, { placed, order }]) => order < before && (standing ?? placed.standing) === placed.standing)
      .reverse()
    const shown = found.slice(0, limit)
    return {
      entries: shown.map(([recipientHash, { placed }]) => ({ recipientHash, ...placed })),
      next: found.length > limit ? String(shown.at(-1)?.[1].order) : null
    }
  }

  async verify(): Promise<void> {}

  private sweep(): void {
    if (msUntil(this.earliest, this.clock) > 0) return
    this.earliest = NEVER
    for (const [key, { ends }] of this.held) {
      if (msUntil(ends, this.clock) <= 0) this.held.delete(key)
      else this.earliest = earlier(this.earliest, ends)
    }
  }
}

const earlier = (one: Instant, other: Instant): Instant => ({
  monotonic: Math.min(one.monotonic, other.monotonic),
  wall: Math.min(one.wall, other.wall)
})

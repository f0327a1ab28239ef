import type { Clock } from '../clock.js'
import {
  type Found,
  full,
  hasherOf,
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
  /** By the monotonic clock; Infinity: never. */
  endsAt: number
}

/** Lists of this process. */
export class MemoryLists implements Lists {
  // In the order of their placing, the newest last.
  private readonly held = new Map<string, Held>()
  private readonly hash: (identity: string) => string
  private placings = 0
  /** When the next entry ends. */
  private earliest = Number.POSITIVE_INFINITY

  constructor(
    secret: string,
    private readonly clock: Clock,
    private readonly max = MAX_ENTRIES
  ) {
    this.hash = hasherOf(secret)
  }

  async put(identity: string, { standing, masked, reason, durationMs }: Placing): Promise<Placed> {
    const now = this.sweep()
    const key = this.hash(identity)
    if (!this.held.has(key) && this.held.size >= this.max) throw full(this.max)
    const since = this.clock.wall()
    const placed: Placed = {
      standing,
      masked,
      ...(reason !== undefined && { reason }),
      since,
      ...(durationMs !== undefined && { until: since + durationMs })
    }
    this.held.delete(key)
    const endsAt = now + (durationMs ?? Number.POSITIVE_INFINITY)
    this.held.set(key, { placed, order: ++this.placings, endsAt })
    this.earliest = Math.min(this.earliest, endsAt)
    return placed
  }

  async get(identity: string): Promise<Found | null> {
    const now = this.sweep()
    const found = this.held.get(this.hash(identity))
    if (found === undefined) return null
    const { placed, endsAt } = found
    const leftMs = Math.ceil(endsAt - now)
    return { ...placed, ...(placed.until !== undefined && { leftMs }) }
  }

  async remove(identity: string): Promise<boolean> {
    const found = (await this.get(identity)) !== null
    this.held.delete(this.hash(identity))
    return found
  }

  async all({ standing, limit, after }: Page): Promise<{ entries: Placed[]; next: string | null }> {
    this.sweep()
    const before = after === undefined ? Number.POSITIVE_INFINITY : Number(after)
    const found = [...this.held.values()]
      .filter(({ placed, order }) => order < before && (standing ?? placed.standing) === placed.standing)
      .reverse()
    const shown = found.slice(0, limit)
    return {
      entries: shown.map(({ placed }) => placed),
      next: found.length > limit ? String(shown.at(-1)?.order) : null
    }
  }

  /** @returns now: what is held then has not ended */
  private sweep(): number {
    const now = this.clock.monotonic()
    if (now < this.earliest) return now
    this.earliest = Number.POSITIVE_INFINITY
    for (const [key, { endsAt }] of this.held) {
      if (endsAt <= now) this.held.delete(key)
      else this.earliest = Math.min(this.earliest, endsAt)
    }
    return now
  }
}

import type { Clock } from '../clock.js'
import { OldestFirst } from '../oldest-first.js'
import type { Answers, Begun, Bounds, Slot } from './answers.js'

interface Entry {
  slot: Slot
  body: string
  /** Empty once the slot is finished. */
  token: string
  answer: string
  /** When the lease ends, or the time to keep the answer: an instant of the monotonic clock, in milliseconds. */
  until: number
}

/** The most expired answers that one call drops: dropping 10,000 at once would take 10 ms. */
const SWEPT = 1_000

/** Answers in the memory of this process. No method awaits anything, so each call is atomic. */
export class MemoryAnswers implements Answers {
  // Both ordered by `until`: all leases are equally long, and all answers are kept for the same time.
  private readonly running = new OldestFirst<Entry, Entry>()
  private readonly finished = new OldestFirst<Entry, Entry>()
  // By scope and key; the entries of a scope in the order in which they began or finished.
  private readonly scopes = new Map<string, Map<string, Entry>>()

  /**
   * @param bounds with `max`, the most slots of all scopes together; beyond them, the oldest finished slot of any goes
   */
  constructor(
    private readonly clock: Clock,
    private readonly bounds: Bounds & { max: number }
  ) {}

  async begin(slot: Slot, body: string, token: string, leaseMs: number): Promise<Begun> {
    const now = this.clock.monotonic()
    this.sweep(now)
    const found = this.scopes.get(slot.scope)?.get(slot.key)
    // The sweep may have left expired answers.
    if (found !== undefined && found.until > now) return begunBefore(found, body)
    if (found !== undefined) this.drop(found)
    if (!this.makeRoom(slot.scope)) return { is: 'full' }
    this.hold({ slot, body, token, answer: '', until: now + leaseMs })
    return { is: 'begun' }
  }

  async finish(slot: Slot, token: string, answer: string): Promise<boolean> {
    const entry = this.heldBy(slot, token)
    const now = this.clock.monotonic()
    if (entry === undefined || entry.until <= now) return false
    this.drop(entry)
    this.hold({ ...entry, token: '', answer, until: now + this.bounds.keepMs })
    return true
  }

  async free(slot: Slot, token: string): Promise<void> {
    const entry = this.heldBy(slot, token)
    if (entry !== undefined) this.drop(entry)
  }

  private heldBy({ scope, key }: Slot, token: string): Entry | undefined {
    const entry = this.scopes.get(scope)?.get(key)
    return entry?.token === token ? entry : undefined
  }

  private hold(entry: Entry): void {
    const { scope, key } = entry.slot
    const own = this.scopes.get(scope) ?? new Map<string, Entry>()
    this.scopes.set(scope, own.set(key, entry))
    this.homeOf(entry).set(entry, entry)
  }

  private drop(entry: Entry): void {
    const { scope, key } = entry.slot
    const own = this.scopes.get(scope)
    own?.delete(key)
    if (own?.size === 0) this.scopes.delete(scope)
    this.homeOf(entry).delete(entry)
  }

  private homeOf({ token }: Entry): OldestFirst<Entry, Entry> {
    return token === '' ? this.finished : this.running
  }

  private makeRoom(scope: string): boolean {
    const own = this.scopes.get(scope)
    if (own !== undefined && own.size >= this.bounds.perScope && !this.dropOne(finishedIn(own))) return false
    return (
      this.running.size + this.finished.size < this.bounds.max || this.dropOne(this.finished.oldest?.value)
    )
  }

  private dropOne(entry: Entry | undefined): boolean {
    if (entry !== undefined) this.drop(entry)
    return entry !== undefined
  }

  /** Drops all slots whose lease has ended, and up to `SWEPT` expired answers. */
  private sweep(now: number): void {
    while (this.dropEnded(this.running, now));
    for (let left = SWEPT; left > 0 && this.dropEnded(this.finished, now); left--);
  }

  private dropEnded({ oldest }: OldestFirst<Entry, Entry>, now: number): boolean {
    return oldest !== undefined && oldest.value.until <= now && this.dropOne(oldest.value)
  }
}

/** The oldest finished entry of a scope. */
function finishedIn(own: ReadonlyMap<string, Entry>): Entry | undefined {
  for (const entry of own.values()) if (entry.token === '') return entry
  return undefined
}

function begunBefore({ body, token, answer }: Entry, other: string): Begun {
  if (body !== other) return { is: 'other-body' }
  return token === '' ? { is: 'finished', answer } : { is: 'running' }
}

import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import { OldestFirst } from '../oldest-first.js'
import { problem } from '../problem.js'
import {
  type Checked,
  isRenewable,
  isUsable,
  type Kept,
  RETENTION_MS,
  type Records,
  type Sent,
  type Terms,
  UNTRIED
} from './records.js'

interface Held extends Omit<Kept, 'lifeMs'> {
  expiresAt: Instant
  /** How long the record is kept: an instant of the monotonic clock, in milliseconds. */
  until: number
  resends: Resend[]
  receipts: string[]
}

/** The generation that a resend made, and the state of the code before it. */
interface Resend {
  token: string
  generation: number
  former: Pick<Held, 'generation' | 'triesLeft' | 'expiresAt' | 'ended' | 'sender'>
}

/** The most records that one call deletes after their retention: deleting 100,000 at once would take 25 ms. */
const SWEPT = 1_000

/**
 * Records in the memory of this process. Their number is bounded: when it is reached, `put` throws rather than forget a
 * live code. No method awaits anything, so each call is one step.
 */
export class MemoryRecords implements Records {
  // Ordered by `until`, since all records are kept for the same time.
  private readonly held = new OldestFirst<string, Held>()

  constructor(
    private readonly clock: Clock,
    private readonly max = 100_000
  ) {}

  async put(key: string, sealed: string, terms: Terms): Promise<void> {
    this.sweep()
    if (this.held.size >= this.max) throw problem(503, 'CODES_FULL', 'No more codes can be stored now.')
    this.held.set(key, {
      sealed,
      generation: 1,
      made: 1,
      perhaps: '',
      resends: [],
      receipts: [],
      ...this.begin(terms)
    })
  }

  async get(key: string): Promise<Kept | null> {
    const held = this.find(key)
    return held === undefined ? null : this.kept(held)
  }

  async check(key: string, generation: number): Promise<Checked> {
    const held = this.usable(key)
    if (held === undefined) return UNTRIED
    if (held.generation === generation) {
      held.ended = 'verified'
      return { verified: true, triesLeft: held.triesLeft, tried: true, receipts: held.receipts }
    }
    held.triesLeft--
    if (held.triesLeft === 0) held.ended = 'failed'
    return { ...UNTRIED, triesLeft: held.triesLeft, tried: true }
  }

  async rotate(key: string, terms: Terms, token: string): Promise<number | null> {
    const held = this.renewable(key)
    if (held === undefined) return null
    const { generation, triesLeft, expiresAt, ended, sender } = held
    const next = held.made + 1
    const former = { generation, triesLeft, expiresAt, ended, sender }
    // Rules such as `in-flight` let fewer be under way at once, so none that may be taken back is dropped.
    const resends = [...held.resends, { token, generation: next, former }].slice(-9)
    this.held.set(key, { ...held, generation: next, made: next, resends, ...this.begin(terms) })
    return next
  }

  async restore(key: string, token: string): Promise<void> {
    const held = this.find(key)
    const i = held?.resends.findIndex(each => each.token === token) ?? -1
    if (held === undefined || i < 0) return
    const [{ generation, former }] = held.resends.splice(i, 1) as [Resend]
    const later = held.resends[i]
    if (held.generation !== generation) {
      if (later) later.former = former
    } else if (held.ended === '') Object.assign(held, former)
  }

  async reuse(key: string): Promise<Kept | null> {
    const held = this.usable(key)
    if (held === undefined) return null
    const before = this.kept(held)
    held.made++
    // From now on the code has gone out by more than the resend that made it.
    held.resends = []
    return before
  }

  async cancel(key: string): Promise<boolean> {
    const held = this.renewable(key)
    if (held === undefined) return false
    held.ended = 'cancelled'
    return true
  }

  async noteSent(key: string, generation: number, { sender, perhaps, receipt }: Sent): Promise<boolean> {
    const held = this.find(key)
    if (held === undefined) return false
    if (perhaps !== '') held.perhaps = perhaps
    if (receipt !== '') held.receipts = [...held.receipts, receipt].slice(-9)
    const states = [held, ...held.resends.map(({ former }) => former)]
    const noted = states.find(each => each.generation === generation)
    if (noted !== undefined) noted.sender = sender
    return held.ended === 'verified'
  }

  async drop(key: string): Promise<void> {
    if (this.find(key)?.made === 1) this.held.delete(key)
  }

  private begin({
    lifeMs,
    tries
  }: Terms): Omit<Held, 'sealed' | 'generation' | 'made' | 'perhaps' | 'resends' | 'receipts'> {
    return {
      triesLeft: tries,
      ended: '',
      sender: '',
      expiresAt: instantIn(lifeMs, this.clock),
      until: this.clock.monotonic() + RETENTION_MS
    }
  }

  private find(key: string): Held | undefined {
    this.sweep()
    const held = this.held.get(key)
    return held !== undefined && held.until > this.clock.monotonic() ? held : undefined
  }

  /** The record of a code that may still be used. */
  private usable(key: string): Held | undefined {
    const held = this.find(key)
    return held !== undefined && isUsable(this.kept(held)) ? held : undefined
  }

  /** The record of a code that may be resent or cancelled. */
  private renewable(key: string): Held | undefined {
    const held = this.find(key)
    return held !== undefined && isRenewable(held) ? held : undefined
  }

  private kept({ until: _, resends: __, receipts: ___, expiresAt, ...held }: Held): Kept {
    return { ...held, lifeMs: msUntil(expiresAt, this.clock) }
  }

  private sweep(): void {
    const now = this.clock.monotonic()
    const { held } = this
    for (let left = SWEPT; left > 0; left--) {
      const { oldest } = held
      if (oldest === undefined || oldest.value.until > now) return
      held.delete(oldest.key)
    }
  }
}

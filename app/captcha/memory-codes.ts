import { timingSafeEqual } from 'node:crypto'
import type { Clock } from '../clock.js'
import { problem } from '../problem.js'
import type { Checked, Codes, Ticket } from './codes.js'

interface Held {
  nonce: string
  digest: string
  until: number
  attemptsLeft: number
}

const same = (a: string, b: string) =>
  a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))

/** Codes of this process. Bounded: rather than forget a live code, it takes no more. */
export class MemoryCodes implements Codes {
  // In the order of their ends, as all live equally long.
  private readonly held = new Map<string, Held>()

  constructor(
    private readonly clock: Clock,
    private readonly max = 100_000
  ) {}

  async keep({ slot, nonce, digest }: Ticket, lifetimeMs: number, tries: number): Promise<void> {
    this.held.delete(slot)
    this.sweep()
    if (this.held.size >= this.max) throw problem(503, 'CODES_FULL', 'No more codes can be kept now.')
    this.held.set(slot, { nonce, digest, until: this.clock.monotonic() + lifetimeMs, attemptsLeft: tries })
  }

  // No await between look and delete: that is what makes it one step.
  async check({ slot, nonce, digest }: Ticket): Promise<Checked> {
    this.sweep()
    const held = this.held.get(slot)
    if (held === undefined || !same(held.nonce, nonce)) return { verified: false, attemptsLeft: 0 }
    const verified = same(held.digest, digest)
    held.attemptsLeft--
    if (verified || held.attemptsLeft === 0) this.held.delete(slot)
    return verified ? { verified } : { verified, attemptsLeft: held.attemptsLeft }
  }

  async cancel({ slot, nonce }: Pick<Ticket, 'slot' | 'nonce'>): Promise<void> {
    if (this.held.get(slot)?.nonce === nonce) this.held.delete(slot)
  }

  private sweep(): void {
    const now = this.clock.monotonic()
    for (const [slot, { until }] of this.held) {
      if (until > now) return
      this.held.delete(slot)
    }
  }
}

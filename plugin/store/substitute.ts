import { StoreUnavailableError } from '../errors.js'
import { isHeld } from '../limits/index.js'
import type { CarryOver } from './carry-over.js'
import { ADMITTED, type Facts } from './facts.js'
import { LateAnswer } from './late-answer.js'
import type { MemoryStore } from './memory.js'
import type { Outage } from './outage.js'
import { isQueued } from './redis-errors.js'
import type { Reserved, Reserver } from './reserver.js'
import { isSend, type StandIn } from './stand-in.js'
import type { Entry, Taken } from './store.js'
import { takenOf } from './taken.js'
import { WatchedSettling } from './watched.js'

/** Decides while the primary store is lost: by a memory, by a 503 (`deny`), or by admitting all, uncounted (`allow`). */
export class Substitute {
  private closed = false

  /**
   * @param store settles what the primary store has counted
   * @param onRefundFailed called with the error when the slots of an answer that came too late could not be given back
   */
  constructor(
    private readonly means: StandIn | 'deny' | 'allow',
    private readonly store: Reserver['store'],
    private readonly carryOver: CarryOver,
    private readonly onRefundFailed: (error: unknown) => void
  ) {}

  /**
   * Decides, and queues the admitted sends to be carried over to the primary store when it is back.
   * @param uncounted resolves to true if the primary store has not counted this decision, and never will
   */
  async reserve(
    outage: Outage,
    entries: readonly Entry[],
    token: string,
    uncounted = Promise.resolve(true)
  ): Promise<Reserved> {
    const reserved = await this.decide(entries, token)
    const { facts, store } = reserved
    const taken = facts?.[ADMITTED] === 1 ? takenOf(entries, facts).filter(({ entry }) => isSend(entry)) : []
    if (taken.length === 0) return reserved
    return { facts, store: this.carryOver.queue(taken, outage, store, uncounted) }
  }

  /**
   * Decides in place of a store whose answer failed or did not come in time. If the store admits after all, its slots
   * share the fate of the decision made here: both stay counted, or both are given back.
   */
  async reserveAfter(
    answer: Promise<Facts>,
    error: unknown,
    outage: Outage,
    entries: readonly Entry[],
    token: string
  ): Promise<Reserved> {
    const late = new LateAnswer(entries, token, answer, this.store.refund, this.onRefundFailed)
    let admitted = false
    try {
      const { facts, store } = isQueued(error)
        ? await this.decide(entries, token)
        : await this.reserve(outage, entries, token, late.uncounted)
      admitted = facts === null || facts[ADMITTED] === 1
      if (facts === null) {
        // No settlement follows a decision that was counted nowhere, so the locks of a late answer are released here.
        late.giveBack(entries.filter(({ spec }) => isHeld(spec)))
        return { facts, store, takeBack: () => late.giveBack() }
      }
      const given = (taken: readonly Taken[]) => late.giveBack(taken.map(({ entry }) => entry))
      return { facts, store: new WatchedSettling(store, given) }
    } finally {
      // After a refusal nothing is sent, so nothing stays counted.
      if (!admitted) late.giveBack()
    }
  }

  /**
   * Takes the slots in the memory until the store has answered. While entries wait to be carried over, the
   * store does not know them: so both have to admit.
   * @returns `refused`: the decision of the memory, where it refuses; `release` gives the slots back
   */
  async hold(entries: readonly Entry[], token: string): Promise<{ refused?: Reserved; release: () => void }> {
    const { means } = this
    const reserved = await this.decide(entries, token)
    const { facts } = reserved
    if (facts?.[ADMITTED] !== 1) return { refused: reserved, release() {} }
    return { release: () => typeof means === 'object' && means.release(takenOf(entries, facts), token) }
  }

  peek(entries: readonly Entry[]): Promise<Reserved> {
    return this.ask(memory => memory.peek(entries))
  }

  close(): void {
    this.closed = true
  }

  private decide(entries: readonly Entry[], token: string): Promise<Reserved> {
    return this.ask(memory => memory.reserve(entries, token))
  }

  private async ask(call: (memory: MemoryStore) => Facts): Promise<Reserved> {
    const { means, store } = this
    if (typeof means === 'object') await means.catchUp()
    // After the app has closed, what the memory counts would never be carried over. So nothing is admitted any more.
    if (means === 'deny' || this.closed) throw new StoreUnavailableError()
    if (means === 'allow') return { facts: null, store }
    const memory = means.caughtUp()
    return { facts: call(memory), store: memory }
  }
}

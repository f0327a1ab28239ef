import { StoreUnavailableError } from '../errors.js'
import { CarryOver, type CarryOverOptions } from './carry-over.js'
import { ADMITTED, type Facts } from './facts.js'
import { answerInTime, inTime } from './in-time.js'
import type { Outage } from './outage.js'
import { isWriteError } from './redis-errors.js'
import type { Reserved, Reserver } from './reserver.js'
import type { StandIn } from './stand-in.js'
import type { Entry, Store } from './store.js'
import { Substitute } from './substitute.js'
import { takenOf } from './taken.js'

export interface FallbackOptions extends Omit<CarryOverOptions, 'now'> {
  /**
   * What decides while the primary store does not: this memory, a 503 (`deny`), or nothing, so that everything is
   * admitted uncounted (`allow`). After `close` it is a 503 in any case.
   */
  substitute: StandIn | 'deny' | 'allow'
  /** Called with an error that concerns one request alone: the store, or its node, still decides all others. */
  onError: (error: unknown) => void
  /** Called with the error when the slots of an answer that came too late could not be given back. */
  onRefundFailed: (error: unknown) => void
}

/**
 * The primary store, which may be lost (`Outage` tells), and what decides in its place meanwhile (`Substitute`). If that
 * is a memory (`StandIn`), the memory follows what the store admits. What the memory admits is carried over to the store
 * once it is back (`CarryOver`).
 */
export class Fallback implements Reserver {
  readonly store: Reserver['store']
  private readonly standIn: StandIn | undefined
  private readonly carryOver: CarryOver
  private readonly substitute: Substitute
  /** Refunds under way. */
  private readonly underWay = new Set<Promise<void>>()

  constructor(
    private readonly primary: Store,
    private readonly options: FallbackOptions
  ) {
    const store = inTime(primary, options.timeout)
    const { substitute } = options
    this.standIn = typeof substitute === 'string' ? undefined : substitute
    const refund: Store['refund'] = (taken, token) => this.track(store.refund(taken, token))
    const followed = { ...store, ...this.standIn?.following(store), refund }
    const now = () => this.standIn?.now ?? 0
    this.carryOver = new CarryOver(primary, refund, { ...options, now })
    this.store = { ...followed, clear: entries => this.carryOver.clear(entries, followed.clear) }
    this.substitute = new Substitute(substitute, this.store, this.carryOver, options.onRefundFailed)
  }

  async reserve(entries: readonly Entry[], token: string): Promise<Reserved> {
    const { timeout, outageOf } = this.options
    const outage = outageOf(entries)
    if (this.carryOver.asks(outage) || !outage.takeTurn())
      return this.substitute.reserve(outage, entries, token)
    const held = this.carryOver.concerns(outage) ? await this.substitute.hold(entries, token) : undefined
    if (held?.refused) return held.refused
    const asked = performance.now()
    const answer = Promise.resolve(this.primary.reserve(entries, token))
    try {
      const facts = await answerInTime(answer, timeout)
      held?.release()
      // The store was lost meanwhile, and does not know what the memory has admitted since. So its answer is too late.
      const late = !held && facts[ADMITTED] === 1 && this.carryOver.concerns(outage)
      this.answered(outage, entries, asked, facts)
      if (late) return this.substitute.reserveAfter(answer, undefined, outage, entries, token)
      const settling = facts[ADMITTED] === 1 && this.standIn?.note(entries, facts, this.store, asked)
      return { facts, store: settling || this.store }
    } catch (error) {
      held?.release()
      this.failed(outage, asked, error)
      return this.substitute.reserveAfter(answer, error, outage, entries, token)
    }
  }

  async peek(entries: readonly Entry[]): Promise<Reserved> {
    const { timeout, outageOf } = this.options
    const outage = outageOf(entries)
    if (this.carryOver.asks(outage) || !outage.mayRead()) return this.substitute.peek(entries)
    const asked = performance.now()
    try {
      const facts = await answerInTime(this.primary.peek(entries), timeout)
      this.answered(outage, entries, asked, null)
      return { facts, store: this.store }
    } catch (error) {
      this.failed(outage, asked, error)
      return this.substitute.peek(entries)
    }
  }

  /** Waits for the refunds under way, since not every caller does, and the client may be closed next. */
  async close(): Promise<void> {
    this.substitute.close()
    await this.carryOver.close()
    await Promise.allSettled(this.underWay)
    await this.primary.close()
    this.standIn?.close()
  }

  private track(done: Promise<void>): Promise<void> {
    const end = () => this.underWay.delete(done)
    this.underWay.add(done)
    done.then(end, end)
    return done
  }

  /** @param facts by which the store has decided; null when it was only read */
  private answered(outage: Outage, entries: readonly Entry[], asked: number, facts: Facts | null): void {
    // If the hash slot has moved meanwhile, another node has answered. Other requests may have taken that node for lost
    // while the client was connecting to it.
    const current = this.options.outageOf(entries)
    const lost = outage.lost || current.lost
    // An admission writes nothing if all its rules are only observed and would refuse.
    const wrote = facts && facts[ADMITTED] === 1 && (!lost || takenOf(entries, facts).length > 0)
    outage.answered(wrote, asked)
    if (current.isLostSince(asked)) current.answered(wrote)
    if (!outage.lost && this.carryOver.waits(outage)) this.carryOver.start()
  }

  private failed(outage: Outage, asked: number, error: unknown): void {
    const { isRequestError, onError } = this.options
    // When the store has answered a later call, it is not lost: only this call was, with an earlier connection or on
    // its way to another node.
    const lost = error instanceof StoreUnavailableError && outage.hasAnsweredSince(asked)
    if (lost || isRequestError(error, outage.node)) onError(error)
    else outage.failed(error, isWriteError(error))
  }
}

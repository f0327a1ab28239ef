import { StoreUnavailableError } from '../errors.js'
import { within } from '../within.js'
import { CarryOver, type CarryOverOptions } from './carry-over.js'
import { inTime, unavailable } from './in-time.js'
import { Late } from './late.js'
import type { Outage } from './outage.js'
import type { Reserved, Reserver } from './reserver.js'
import { isSend, type StandIn } from './stand-in.js'
import type { Entry, Facts, Store, Taken } from './store.js'
import { takenOf } from './taken.js'
import { Hearing } from './watched.js'

export interface FallbackOptions extends Omit<CarryOverOptions, 'now'> {
  /** Decides while the primary store does not, until this is closed: this memory, or a 503 (`deny`), or nobody (`allow`). */
  otherwise: StandIn | 'deny' | 'allow'
  /** Of the primary store, or of that part of it which is asked. */
  outageOf: (entries: readonly Entry[]) => Outage
  /** Hears of what is of one request alone: others are decided by the store, or by this node of it, as before. */
  onError: (error: unknown) => void
  /** Hears why what was counted by an answer that came too late could not be given back. */
  onKept: (error: unknown) => void
}

/** A store that may fail, and what holds meanwhile. */
export class Fallback implements Reserver {
  readonly store: Reserver['store']
  private readonly standIn: StandIn | undefined
  private readonly carryOver: CarryOver
  /** What is given back just now. */
  private readonly underWay = new Set<Promise<void>>()
  private closed = false

  constructor(
    private readonly primary: Store,
    private readonly options: FallbackOptions
  ) {
    const store = inTime(primary, options.timeout)
    const { otherwise } = options
    this.standIn = typeof otherwise === 'string' ? undefined : otherwise
    const refund: Store['refund'] = (taken, token) => this.follow(Promise.resolve(store.refund(taken, token)))
    const followed = { ...store, ...this.standIn?.following(store), refund }
    const now = () => this.standIn?.now ?? 0
    this.carryOver = new CarryOver(primary, refund, { ...options, now })
    this.store = {
      ...followed,
      clear: async entries => {
        const waiting = this.carryOver.of(entries)
        await followed.clear(entries)
        // Some may have been told meanwhile.
        await this.carryOver.giveBack(waiting)
      }
    }
  }

  async reserve(entries: readonly Entry[], token: string): Promise<Reserved> {
    const { timeout, outageOf } = this.options
    const outage = outageOf(entries)
    if (!this.mayAsk(outage)) return this.standingIn(outage, entries, token)
    const held = this.carryOver.waits(outage) ? await this.hold(entries, token) : undefined
    if (held?.refused) return held.refused
    const asked = performance.now()
    const blockings = this.standIn?.blockings ?? 0
    const answer = Promise.resolve(this.primary.reserve(entries, token))
    try {
      const facts = await within(answer, timeout, unavailable)
      held?.release()
      this.answered(outage, entries, asked, facts[1] === 1)
      const settling = facts[1] === 1 && this.standIn?.note(entries, facts, this.store, blockings)
      return { facts, store: settling || this.store }
    } catch (error) {
      held?.release()
      this.failed(outage, asked, error)
      return this.afterwards(outage, entries, token, answer)
    }
  }

  async peek(entries: readonly Entry[]): Promise<Reserved> {
    const { timeout, outageOf } = this.options
    const outage = outageOf(entries)
    if (!this.mayAsk(outage)) return this.otherwise(memory => memory.peek(entries))
    const asked = performance.now()
    try {
      const facts = await within(Promise.resolve(this.primary.peek(entries)), timeout, unavailable)
      this.answered(outage, entries, asked, false)
      return { facts, store: this.store }
    } catch (error) {
      this.failed(outage, asked, error)
      return this.otherwise(memory => memory.peek(entries))
    }
  }

  /** Waits for what is given back just now, since not all callers do, and the client may be closed next. */
  async close(): Promise<void> {
    this.closed = true
    await this.carryOver.close()
    await Promise.allSettled(this.underWay)
    await this.primary.close()
    this.standIn?.close()
  }

  private follow(done: Promise<void>): Promise<void> {
    const end = () => this.underWay.delete(done)
    this.underWay.add(done)
    done.then(end, end)
    return done
  }

  /** What waits to be carried over is asked about first: until then decisions need not wait for an answer. */
  private mayAsk(outage: Outage): boolean {
    return !(outage.silent && this.carryOver.waits(outage)) && outage.mayAsk()
  }

  private answered(outage: Outage, entries: readonly Entry[], asked: number, wrote: boolean): void {
    outage.answered(wrote, asked)
    // If the slot has moved meanwhile, another node has answered: others may have found it lost while the client connected to it.
    const current = this.options.outageOf(entries)
    if (current.isLostSince(asked)) current.answered(wrote)
    if (!outage.lost && this.carryOver.waits(outage)) this.carryOver.look()
  }

  private failed(outage: Outage, asked: number, error: unknown): void {
    const { isOfRequest, isOfWrites, onError } = this.options
    // Lost with an earlier connection, or on its way to another node.
    const lost = error instanceof StoreUnavailableError && outage.hasAnsweredSince(asked)
    if (lost || isOfRequest(error, outage.node)) onError(error)
    else outage.failed(error, isOfWrites(error))
  }

  private async otherwise(ask: (memory: ReturnType<StandIn['caughtUp']>) => Facts): Promise<Reserved> {
    const { otherwise } = this.options
    await this.standIn?.catchUp()
    // After the end of the app, what this memory counts would reach nobody: so it decides no more.
    if (otherwise === 'deny' || this.closed) throw new StoreUnavailableError()
    if (otherwise === 'allow') return { facts: null, store: this.store }
    const store = otherwise.caughtUp()
    return { facts: ask(store), store }
  }

  /**
   * What the primary store has still to be told of this memory knows: so it has to admit, too, and holds the slots until
   * the store has answered.
   */
  private async hold(entries: readonly Entry[], token: string) {
    const { facts, store } = await this.otherwise(memory => memory.reserve(entries, token))
    if (facts?.[1] !== 1) return { refused: { facts, store }, release() {} }
    return { release: () => this.standIn?.release(takenOf(entries, facts), token) }
  }

  /** @param uncounted whether the primary store has not counted it, and never will */
  private async standingIn(
    outage: Outage,
    entries: readonly Entry[],
    token: string,
    uncounted = Promise.resolve(true)
  ): Promise<Reserved> {
    const reserved = await this.otherwise(memory => memory.reserve(entries, token))
    const { facts, store } = reserved
    const taken = facts?.[1] === 1 ? takenOf(entries, facts).filter(({ entry }) => isSend(entry)) : []
    if (taken.length === 0) return reserved
    return { facts, store: this.carryOver.take(taken, outage, store, uncounted) }
  }

  // What the store admits too late goes with what was decided in its place: both stay counted, or both are given back.
  private async afterwards(
    outage: Outage,
    entries: readonly Entry[],
    token: string,
    answer: Promise<Facts>
  ): Promise<Reserved> {
    const late = new Late(entries, token, answer, this.store.refund, this.options.onKept)
    const uncounted = answer.then(
      facts => facts[1] !== 1,
      () => outage.lost
    )
    let admitted = false
    try {
      const { facts, store } = await this.standingIn(outage, entries, token, uncounted)
      admitted = facts === null || facts[1] === 1
      if (facts === null) {
        // Counted nowhere, nobody will release its locks.
        late.giveBack(({ spec }) => spec.kind === 'lock')
        return { facts, store, takeBack: () => late.giveBack() }
      }
      const given = (taken: readonly Taken[]) =>
        late.giveBack(entry => taken.some(each => each.entry === entry))
      return { facts, store: new Hearing(store, given) }
    } finally {
      // What was refused was not sent.
      if (!admitted) late.giveBack()
    }
  }
}

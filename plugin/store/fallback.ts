import { StoreUnavailableError } from '../errors.js'
import { within } from '../within.js'
import { inTime, unavailable } from './in-time.js'
import type { Outage } from './outage.js'
import type { Reserved, Reserver } from './reserver.js'
import type { StandIn } from './stand-in.js'
import type { Entry, Facts, Store, Taken } from './store.js'
import { locksOf, takenOf } from './taken.js'
import { Hearing } from './watched.js'

export interface FallbackOptions {
  /** How long a call may take, in milliseconds. */
  timeout: number
  /** Decides while the primary store does not, until this is closed: this memory, or a 503 (`deny`), or nobody (`allow`). */
  otherwise: StandIn | 'deny' | 'allow'
  /** Of the primary store, or of that part of it which is asked. */
  outageOf: (entries: readonly Entry[]) => Outage
  /** Whether an error is of one request alone: others are decided by the store, or by this node of it, as before. */
  isOfRequest: (error: unknown, node: string) => boolean
  /** Whether an error says that the store takes no writes, though it may still be read. */
  isOfWrites: (error: unknown) => boolean
  /** Hears of what is of one request alone. */
  onError: (error: unknown) => void
  /** Hears why what was counted by an answer that came too late could not be given back. */
  onKept: (error: unknown) => void
}

/** A store that may fail, and what holds meanwhile. */
export class Fallback implements Reserver {
  readonly store: Reserver['store']
  private readonly standIn: StandIn | undefined
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
    this.store = { ...store, ...this.standIn?.following(store), refund }
  }

  async reserve(entries: readonly Entry[], token: string): Promise<Reserved> {
    const { timeout, outageOf } = this.options
    const outage = outageOf(entries)
    if (!outage.mayAsk()) return this.otherwise(memory => memory.reserve(entries, token))
    const asked = performance.now()
    const blockings = this.standIn?.blockings ?? 0
    const answer = Promise.resolve(this.primary.reserve(entries, token))
    try {
      const facts = await within(answer, timeout, unavailable)
      this.answered(outage, entries, asked, facts[1] === 1)
      const settling = facts[1] === 1 && this.standIn?.note(entries, facts, this.store, blockings)
      return { facts, store: settling || this.store }
    } catch (error) {
      this.failed(outage, asked, error)
      return this.afterwards(entries, token, answer)
    }
  }

  async peek(entries: readonly Entry[]): Promise<Reserved> {
    const { timeout, outageOf } = this.options
    const outage = outageOf(entries)
    if (!outage.mayAsk()) return this.otherwise(memory => memory.peek(entries))
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

  private answered(outage: Outage, entries: readonly Entry[], asked: number, wrote: boolean): void {
    outage.answered(wrote, asked)
    // Of a slot that moved meanwhile it was another node, which others found lost while the client connected to it.
    const current = this.options.outageOf(entries)
    if (current.isLostSince(asked)) current.answered(wrote)
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
    // What is decided here after the end nobody else would ever hear of.
    if (otherwise === 'deny' || this.closed) throw new StoreUnavailableError()
    if (otherwise === 'allow') return { facts: null, store: this.store }
    const store = otherwise.caughtUp()
    return { facts: ask(store), store }
  }

  // An admission that comes late stays or goes back with what was decided without it. Its answer may be lost with its
  // connection: then its locks go back all the same.
  private async afterwards(
    entries: readonly Entry[],
    token: string,
    answer: Promise<Facts>
  ): Promise<Reserved> {
    const late = answer.then(
      facts => takenOf(entries, facts),
      () => []
    )
    const refund = async (taken: readonly Taken[]) => this.store.refund(taken, token)
    const giveBack = (which: (each: Taken) => boolean) => {
      refund(locksOf(entries).filter(which)).catch(() => {})
      late.then(taken => refund(taken.filter(which))).catch(error => this.options.onKept(error))
    }
    let admitted = false
    try {
      const { facts, store } = await this.otherwise(memory => memory.reserve(entries, token))
      admitted = facts === null || facts[1] === 1
      if (facts === null) {
        // Counted nowhere, nobody will release its locks.
        giveBack(({ entry }) => entry.spec.kind === 'lock')
        return { facts, store, takeBack: () => giveBack(() => true) }
      }
      const given = (taken: readonly Taken[]) =>
        giveBack(({ entry }) => taken.some(each => each.entry === entry))
      return { facts, store: new Hearing(store, given) }
    } finally {
      // What was refused was not sent.
      if (!admitted) giveBack(() => true)
    }
  }
}

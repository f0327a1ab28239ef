import { Backlog } from './backlog.js'
import { Carried } from './carried.js'
import { answerInTime } from './in-time.js'
import type { Outage } from './outage.js'
import { isReply, isUnsent, isWriteError } from './redis-errors.js'
import type { Entry, Settling, Store, Taken } from './store.js'
import { WatchedSettling } from './watched.js'

/** How many entries are carried over in one batch. */
const TOGETHER = 32

export interface CarryOverOptions {
  /** How long a call may take, in milliseconds; also the interval at which a lost store is asked whether it answers. */
  timeout: number
  /** The present tick of the memory. */
  now: () => number
  /** Finds the outage of the store, or of the cluster node that has the keys of these entries. */
  outageOf: (entries: readonly Entry[]) => Outage
  /** Whether an error concerns one request alone, and so says nothing about the store or its `node`. */
  isRequestError: (error: unknown, node: string) => boolean
  /**
   * Called with the reason and the number of entries that are given up. They stay uncounted, unless the store has
   * counted an entry and only its answer was lost.
   */
  onUncounted: (error: unknown, entries: number) => void
}

/**
 * Carries over to the primary store the sends that the memory admitted while the store was lost. The outage is over when
 * the first batch is carried over. If it lasted until the last batch, it would never end while more is admitted than
 * carried over. The store is told of an entry only after it has answered a `peek`. It is told again only if it has
 * certainly not counted the entry: otherwise the entry could count twice.
 */
export class CarryOver {
  private readonly backlog: Backlog
  private readonly carrying = new Map<Outage, Promise<void>>()
  /** Entries that have left the backlog, but have no answer yet. */
  private readonly counting = new Set<Carried>()
  private timer: NodeJS.Timeout | undefined

  constructor(
    private readonly store: Pick<Store, 'count' | 'peek'>,
    private readonly refund: Store['refund'],
    private readonly options: CarryOverOptions
  ) {
    this.backlog = new Backlog(options.outageOf, options.onUncounted)
  }

  /** Whether any entry waits to be carried over since this outage. */
  waits(outage: Outage): boolean {
    return this.backlog.has(outage)
  }

  /** Whether this asks anyway if the store or node of this outage answers, so that no request has to wait for it. */
  asks(outage: Outage): boolean {
    return outage.silent && this.waits(outage)
  }

  /**
   * Whether entries may have to be carried over to the store or node of this outage. They may also wait under the
   * outage of a node whose slots other nodes have taken over.
   */
  concerns(outage: Outage): boolean {
    const { backlog } = this
    return !backlog.isEmpty && (backlog.has(outage) || backlog.outages.some(({ lost }) => !lost))
  }

  /**
   * Queues slots that the memory has counted.
   * @param uncounted resolves to true if the store has not counted them, and never will
   * @returns how to settle them in the memory and in the store
   */
  queue(taken: readonly Taken[], outage: Outage, memory: Settling, uncounted: Promise<boolean>): Settling {
    const at = this.options.now()
    const carried = taken.map(each => new Carried(each, at, uncounted))
    this.backlog.add(outage, carried)
    this.timer ??= setInterval(() => this.start(), this.options.timeout).unref()
    // The store came back while this was being decided.
    if (!outage.lost) this.start()
    return new WatchedSettling(memory, given =>
      this.giveBack(carried.filter(({ taken: { entry } }) => given.some(each => each.entry === entry)))
    )
  }

  /**
   * Clears these entries, also where they wait to be carried over.
   * @param clear clears them in the store and in the memory
   */
  async clear(entries: readonly Entry[], clear: Store['clear']): Promise<void> {
    const waiting = this.find(entries)
    await clear(entries)
    // Some of these may have been carried over during the clear, and would count again.
    await this.giveBack(waiting)
  }

  /** Starts to carry over what waits to each store or node that answers, unless that is under way already. */
  start(): void {
    const idle = ({ outages }: Backlog) => outages.filter(outage => !this.carrying.has(outage))
    for (const outage of idle(this.backlog)) this.backlog.move(outage)
    for (const outage of idle(this.backlog)) {
      const carrying = this.carry(outage).finally(() => this.carrying.delete(outage))
      this.carrying.set(outage, carrying)
    }
  }

  /** Tries once more to carry over what waits, and then gives up the rest. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    this.start()
    await Promise.all(this.carrying.values())
    this.backlog.dropAll('the app ends')
  }

  /** Finds the slots of these entries that wait to be carried over, or are being carried over now. */
  private find(entries: readonly Entry[]): Carried[] {
    return [...this.counting, ...this.backlog.all].filter(({ taken: { entry } }) => {
      const same = ({ identity, spec }: Entry) => identity === entry.identity && spec.name === entry.spec.name
      return entries.some(same)
    })
  }

  /** Gives up these slots where they still wait, and refunds them in the store where they were carried over. */
  private async giveBack(carried: readonly Carried[]): Promise<void> {
    await Promise.all(carried.map(each => each.giveBack(this.refund, this.options.timeout)))
  }

  private async carry(outage: Outage): Promise<void> {
    const waiting = this.backlog.listOf(outage)
    const asked = performance.now()
    try {
      await this.probe(waiting[0], outage)
      const answers = performance.now()
      while (waiting.length > 0) outage.answered(await this.countBatch(waiting, outage, answers), asked)
      this.backlog.delete(outage)
    } catch (error) {
      const onlyReads = isWriteError(error)
      // A store that takes no writes still refuses, so decisions go on asking it: this is no further failure.
      if (outage.silent || (outage.lost && !onlyReads)) outage.failed(error, onlyReads)
    }
    if (!this.backlog.isEmpty) return
    clearInterval(this.timer)
    this.timer = undefined
  }

  /** Peeks at the first entry. @throws when the store does not answer */
  private async probe(first: Carried | undefined, { node }: Outage): Promise<void> {
    const { timeout, isRequestError } = this.options
    await answerInTime(first && this.store.peek([first.taken.entry]), timeout).catch(error => {
      if (!isRequestError(error, node)) throw error
    })
  }

  /**
   * Counts the oldest batch in the store.
   * @param answers since when the store answers, in milliseconds by the monotonic clock
   * @returns whether the store counted any of it
   * @throws the error for which the other entries have to wait longer
   */
  private async countBatch(waiting: Carried[], outage: Outage, answers: number): Promise<boolean> {
    const { now, timeout, isRequestError, onUncounted } = this.options
    const some = waiting.splice(0, TOGETHER).filter(({ over }) => !over)
    for (const each of some) this.counting.add(each)
    const results = await Promise.allSettled(some.map(each => each.count(this.store, now, timeout, answers)))
    for (const each of some) this.counting.delete(each)
    const back: Carried[] = []
    const lost: unknown[] = []
    let failure: unknown
    for (const [i, result] of results.entries()) {
      if (result.status === 'fulfilled') continue
      const { reason } = result
      const ofRequest = isRequestError(reason, outage.node)
      if (!ofRequest) failure = reason
      // Then the store has certainly not counted the entry.
      if (isUnsent(reason) || (isReply(reason) && !ofRequest)) back.push(some[i] as Carried)
      else lost.push(reason)
    }
    if (lost.length > 0) onUncounted(lost[0], lost.length)
    waiting.unshift(...back)
    if (failure !== undefined) throw failure
    return results.some(result => result.status === 'fulfilled' && result.value !== 0)
  }
}

import { within } from '../within.js'
import { unavailable } from './in-time.js'
import type { Store, Taken } from './store.js'

/** A slot of another store, to be taken in this one, too. */
export class Carried {
  /** Given back or cleared: not to be told any more. */
  over = false
  /** What the store calls it, once it is told; 0: not counted. */
  private receipt: Promise<number> = Promise.resolve(0)
  /** By the monotonic clock. */
  private readonly since = performance.now()

  /**
   * @param at when it was counted there, in ticks
   * @param uncounted whether this store has not counted it, and never will
   */
  constructor(
    readonly taken: Taken,
    private readonly at: number,
    private readonly uncounted: Promise<boolean>
  ) {}

  /**
   * Tells the store of it, unless that has counted it: what it has not said for `timeout` milliseconds is lost.
   * @param now the present tick
   * @param answers since when it answers, by the monotonic clock
   * @returns its receipt there, 0 where it is not counted
   * @throws StoreUnavailableError when there is no answer within `timeout` milliseconds; what the store throws
   */
  async tell(
    store: Pick<Store, 'count'>,
    now: () => number,
    timeout: number,
    answers: number
  ): Promise<number> {
    const left = Math.max(this.since, answers) + timeout - performance.now()
    const uncounted = await within(this.uncounted, Math.max(left, 0), unavailable).catch(() => true)
    if (!uncounted || this.over) return 0
    const { entry, ends } = this.taken
    const answer = Promise.resolve(store.count(entry, now() - this.at, ends))
    // It may come later, and be given back then.
    this.receipt = answer.catch(() => 0)
    return within(answer, timeout, unavailable)
  }

  /**
   * Gives it back where it was told of.
   * @throws StoreUnavailableError when that is not known to be done within `timeout` milliseconds
   */
  giveBack(refund: Store['refund'], timeout: number): Promise<void> {
    this.over = true
    const given = this.receipt.then(async receipt => {
      if (receipt !== 0) await refund([{ ...this.taken, receipt }], '')
    })
    return within(given, timeout, unavailable)
  }
}

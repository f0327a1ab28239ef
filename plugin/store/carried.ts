import { answerInTime } from './in-time.js'
import type { Store, Taken } from './store.js'

/** A slot that the memory has counted while the primary store was lost, to be counted in the store as well. */
export class Carried {
  /** Whether the slot was given back or cleared: then the store is not told of it any more. */
  over = false
  /** The slot's receipt in the store; 0 while the store has not counted it. */
  private receipt: Promise<number> = Promise.resolve(0)
  /** When the slot was taken, in milliseconds by the monotonic clock. */
  private readonly since = performance.now()

  /**
   * @param taken the slot as the memory has counted it
   * @param at when the memory counted it, in its ticks
   * @param uncounted resolves to true if the store has not counted it, and never will
   */
  constructor(
    readonly taken: Taken,
    private readonly at: number,
    private readonly uncounted: Promise<boolean>
  ) {}

  /**
   * Counts the slot in the store, unless a late answer says that the store has counted it already. That answer is
   * taken for lost `timeout` milliseconds after the store answers again, or after the slot was taken if that was later.
   * @param now gives the present tick of the memory
   * @param answers since when the store answers, in milliseconds by the monotonic clock
   * @returns the receipt in the store, 0 when the slot was not counted
   * @throws StoreUnavailableError when there is no answer within `timeout` milliseconds; else what the store throws
   */
  async count(
    store: Pick<Store, 'count'>,
    now: () => number,
    timeout: number,
    answers: number
  ): Promise<number> {
    const left = Math.max(this.since, answers) + timeout - performance.now()
    const uncounted = await answerInTime(this.uncounted, Math.max(left, 0)).catch(() => true)
    if (!uncounted || this.over) return 0
    const { entry, ends } = this.taken
    const answer = Promise.resolve(store.count(entry, now() - this.at, ends))
    // An answer that comes after `timeout` still says what `giveBack` has to refund.
    this.receipt = answer.catch(() => 0)
    return answerInTime(answer, timeout)
  }

  /**
   * Gives the slot back in the store, if the store has counted it.
   * @throws StoreUnavailableError when the store does not confirm that within `timeout` milliseconds
   */
  giveBack(refund: Store['refund'], timeout: number): Promise<void> {
    this.over = true
    const given = this.receipt.then(async receipt => {
      if (receipt !== 0) await refund([{ ...this.taken, receipt }], '')
    })
    return answerInTime(given, timeout)
  }
}

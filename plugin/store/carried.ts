import { within } from '../within.js'
import { unavailable } from './in-time.js'
import type { Store, Taken } from './store.js'

/** A slot of another store, to be taken in this one, too. */
export class Carried {
  /** Given back or cleared: not to be told any more. */
  over = false
  /** What the store calls it, once it is told; 0: not counted. */
  private receipt: Promise<number> = Promise.resolve(0)

  /** @param at when it was counted there, in ticks */
  constructor(
    readonly taken: Taken,
    readonly at: number
  ) {}

  /**
   * Tells the store of it.
   * @returns its receipt there, 0 where it is not counted
   * @throws StoreUnavailableError when there is no answer within `timeout` milliseconds; what the store throws
   */
  tell(store: Pick<Store, 'count'>, now: number, timeout: number): Promise<number> {
    const { entry, ends } = this.taken
    const told = within(Promise.resolve(store.count(entry, now - this.at, ends)), timeout, unavailable)
    this.receipt = told.catch(() => 0)
    return told
  }

  /** Gives it back where it was told of. */
  async giveBack(refund: Store['refund']): Promise<void> {
    this.over = true
    const receipt = await this.receipt
    if (receipt !== 0) await refund([{ ...this.taken, receipt }], '')
  }
}

import type { Facts } from './facts.js'
import type { Entry, Store, Taken } from './store.js'
import { locksOf, takenOf } from './taken.js'

/**
 * What a store counts for a decision that did not wait for its answer. If the answer is lost with its connection, at
 * least the locks are released.
 */
export class LateAnswer {
  /** Resolves to true if the store has counted nothing, and never will. */
  readonly uncounted: Promise<boolean>
  private readonly taken: Promise<Taken[]>

  /** @param onRefundFailed called with the error when a counted slot could not be given back */
  constructor(
    private readonly entries: readonly Entry[],
    private readonly token: string,
    answer: Promise<Facts>,
    private readonly refund: Store['refund'],
    private readonly onRefundFailed: (error: unknown) => void
  ) {
    this.taken = answer.then(
      facts => takenOf(entries, facts),
      () => []
    )
    this.uncounted = this.taken.then(({ length }) => length === 0)
  }

  /** Gives back what is counted for these entries of the decision. */
  giveBack(entries = this.entries): void {
    const give = async (taken: readonly Taken[]) => {
      const given = taken.filter(({ entry }) => entries.includes(entry))
      await this.refund(given, this.token)
    }
    give(locksOf(this.entries)).catch(() => {})
    this.taken.then(give).catch(this.onRefundFailed)
  }
}

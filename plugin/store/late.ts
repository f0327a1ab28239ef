import type { Entry, Facts, Store, Taken } from './store.js'
import { locksOf, takenOf } from './taken.js'

/** What a store counts for a decision that did not wait for its answer. That may be lost with its connection: then its locks go back all the same. */
export class Late {
  private readonly taken: Promise<Taken[]>

  /** @param onKept hears why something that was counted could not be given back */
  constructor(
    private readonly entries: readonly Entry[],
    private readonly token: string,
    answer: Promise<Facts>,
    private readonly refund: Store['refund'],
    private readonly onKept: (error: unknown) => void
  ) {
    this.taken = answer.then(
      facts => takenOf(entries, facts),
      () => []
    )
  }

  giveBack(which: (entry: Entry) => boolean = () => true): void {
    const give = async (taken: readonly Taken[]) =>
      this.refund(
        taken.filter(({ entry }) => which(entry)),
        this.token
      )
    give(locksOf(this.entries)).catch(() => {})
    this.taken.then(give).catch(this.onKept)
  }
}

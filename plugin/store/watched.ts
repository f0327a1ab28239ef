import type { Awaitable } from '../awaitable.js'
import type { Entry, Settling, Store, Taken } from './store.js'

/**
 * The same store, which reports what may end a refusal.
 * @param ended called with the entries that are given back, cleared, blocked or unblocked, twice: before the call,
 *   since not all callers wait for its end, and after it, since other calls may have been answered meanwhile. Once more
 *   when a refund that has failed succeeds at a later try
 */
export function watched(store: Store, ended: (entries: readonly Entry[]) => void): Store {
  const end = async (entries: readonly Entry[], call: () => Awaitable<void>) => {
    ended(entries)
    try {
      await call()
    } finally {
      ended(entries)
    }
  }
  return {
    name: store.name,
    reserve: (entries, token) => store.reserve(entries, token),
    count: (entry, ago, ends) => store.count(entry, ago, ends),
    peek: entries => store.peek(entries),
    renew: (entry, token) => store.renew(entry, token),
    refund: (taken, token) => {
      const entries = taken.map(each => each.entry)
      return end(entries, () => store.refund(taken, token, () => ended(entries)))
    },
    clear: entries => end(entries, () => store.clear(entries)),
    block: (entries, ms) => end(entries, () => store.block(entries, ms)),
    unblock: entries => end(entries, () => store.unblock(entries)),
    close: () => store.close()
  }
}

/** Settles as `store` does, and reports refunds. */
export class WatchedSettling implements Settling {
  /** @param given called with the slots that are given back; the refund also waits for what it returns */
  constructor(
    private readonly store: Settling,
    private readonly given: (taken: readonly Taken[]) => Awaitable<void>
  ) {}

  get name(): string {
    return this.store.name
  }

  async refund(taken: readonly Taken[], token: string): Promise<void> {
    const refund = async () => this.store.refund(taken, token)
    await Promise.all([this.given(taken), refund()])
  }

  renew(entry: Entry, token: string): Awaitable<boolean> {
    return this.store.renew(entry, token)
  }
}

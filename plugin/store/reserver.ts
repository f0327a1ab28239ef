import { type Awaitable, isPromise } from '../awaitable.js'
import type { Entry, Facts, Settling, Store } from './store.js'

/** The facts of a decision and where it was counted; without facts: allowed, counted nowhere. */
export interface Reserved {
  facts: Facts | null
  store: Settling
  /** When it was decided, by the monotonic clock, where that is known. */
  at?: number
  /** Without facts: gives back what was counted all the same, by an answer that comes too late. */
  takeBack?(): void
}

/** Decides somewhere, whatever happens to the first choice. */
export interface Reserver {
  reserve(entries: readonly Entry[], token: string): Awaitable<Reserved>
  /** For everything but decisions; its calls end in time. */
  readonly store: Omit<Store, 'reserve' | 'count' | 'close'>
  close(): Awaitable<void>
}

/** One store, and nothing behind it. */
export function alone(store: Store): Reserver {
  return {
    store,
    reserve(entries, token) {
      const facts = store.reserve(entries, token)
      return isPromise(facts) ? facts.then(found => ({ facts: found, store })) : { facts, store }
    },
    close: () => store.close()
  }
}

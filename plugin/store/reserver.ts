import { type Awaitable, isPromise } from '../awaitable.js'
import type { Facts } from './facts.js'
import type { Entry, Settling, Store } from './store.js'

/** The facts of a decision and the store that has counted it. Without facts it is admitted, and counted nowhere. */
export interface Reserved {
  facts: Facts | null
  store: Settling
  /** When it was decided, in milliseconds by the monotonic clock, if that is known. */
  at?: number
  /** Only without facts: gives back what the store has counted all the same, by an answer that comes too late. */
  takeBack?(): void
}

/** Decides, even when the store of first choice is lost. */
export interface Reserver {
  reserve(entries: readonly Entry[], token: string): Awaitable<Reserved>
  /** The store for everything but decisions; its calls end in time. */
  readonly store: Omit<Store, 'reserve' | 'count' | 'close'>
  close(): Awaitable<void>
}

/** One store, with nothing to stand in for it. */
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

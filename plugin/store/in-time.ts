import type { Awaitable } from '../awaitable.js'
import { StoreUnavailableError } from '../errors.js'
import { within } from '../within.js'
import type { Reserver } from './reserver.js'
import type { Store } from './store.js'

/** The error to throw when an answer does not come in time. */
export function unavailable(): Error {
  return new StoreUnavailableError()
}

function away(cause: unknown): never {
  throw cause instanceof StoreUnavailableError ? cause : Object.assign(unavailable(), { cause })
}

/** The same store, whose calls end within `timeout` milliseconds. */
export function inTime(store: Store, timeout: number) {
  const call = <T>(answer: Awaitable<T>) => within(answer, timeout, unavailable)
  // What an app itself asks for has no fallback, so each failure becomes a StoreUnavailableError.
  const asked = <T>(answer: Awaitable<T>) => call(answer).catch(away)
  return {
    name: store.name,
    peek: entries => asked(store.peek(entries)),
    refund: (taken, token) => asked(store.refund(taken, token)),
    renew: (entry, token) => call(store.renew(entry, token)),
    clear: entries => asked(store.clear(entries)),
    block: (entries, ms) => asked(store.block(entries, ms)),
    unblock: entries => asked(store.unblock(entries))
  } satisfies Reserver['store']
}

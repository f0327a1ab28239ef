import type { Awaitable } from '../awaitable.js'
import { StoreUnavailableError } from '../errors.js'
import { within } from '../within.js'
import type { Reserver } from './reserver.js'
import type { Store } from './store.js'

function unavailable(): Error {
  return new StoreUnavailableError()
}

/** Waits for an answer. @throws StoreUnavailableError when it does not come within `timeout` milliseconds */
export function answerInTime<T>(answer: Awaitable<T>, timeout: number): Promise<T> {
  return within(answer, timeout, unavailable)
}

function away(cause: unknown): never {
  throw cause instanceof StoreUnavailableError ? cause : Object.assign(unavailable(), { cause })
}

/** The same store, whose calls end within `timeout` milliseconds. */
export function inTime(store: Store, timeout: number) {
  // What an app itself asks for has no fallback, so each failure becomes a StoreUnavailableError.
  const asked = <T>(answer: Awaitable<T>) => answerInTime(answer, timeout).catch(away)
  return {
    name: store.name,
    peek: entries => asked(store.peek(entries)),
    refund: (taken, token) => asked(store.refund(taken, token)),
    renew: (entry, token) => answerInTime(store.renew(entry, token), timeout),
    clear: entries => asked(store.clear(entries)),
    block: (entries, ms) => asked(store.block(entries, ms)),
    unblock: entries => asked(store.unblock(entries))
  } satisfies Reserver['store']
}

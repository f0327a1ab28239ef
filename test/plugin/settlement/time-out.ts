import type { Teardown } from '../../helper/teardown.js'
import { timersByHand } from '../../helper/timers-by-hand.js'

/** A `handlerTimeout` that ends when a test says so. A short one could end before the handler on a slow machine. */
export const BY_HAND = 86_399_999

/** @returns a function that ends the `handlerTimeout` of the last request to a `BY_HAND` route, as its timer would */
export function timeOutByHand(t: Teardown): () => void {
  const end = timersByHand(t, BY_HAND)
  return () => void setImmediate(end)
}

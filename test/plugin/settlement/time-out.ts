import { mock } from 'node:test'
import type { Teardown } from '../../helper/teardown.js'

/** A `handlerTimeout` that ends when a test says so. A short one could end before the handler on a slow machine. */
export const BY_HAND = 86_399_999

/** @returns a function that ends the `handlerTimeout` of the last request to a `BY_HAND` route, as its timer would */
export function timeOutByHand(t: Teardown): () => void {
  const { setTimeout, clearTimeout } = globalThis
  let end = () => {}
  const set = mock.method(globalThis, 'setTimeout', (then: () => void, ms?: number, ...args: []) => {
    const timer = setTimeout(then, ms, ...args)
    if (ms === BY_HAND)
      end = () => {
        clearTimeout(timer)
        then()
      }
    return timer
  })
  t.teardown(() => set.mock.restore())
  return () => void setImmediate(() => end())
}

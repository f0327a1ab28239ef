import { mock } from 'node:test'
import type { Teardown } from '../../helper/teardown.js'

/** A `handlerTimeout` that is over when a test says so: by itself it would come before the handler where this machine is slow. */
export const BY_HAND = 86_399_999

/** @returns ends the `handlerTimeout` of the last request to a route with `BY_HAND`, as its timer would */
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

import { mock } from 'node:test'
import type { Teardown } from './teardown.js'

/** @returns a function that ends the last timer of `ms` milliseconds now, as the timer would */
export function timerByHand(t: Teardown, ms: number): () => void {
  const { setTimeout, clearTimeout } = globalThis
  let end = () => {}
  const set = mock.method(globalThis, 'setTimeout', (then: () => void, after?: number, ...args: []) => {
    const timer = setTimeout(then, after, ...args)
    if (after === ms)
      end = () => {
        clearTimeout(timer)
        then()
      }
    return timer
  })
  t.teardown(() => set.mock.restore())
  return () => end()
}

import { mock } from 'node:test'
import type { Teardown } from './teardown.js'

/** @returns a function that ends the timers of `ms` milliseconds now, as they would end by themselves */
export function timersByHand(t: Teardown, ms: number): () => void {
  const { setTimeout, clearTimeout } = globalThis
  const running = new Map<unknown, () => void>()
  const begun = mock.method(globalThis, 'setTimeout', (then: () => void, after?: number, ...args: []) => {
    const timer = setTimeout(then, after, ...args)
    if (after === ms) running.set(timer, then)
    return timer
  })
  const clear = (timer: NodeJS.Timeout | undefined) => {
    running.delete(timer)
    clearTimeout(timer)
  }
  const ended = mock.method(globalThis, 'clearTimeout', clear)
  t.teardown(() => {
    for (const each of [begun, ended]) each.mock.restore()
  })
  return () => {
    for (const [timer, then] of [...running]) {
      clear(timer as NodeJS.Timeout)
      then()
    }
  }
}

import { mock } from 'node:test'
import type { Teardown } from './teardown.js'

/** The intervals that were begun from now on and are not cleared, also those that let the process end. */
export function intervals(t: Teardown): ReadonlySet<unknown> {
  const running = new Set<unknown>()
  const { setInterval, clearInterval } = globalThis
  const begun = mock.method(globalThis, 'setInterval', (then: () => void, ms: number) => {
    const timer = setInterval(then, ms)
    running.add(timer)
    return timer
  })
  const ended = mock.method(globalThis, 'clearInterval', (timer: NodeJS.Timeout | undefined) => {
    running.delete(timer)
    clearInterval(timer)
  })
  t.teardown(() => {
    for (const each of [begun, ended]) each.mock.restore()
  })
  return running
}

/** @returns a function that calls what runs at intervals of `ms` milliseconds, as their timers would */
export function intervalsByHand(t: Teardown, ms: number): () => void {
  const { setInterval, clearInterval } = globalThis
  const running = new Map<unknown, () => void>()
  const begun = mock.method(globalThis, 'setInterval', (then: () => void, every?: number, ...args: []) => {
    const timer = setInterval(then, every, ...args)
    if (every === ms) running.set(timer, then)
    return timer
  })
  const ended = mock.method(globalThis, 'clearInterval', (timer: NodeJS.Timeout | undefined) => {
    running.delete(timer)
    clearInterval(timer)
  })
  t.teardown(() => {
    for (const each of [begun, ended]) each.mock.restore()
  })
  return () => {
    for (const then of [...running.values()]) then()
  }
}

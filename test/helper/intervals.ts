import { mock } from 'node:test'
import type { Teardown } from './teardown.js'

interface Interval {
  then(): void
  ms: number
}

/** The intervals that were begun from now on and are not cleared, also those that let the process end. */
export function intervals(t: Teardown): ReadonlyMap<unknown, Interval> {
  const running = new Map<unknown, Interval>()
  const { setInterval, clearInterval } = globalThis
  const begun = mock.method(globalThis, 'setInterval', (then: () => void, ms: number) => {
    const timer = setInterval(then, ms)
    running.set(timer, { then, ms })
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
  const running = intervals(t)
  return () => {
    for (const each of [...running.values()]) if (each.ms === ms) each.then()
  }
}

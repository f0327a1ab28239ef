import { setImmediate } from 'node:timers'
import type { Awaitable } from './awaitable.js'

/**
 * Waits for an answer, but no longer than `ms` milliseconds. A store that answers must not look lost because this
 * process was busy. So the second half of the time begins only when the timer of the first half fires, and what has
 * arrived by the end is read first.
 * @param late makes the error with which it rejects after that time; not called otherwise
 */
export function within<T>(answer: Awaitable<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    let settled = false
    const end = () => {
      if (!settled) reject(late())
    }
    let timer = setTimeout(() => {
      timer = setTimeout(() => setImmediate(end), ms / 2)
    }, ms / 2)
    const settle = () => {
      settled = true
      clearTimeout(timer)
    }
    Promise.resolve(answer).then(
      value => {
        settle()
        resolve(value)
      },
      error => {
        settle()
        reject(error)
      }
    )
  })
}

import { setImmediate } from 'node:timers'

/**
 * Waits for a promise, but no longer than `ms` milliseconds. Who keeps this process busy for long must not make a store
 * that answers look lost: what could not be asked meanwhile has half of the time left, and what has come is read first.
 * @param late makes the error that it then rejects with; not called otherwise
 */
export function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
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
    promise.then(
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

import { setImmediate } from 'node:timers'

/**
 * Waits for a promise, but no longer than `ms` milliseconds. Who keeps this process busy for long must not make a store
 * that answers look lost: what could not be asked meanwhile has half of the time left, and what has come is read first.
 * @param late makes the error that it then rejects with
 */
export function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer = setTimeout(() => {
      timer = setTimeout(() => setImmediate(() => reject(late())), ms / 2)
    }, ms / 2)
    promise.then(
      value => {
        clearTimeout(timer)
        resolve(value)
      },
      error => {
        clearTimeout(timer)
        reject(error)
      }
    )
  })
}

import { setImmediate } from 'node:timers'

/**
 * Waits for a promise, but no longer than `ms` milliseconds. Once this process was busy for long, what has come meanwhile
 * is read first, and what could not be asked in that time has half of it left: who keeps it busy must not make a store
 * that answers look lost.
 * @param late makes the error that it then rejects with
 */
export function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    let reading: NodeJS.Immediate | undefined
    const read = () => {
      reading = setImmediate(() => reject(late()))
    }
    let timer = setTimeout(() => {
      timer = setTimeout(read, ms / 2)
    }, ms / 2)
    const settled = () => {
      clearTimeout(timer)
      clearImmediate(reading)
    }
    promise.then(
      value => {
        settled()
        resolve(value)
      },
      error => {
        settled()
        reject(error)
      }
    )
  })
}

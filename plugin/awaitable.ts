/** May be now or later: the store in memory answers at once. */
export type Awaitable<T> = T | Promise<T>

export function isPromise<T>(value: Awaitable<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

/**
 * The same value. If it is a promise that nobody waits for in the end, as where another one has failed first, its rejection
 * does not end the process.
 */
export function handled(value: unknown): unknown {
  if (!isPromise(value)) return value
  // A thenable may have no catch of its own.
  const promise = Promise.resolve(value)
  promise.catch(() => {})
  return promise
}

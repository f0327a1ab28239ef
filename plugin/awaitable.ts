/** May be now or later: the store in memory answers at once. */
export type Awaitable<T> = T | Promise<T>

export function isPromise<T>(value: Awaitable<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

/** The same value: if it is a promise for which nobody waits, as where another one has failed, its failure harms nobody. */
export function unheard(value: unknown): unknown {
  if (!isPromise(value)) return value
  // A thenable may have no catch of its own.
  const promise = Promise.resolve(value)
  promise.catch(() => {})
  return promise
}

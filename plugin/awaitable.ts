/** A value, or a promise of it. The memory store answers at once, Redis by a promise. */
export type Awaitable<T> = T | Promise<T>

export function isPromise<T>(value: Awaitable<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

/**
 * Returns the same value. If it is a promise, its rejection does not end the process when nobody waits for it in the
 * end, as when another promise has failed first.
 */
export function handled(value: unknown): unknown {
  if (!isPromise(value)) return value
  // A thenable may have no catch of its own.
  const promise = Promise.resolve(value)
  promise.catch(() => {})
  return promise
}

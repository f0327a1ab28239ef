import type { Teardown } from './teardown.js'

/** Collects the errors and rejections that nobody has caught. */
export function strays(t: Teardown): unknown[] {
  const found: unknown[] = []
  const hear = (error: unknown) => void found.push(error)
  process.on('unhandledRejection', hear).on('uncaughtException', hear)
  t.teardown(() => process.off('unhandledRejection', hear).off('uncaughtException', hear))
  return found
}

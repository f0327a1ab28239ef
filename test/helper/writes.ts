import type { Redis } from 'ioredis'

/** Counts how often a client writes to its connection from now on. */
export function written({ stream }: Redis): { count: number } {
  const writes = { count: 0 }
  const handle = stream as unknown as Record<'_write' | '_writev', (...args: unknown[]) => void>
  for (const name of ['_write', '_writev'] as const) {
    const original = handle[name]
    handle[name] = function (...args) {
      writes.count++
      original.apply(this, args)
    }
  }
  return writes
}

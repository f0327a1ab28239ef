import { type LockSpec, TICKS_PER_MS } from '../store/store.js'
import type { Cell, Fields, Kind, Now } from './kind.js'

/** The longest time to live of a lock, in milliseconds. */
export const LOCK_MAX_MS = 86_400_000

/** Locks: the end, then the holder's token: 18 bytes as three fields; in Redis 24 characters, which are four. */
export const lock: Kind<LockSpec> = {
  code: 3,

  read(facts, at, fields, { steady }) {
    const left = fields.length > 0 ? Math.max(fields.at(0) - steady, 0) : 0
    facts[at] = left > 0 ? 1 : 0
    facts[at + 1] = left
    return left === 0
  },

  receipt: () => 1,

  count(cell, now, { spec }, token) {
    if (!cell.resize(4)) return 0
    fieldsOf(token).forEach((field, i) => {
      cell.set(i + 1, field)
    })
    holdFromNow(cell, now, spec)
    return 1
  },

  latest: () => 0,

  refund: (cell, _taken, token) => !isHolder(cell, token) || cell.resize(0),

  renew(cell, now, spec, token) {
    if (!isHolder(cell, token) || cell.at(0) <= now.steady) return false
    holdFromNow(cell, now, spec)
    return true
  },

  repeatable: true,

  furthest: () => LOCK_MAX_MS,

  describe: () => [],

  work: () => 1,

  argument: (_entry, _wall, token) => token
}

function holdFromNow(cell: Cell, { steady }: Now, { ttl }: LockSpec): void {
  const end = steady + ttl * TICKS_PER_MS
  cell.set(0, end)
  cell.expire(end)
}

function isHolder(fields: Fields, token: string): boolean {
  return fields.length > 0 && fieldsOf(token).every((field, i) => fields.at(i + 1) === field)
}

function fieldsOf(token: string): number[] {
  const bytes = Buffer.from(token, 'base64url')
  return [bytes.readUIntBE(0, 6), bytes.readUIntBE(6, 6), bytes.readUIntBE(12, 6)]
}

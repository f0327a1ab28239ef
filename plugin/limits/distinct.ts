import { type DistinctSpec, TICKS_PER_MS } from '../store/store.js'
import type { Fields, Kind } from './kind.js'

// What a cell holds at most; the values in it have equal shares.
const PAIRS = 500

/**
 * Rolling limits on how many different values: pairs of a stamp and a value's number, newest first, the stamps
 * strictly decreasing. Older pairs of a value are kept for the case that its newer ones are given back.
 */
export const distinct: Kind<DistinctSpec> = {
  code: 4,

  read(facts, at, pairs, { steady }, { spec: { limits, ttl }, max, value = 0 }) {
    const { own, others } = newest(pairs, steady - ttl * TICKS_PER_MS, value)
    // Of them, those counted after the own value: all, where it is not counted.
    const ahead = newer(others, own)
    let passes = true
    for (const [i, limit] of limits.entries()) {
      const most = max?.[i] ?? limit.max
      const window = limit.windowMs * TICKS_PER_MS
      const all = newer(others, steady - window)
      const used = ahead < most ? Math.min(all, most - 1) : all
      const oldest = Math.min(used, most)
      facts[at + i * 2] = used
      facts[at + i * 2 + 1] = oldest > 0 ? (others[oldest - 1] as number) + window - steady : 0
      if (used >= most) passes = false
    }
    return passes
  },

  receipt: (pairs, { fresh }) => Math.max(fresh, distinct.latest(pairs) + 1),

  charge(cell, now, { spec, value = 0 }) {
    const { ttl } = spec
    const stamp = distinct.receipt(cell, now, spec)
    const since = now.steady - ttl * TICKS_PER_MS
    // What another store has admitted may be more values than there are places: then the newest stay, one pair each.
    const share = Math.max(Math.floor(PAIRS / (newest(cell, since, value).others.length + 1)), 1)
    const times = new Map<number, number>()
    const kept: number[] = []
    const keep = (at: number, to: number) => {
      const before = times.get(to) ?? 0
      times.set(to, before + 1)
      if (before < share) kept.push(at, to)
    }
    keep(stamp, value)
    for (let i = 0; i < cell.length && cell.at(i) > since && kept.length < PAIRS * 2; i += 2)
      keep(cell.at(i), cell.at(i + 1))
    if (!cell.resize(kept.length)) return 0
    kept.forEach((field, i) => {
      cell.set(i, field)
    })
    cell.expire(ttl * TICKS_PER_MS)
    return stamp
  },

  latest: pairs => (pairs.length > 0 ? pairs.at(0) : 0),

  refund(cell, stamp) {
    let i = 0
    while (i < cell.length && cell.at(i) > stamp) i += 2
    if (i >= cell.length || cell.at(i) !== stamp) return true
    cell.move(i, i + 2, cell.length - 2 - i)
    return cell.resize(cell.length - 2)
  },

  repeatable: true,

  furthest: ({ ttl }) => ttl,

  describe: ({ spec: { limits }, max }) =>
    limits.flatMap((limit, i) => [max?.[i] ?? limit.max, limit.windowMs * TICKS_PER_MS]),

  // 500 pairs.
  work: () => 30,

  argument: ({ value = 0 }) => `${value}`
}

/** When each value was last counted after `since`: `own`, 0 for never, and the others, newest first. */
function newest(pairs: Fields, since: number, value: number): { own: number; others: number[] } {
  const seen = new Set<number>()
  const others: number[] = []
  let own = 0
  for (let i = 0; i < pairs.length && pairs.at(i) > since; i += 2) {
    const to = pairs.at(i + 1)
    if (seen.has(to)) continue
    seen.add(to)
    if (to === value) own = pairs.at(i)
    else others.push(pairs.at(i))
  }
  return { own, others }
}

/** How many stamps, newest first, are later than `since`. */
function newer(stamps: readonly number[], since: number): number {
  const first = stamps.findIndex(stamp => stamp <= since)
  return first < 0 ? stamps.length : first
}

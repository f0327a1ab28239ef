import { type DistinctSpec, specInForce, TICKS_PER_MS } from '../store/store.js'
import type { Fields, Kind } from './kind.js'
import { DIVIDER, endOfNewest, find, type Pair, pairsOf, STAMP, VALUE, without, write } from './pairs.js'

/** How many pairs all values together keep at least, in equal shares. At most, half as many again are there. */
const SHARED = 500
const SPARE = 1.5

/**
 * Rolling limits on the number of different values. In front stands the newest pair of each value, newest first, the
 * stamps strictly decreasing. Behind the divider stand the earlier pairs, if there are any, those of each value newest
 * first. They are kept for the case that the newest pair of a value is given back.
 */
export const distinct: Kind<DistinctSpec> = {
  code: 4,

  read(facts, at, pairs, { steady }, { spec: { limits }, max, value = 0 }) {
    const { own, others } = newest(pairs, value)
    // How many other values were counted after the own value: all, if that is not counted.
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

  count(cell, now, { spec, value = 0 }) {
    const { limits } = spec
    const { ttl } = specInForce(spec)
    const { length } = cell
    const stamp = distinct.receipt(cell, now, spec)
    const since = now.steady - ttl * TICKS_PER_MS
    const end = endOfNewest(cell)
    // `live`: how many fields in front stay, as their stamps still count. `front`: how many stand there afterwards,
    // with the new pair in place of the value's own pair, or beside the others.
    let live = 0
    while (live < end && cell.at(live) > since) live += 2
    const own = find(cell, 0, live, VALUE, value)
    // Another store may have admitted more values than there are places. Then the newest stay.
    if (own < 0) live = Math.min(live, SHARED * 2 - 2)
    const front = own < 0 ? live + 2 : live
    // What stands behind afterwards: the value's own former pair, and all pairs that are there already.
    let earlier: Pair[] = own < 0 ? [] : [[cell.at(own), value]]
    let kept = Math.max(length - end - 2, 0)
    const values = front / 2
    const share = Math.floor(SHARED / Math.max(values, ...limits.map(({ max }) => max)))
    if (values + earlier.length + kept / 2 > values * share * SPARE) {
      earlier = newestOfEach([...earlier, ...pairsOf(cell, length - kept, length)], share, since)
      kept = 0
    }
    const behind = earlier.length * 2 + kept
    const needed = behind > 0 ? front + 2 + behind : front
    // No shorter yet: the pairs behind are still at the end. They move first, since those in front may move over them.
    if (!cell.resize(Math.max(needed, length))) return 0
    cell.move(needed - kept, length - kept, kept)
    cell.move(2, 0, own < 0 ? live : own)
    write(cell, 0, [stamp, value])
    if (behind > 0) write(cell, front, DIVIDER)
    for (const [i, pair] of earlier.entries()) write(cell, front + 2 + i * 2, pair)
    cell.resize(needed)
    cell.expire(stamp + ttl * TICKS_PER_MS)
    return stamp
  },

  latest: pairs => (pairs.length > 0 ? pairs.at(0) : 0),

  refund(cell, { receipt: stamp }) {
    const { length } = cell
    const end = endOfNewest(cell)
    const taken = find(cell, 0, end, STAMP, stamp)
    if (taken < 0) {
      const earlier = find(cell, end + 2, length, STAMP, stamp)
      return earlier < 0 || without(cell, earlier, end)
    }
    const value = cell.at(taken + VALUE)
    const before = find(cell, end + 2, length, VALUE, value)
    if (before < 0) return end > 2 ? without(cell, taken, end) : cell.resize(0)
    // It takes its place among the newest pairs, by its own stamp.
    const at = cell.at(before)
    let place = taken
    while (place + 2 < end && cell.at(place + 2) > at) place += 2
    // At least one pair is moved: a move to the start of the cell tells that it expires sooner (`Arena.move`).
    cell.move(taken, taken + 2, Math.max(place - taken, 2))
    write(cell, place, [at, value])
    return without(cell, before, end)
  },

  repeatable: true,

  furthest: spec => specInForce(spec).ttl,

  describe: ({ spec: { limits }, max }) =>
    limits.flatMap((limit, i) => [max?.[i] ?? limit.max, limit.windowMs * TICKS_PER_MS]),

  // As for a hundred values, or for the most pairs that are kept behind them.
  work: () => 25,

  argument: ({ value = 0 }) => `${value}`
}

/** When each value was last counted: `own`, 0 for never, and the others, newest first. */
function newest(pairs: Fields, value: number): { own: number; others: number[] } {
  const others: number[] = []
  const end = endOfNewest(pairs)
  let own = 0
  for (let i = 0; i < end; i += 2) {
    if (pairs.at(i + VALUE) === value) own = pairs.at(i)
    else others.push(pairs.at(i))
  }
  return { own, others }
}

/** How many stamps, newest first, are later than `since`. */
function newer(stamps: readonly number[], since: number): number {
  const first = stamps.findIndex(stamp => stamp <= since)
  return first < 0 ? stamps.length : first
}

/** The newest `share` pairs of each value, as far as they are later than `since`. */
function newestOfEach(pairs: readonly Pair[], share: number, since: number): Pair[] {
  const times = new Map<number, number>()
  return pairs.filter(([at, value]) => {
    const before = times.get(value) ?? 0
    times.set(value, before + 1)
    return before < share && at > since
  })
}

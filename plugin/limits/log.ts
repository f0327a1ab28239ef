import { type Limit, type LogSpec, specInForce, TICKS_PER_MS } from '../store/store.js'
import type { Fields, Kind, Now } from './kind.js'

/**
 * How many stamps a log may hold beside those that its rule needs: of sends that another store has admitted, or that
 * were admitted under a rule that was replaced since.
 */
const BESIDE = 1_000

/**
 * Rolling limits: the stamps of what was counted, newest first, strictly decreasing, as many as the largest `max`
 * needs. A stamp counts in a window up to, and not with, the instant one window later.
 */
export const log: Kind<LogSpec> = {
  code: 1,

  read(facts, at, stamps, { steady }, { spec: { limits }, max }) {
    let passes = true
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as Limit
      const window = limit.windowMs * TICKS_PER_MS
      const most = max?.[i] ?? limit.max
      const used = newer(stamps, steady - window)
      const oldest = Math.min(used, most)
      facts[at + i * 2] = used
      facts[at + i * 2 + 1] = oldest > 0 ? stamps.at(oldest - 1) + window - steady : 0
      if (used >= most) passes = false
    }
    return passes
  },

  receipt: (stamps, { fresh }) => Math.max(fresh, log.latest(stamps) + 1),

  count(cell, now, { spec }) {
    const inForce = specInForce(spec)
    const { keep, ttl } = inForce
    const stamp = log.receipt(cell, now, spec)
    const length = Math.min(cell.length + 1, cell.length < keep ? keep : roomIn(cell, now, inForce))
    if (!cell.resize(length)) return 0
    cell.move(1, 0, length - 1)
    cell.set(0, stamp)
    cell.expire(stamp + ttl * TICKS_PER_MS)
    return stamp
  },

  latest: stamps => (stamps.length > 0 ? stamps.at(0) : 0),

  refund(cell, { receipt: stamp }) {
    const i = newer(cell, stamp)
    if (i === cell.length || cell.at(i) !== stamp) return true
    cell.move(i, i + 1, cell.length - 1 - i)
    return cell.resize(cell.length - 1)
  },

  repeatable: false,

  furthest: spec => specInForce(spec).ttl,

  describe: ({ spec, max }) => [
    specInForce(spec).keep + (neverOverfills(spec) ? 0 : BESIDE),
    ...spec.limits.flatMap((limit, i) => [max?.[i] ?? limit.max, limit.windowMs * TICKS_PER_MS])
  ],

  work: spec => 1 + specInForce(spec).keep / 100,

  argument: () => undefined
}

/**
 * Whether this spec admits no send to a log that is full by the spec in force: it is in force itself, and has limits. A
 * spec without limits counts what another store has admitted.
 */
function neverOverfills(spec: LogSpec): boolean {
  return specInForce(spec) === spec && spec.limits.length > 0
}

/**
 * How many stamps a log may hold: `keep`, or up to `BESIDE` more while more are live. A stamp that those pushed out
 * would not come back when they are refunded.
 */
function roomIn(stamps: Fields, { steady }: Now, { keep, limits }: LogSpec): number {
  let windowMs = 0
  for (const limit of limits) windowMs = Math.max(windowMs, limit.windowMs)
  const live = newer(stamps, steady - windowMs * TICKS_PER_MS)
  return Math.max(keep, Math.min(live + 1, keep + BESIDE))
}

/** How many stamps are later than `since`. */
function newer(stamps: Fields, since: number): number {
  let low = 0
  let high = stamps.length
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (stamps.at(middle - 1) > since) low = middle
    else high = middle - 1
  }
  return low
}

import { boundaries } from '../calendar.js'
import { type CountSpec, type Entry, EPOCH_MS, type Limit, TICKS_PER_MS, toTicks } from '../store/store.js'
import type { Cell, Fields, Kind } from './kind.js'

// The wall clock may be set back, so in memory a count outlives its period by an hour.
const SLACK = 3_600_000 * TICKS_PER_MS
// The time between the same moment of the day in the first and in the last time zone.
const ZONES = 27 * 3_600_000 * TICKS_PER_MS
// The fields of a count. From the first refund on there are more: `SINCE`, a receipt, then from that one on a bit for
// each receipt that tells whether it was refunded. `SINCE` is there from the start where requests have a cost.
const END = 0
const USED = 1
const ISSUED = 2
const SINCE = 3
const BITS = 4
const WORD = 48
// How many fields of bits a count has at most. Receipts that were issued before the first bit pass for refunded.
const MOST_WORDS = 2_000

/**
 * Calendar limits: the end of the period, how much is used, the last receipt issued, and which receipts were
 * refunded. Receipts count up from the clock, so that none is ever issued twice.
 */
export const count: Kind<CountSpec> = {
  code: 2,

  read(facts, at, fields, { wall }, { spec, max, cost = 1 }) {
    const live = isLive(fields, wall, spec)
    const used = live ? fields.at(USED) : 0
    facts[at] = used
    facts[at + 1] = (live ? fields.at(END) : periodEnd(spec, wall)) - wall
    return used + cost <= mostOf(spec, max)
  },

  receipt: (fields, { wall, fresh }, spec) => (isLive(fields, wall, spec) ? fields.at(ISSUED) + 1 : fresh),

  count(cell, now, { spec, cost }, _token, known) {
    const { steady, wall } = now
    // The period in which another store has counted is over here.
    if (known !== 0 && (known <= wall || (cell.length > 0 && cell.at(END) > known))) return 0
    const live = known === 0 ? isLive(cell, wall, spec) : cell.length > 0 && cell.at(END) === known
    const used = live ? cell.at(USED) : 0
    const receipt = count.receipt(cell, now, spec)
    const had = live ? cell.length : 0
    if (!cell.resize(Math.max(had, cost === undefined ? SINCE : BITS))) return 0
    // From now on, the first receipt does not follow from what is used.
    if (cost !== undefined && had <= SINCE) cell.set(SINCE, receipt - used)
    const end = live ? cell.at(END) : known || periodEnd(spec, wall)
    cell.set(END, end)
    cell.set(USED, used + (cost ?? 1))
    cell.set(ISSUED, receipt)
    cell.expire(steady + end - wall + SLACK)
    return receipt
  },

  latest: fields => (fields.length > 0 ? fields.at(ISSUED) : 0),

  kept(fields) {
    let receipt = count.latest(fields)
    if (fields.length > SINCE) while (isRefunded(fields, receipt)) receipt--
    return receipt
  },

  refund(cell, { entry: { cost = 1 }, receipt, ends }) {
    if (cell.length === 0 || cell.at(END) !== ends || receipt > cell.at(ISSUED)) return true
    const since = cell.length > SINCE ? cell.at(SINCE) : cell.at(ISSUED) - cell.at(USED) + 1
    // The receipt was issued before the count was cleared, or so long ago that it passes for refunded.
    if (receipt < since) return true
    if (!reach(cell, receipt, since)) return false
    if (isRefunded(cell, receipt)) return true
    const [field, bit] = bitOf(cell, receipt)
    cell.set(field, cell.at(field) + bit)
    cell.set(USED, cell.at(USED) - cost)
    // A count with nothing counted is dropped: requests that are all refunded must not fill the store. A new count
    // issues later receipts.
    return cell.at(USED) > 0 || cell.resize(0)
  },

  undo(cell, { cost = 1 }) {
    // The count may have been dropped to make room for what the same decision counted after it.
    if (cell.length === 0) return
    cell.set(USED, cell.at(USED) - cost)
    cell.set(ISSUED, cell.at(ISSUED) - 1)
    if (cell.at(USED) === 0) cell.resize(0)
  },

  repeatable: false,

  // `isLive` judges the end of a count, since the time zone may move it.
  furthest: () => Number.POSITIVE_INFINITY,

  describe: ({ spec, max, cost }) => [mostOf(spec, max), ...(cost === undefined ? [] : [1])],

  work: () => 1,

  argument({ spec: { per, timeZone }, cost }, wall) {
    const text = textOf(boundaries(per, timeZone, wall))
    return cost === undefined ? text : `${text} ${cost}`
  }
}

// The boundaries of a period are the same array until it ends.
const texts = new WeakMap<readonly number[], string>()

function textOf(starts: readonly number[]): string {
  const known = texts.get(starts)
  if (known !== undefined) return known
  const text = starts.map(toTicks).join(' ')
  texts.set(starts, text)
  return text
}

function mostOf({ limits }: CountSpec, max: Entry['max']): number {
  return max?.[0] ?? (limits[0] as Limit).max
}

// A period that has begun keeps its end, even if the rule's time zone changes meanwhile. One that would last longer
// than in any zone was begun by a clock that was ahead.
function isLive(fields: Fields, wall: number, { ttl }: CountSpec): boolean {
  const left = fields.length > 0 ? fields.at(END) - wall : 0
  return left > 0 && left <= ttl * TICKS_PER_MS + ZONES
}

/** The field that has the bit of a receipt, and the value of that bit. */
function bitOf(fields: Fields, receipt: number): [field: number, bit: number] {
  const place = receipt - fields.at(SINCE)
  return [BITS + Math.floor(place / WORD), 2 ** (place % WORD)]
}

/** Whether this receipt, which was issued, has a bit that says it was refunded. */
function isRefunded(fields: Fields, receipt: number): boolean {
  const [field, bit] = bitOf(fields, receipt)
  if (field < BITS || field >= fields.length) return false
  return Math.floor(fields.at(field) / bit) % 2 === 1
}

/**
 * Extends the bits to this receipt, and drops the first ones if there are too many.
 * @returns false if there is no room
 */
function reach(cell: Cell, receipt: number, since: number): boolean {
  const had = Math.max(cell.length - BITS, 0)
  const needed = Math.floor((receipt - since) / WORD) + 1
  if (needed <= had) return true
  const words = Math.min(needed, MOST_WORDS)
  if (!cell.resize(BITS + words)) return false
  const gone = Math.max(needed - MOST_WORDS, 0)
  const kept = Math.max(had - gone, 0)
  cell.move(BITS, BITS + gone, kept)
  for (let word = kept; word < words; word++) cell.set(BITS + word, 0)
  cell.set(SINCE, since + gone * WORD)
  return true
}

/** The end of the period that holds `wall`, in ticks. */
function periodEnd({ per, timeZone }: CountSpec, wall: number): number {
  return toTicks(boundaries(per, timeZone, wall / TICKS_PER_MS + EPOCH_MS)[2])
}

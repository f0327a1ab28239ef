import { boundaries } from '../calendar.js'
import { type CountSpec, type Entry, EPOCH_MS, type Limit, TICKS_PER_MS, toTicks } from '../store/store.js'
import type { Cell, Fields, Kind } from './kind.js'

// The wall clock may be set back: in memory a count outlives its period by an hour.
const SLACK = 3_600_000 * TICKS_PER_MS
// Between the same moment of the day in the first and the last time zone.
const ZONES = 27 * 3_600_000 * TICKS_PER_MS
// A count remembers this many refunds; when full, receipts up to its lowest pass for refunded.
const REMEMBERED = 1_000

// Its fields; the receipts of what was refunded follow, ascending.
const END = 0
const USED = 1
const ISSUED = 2
const REFUNDED = 3

/**
 * Calendar limits: the end of the period, how many are used, the last receipt issued, and which receipts were
 * refunded. Receipts count up from the clock, so that none is ever issued twice.
 */
export const count: Kind<CountSpec> = {
  code: 2,

  read(facts, at, fields, { wall }, spec, max) {
    const live = isLive(fields, wall, spec)
    const used = live ? fields.at(USED) : 0
    facts[at] = used
    facts[at + 1] = (live ? fields.at(END) : periodEnd(spec, wall)) - wall
    return used < mostOf(spec, max)
  },

  receipt: (fields, { wall, fresh }, spec) => (isLive(fields, wall, spec) ? fields.at(ISSUED) + 1 : fresh),

  charge(cell, now, spec, _token, _value, known) {
    const { wall } = now
    // Counted elsewhere in a period that is over here.
    if (known !== 0 && cell.length > 0 && cell.at(END) > known) return 0
    const live = known === 0 ? isLive(cell, wall, spec) : cell.length > 0 && cell.at(END) === known
    const used = live ? cell.at(USED) : 0
    const receipt = count.receipt(cell, now, spec)
    if (!cell.resize(live ? cell.length : REFUNDED)) return 0
    const end = live ? cell.at(END) : known || periodEnd(spec, wall)
    cell.set(END, end)
    cell.set(USED, used + 1)
    cell.set(ISSUED, receipt)
    cell.expire(end - wall + SLACK)
    return receipt
  },

  latest: fields => (fields.length > 0 ? fields.at(ISSUED) : 0),

  refund(cell, receipt, end) {
    if (cell.length === 0 || cell.at(END) !== end || receipt > cell.at(ISSUED)) return true
    const refunded = cell.length - REFUNDED
    // Issued before the count was cleared.
    if (receipt <= cell.at(ISSUED) - cell.at(USED) - refunded) return true
    let place = cell.length
    while (place > REFUNDED && cell.at(place - 1) > receipt) place--
    if (place > REFUNDED && cell.at(place - 1) === receipt) return true
    if (refunded === REMEMBERED) {
      if (place === REFUNDED) return true
      place--
      cell.move(REFUNDED, REFUNDED + 1, place - REFUNDED)
    } else {
      if (!cell.resize(cell.length + 1)) {
        // The last one alone can be given back without being remembered.
        if (receipt !== cell.at(ISSUED)) return false
        takeBack(cell)
        return true
      }
      cell.move(place + 1, place, cell.length - 1 - place)
    }
    cell.set(place, receipt)
    cell.set(USED, cell.at(USED) - 1)
    return true
  },

  undo(cell) {
    // It may have gone for what the same decision counted after it.
    if (cell.length === 0) return
    takeBack(cell)
    if (cell.at(USED) === 0 && cell.length === REFUNDED) cell.resize(0)
  },

  repeatable: false,

  // It judges its end itself, as a time zone may move it.
  furthest: () => Number.POSITIVE_INFINITY,

  describe: (spec, max) => [mostOf(spec, max)],

  work: () => 1,

  argument({ per, timeZone }, wall) {
    const starts = boundaries(per, timeZone, wall)
    const known = told.get(starts)
    if (known !== undefined) return known
    const text = starts.map(toTicks).join(' ')
    told.set(starts, text)
    return text
  }
}

// The boundaries of a period are the same array until it ends.
const told = new WeakMap<readonly number[], string>()

function mostOf({ limits }: CountSpec, max: Entry['max']): number {
  return max?.[0] ?? (limits[0] as Limit).max
}

// A period that has begun ends when it ends, should the rule's time zone change meanwhile. One that would last longer
// than in any zone was begun by a clock that was ahead.
function isLive(fields: Fields, wall: number, { ttl }: CountSpec): boolean {
  const left = fields.length > 0 ? fields.at(END) - wall : 0
  return left > 0 && left <= ttl * TICKS_PER_MS + ZONES
}

/** As if the last receipt was never issued. */
function takeBack(cell: Cell): void {
  cell.set(USED, cell.at(USED) - 1)
  cell.set(ISSUED, cell.at(ISSUED) - 1)
}

/** The end of the period that holds `wall`, in ticks. */
function periodEnd({ per, timeZone }: CountSpec, wall: number): number {
  return toTicks(boundaries(per, timeZone, wall / TICKS_PER_MS + EPOCH_MS)[2])
}

import { KeyIndex, type Wanted } from './key-index.js'
import { Queues } from './queues.js'
import { placeOf, Records } from './records.js'
import { CELL_BITS, MAX_FIELDS, NO_CELL, Slabs } from './slabs.js'

/** The word of a record that holds the address of its fields. */
const CELL = 5
/** How many records are looked at for each cell that was freed before: to vacate a page, all of them are. */
const LOOKS = 1_024
/** The first field of a new record, by which it has not expired. */
const UNSET = 2 ** 48 - 1

interface ArenaOptions {
  /** The most records at a time; each takes about 28 bytes beside its fields. */
  maxKeys: number
  /** How many bytes all fields may take, 5 or 6 each. Left out: 128 for each key. Never less than 2.2 MiB. */
  maxBytes?: number
  /** Whether live records of a series may be dropped when the arena is full, asked each time. Left out: none may. */
  evictable?: (series: number) => boolean
}

/**
 * A bounded number of records in typed arrays. A record belongs to an identity (any text, of which the arena keeps a
 * hash) and to a series (0 to 65,535). It is a run of fields, which are integers below 2^48.
 *
 * The records of a series stand in a queue, in the order of their last touch, and expire from its head. The last touch
 * in a series tells how long after its first field each of its records expires. All times are below 2^48, and come from
 * one clock of the caller that never goes back.
 *
 * When there is no room for a record, free cells of several pages are first brought together. If that does not suffice,
 * records are dropped until there is room: an expired one, else the one that was touched first in the evictable series
 * with the most records. Other live records are never dropped. So a handle is valid until `expire`, or until `resize`
 * or `remove` of another record; 0 is no record. Access beyond the fields of a record throws a RangeError.
 */
export class Arena {
  readonly #maxKeys: number
  readonly #records = new Records()
  readonly #index: KeyIndex
  readonly #queues: Queues
  readonly #slabs: Slabs
  #size = 0
  #now = 0

  /** @throws RangeError when `maxKeys` is no integer from 1 to 2^24 - 1 */
  constructor({ maxKeys, maxBytes = maxKeys * 128, evictable = () => false }: ArenaOptions) {
    if (maxKeys % 1 !== 0 || maxKeys < 1 || maxKeys >= 2 ** 24) throw new RangeError(`${maxKeys} keys`)
    this.#maxKeys = maxKeys
    this.#index = new KeyIndex(this.#records, maxKeys)
    this.#slabs = new Slabs(maxBytes)
    this.#queues = new Queues(this.#records, { evictable, first: record => this.#first(record) })
  }

  /** Records held: the live ones, and expired ones that are not freed yet. */
  get size(): number {
    return this.#size
  }

  /** Bytes of all arrays, used or not. */
  get bytes(): number {
    return this.#records.bytes + this.#index.bytes + this.#slabs.bytes
  }

  /** The record of an identity in a series, or 0. It may have expired. */
  find(identity: string, series: number): number {
    return this.#index.find(identity, series)
  }

  /** Looks for several records at once, which is faster than one after another: then `find` knows them. */
  findAll(wanted: readonly Wanted[]): void {
    this.#index.findAll(wanted)
  }

  /** How many fields a record has. */
  length(record: number): number {
    return this.#records.length(record)
  }

  field(record: number, index: number): number {
    this.#check(record, index)
    return this.#slabs.get(this.#cell(record), index)
  }

  set(record: number, index: number, value: number): void {
    this.#check(record, index)
    this.#slabs.set(this.#cell(record), index, value, this.length(record))
  }

  /** Copies `count` fields inside the record; the ranges may overlap. */
  move(record: number, to: number, from: number, count: number): void {
    if (count <= 0) return
    this.#check(record, Math.min(to, from))
    this.#check(record, Math.max(to, from) + count - 1)
    this.#slabs.move(this.#cell(record), to, from, count)
    if (to === 0 && from > 0) this.#queues.lower(this.#index.series(record))
  }

  /**
   * Gives `n` fields (1 to 2,048) to `record`, or when that is 0 to the record of this identity and series, which may
   * be new. Fields are added and removed at the end; new fields hold anything until they are set. Where room is needed,
   * the latest `expire` tells what has expired. A new record does not expire before its first field is set.
   * @param stamps whether all fields are times, the first one the latest. They take 5 bytes each, other fields 6. A
   *   time that is older than the first one by 127 days or more is kept as that old
   * @returns the record; 0 when there is no room, which leaves the record as it was (never for fewer fields)
   * @throws RangeError when there is no such record, `series` or `n`
   */
  resize(identity: string, series: number, record: number, n: number, stamps = false): number {
    if (!(n > 0 && n <= MAX_FIELDS && series >= 0 && series <= 0xffff))
      throw new RangeError(`${n} in ${series}`)
    if (record !== 0) this.#check(record, 0)
    const known = record === 0 ? this.find(identity, series) : record
    const length = this.length(known)
    if (length === 0 && this.#size === this.#maxKeys && !this.#drop(0)) return 0
    let place = NO_CELL
    while (place === NO_CELL) {
      place = this.#slabs.resize(length === 0 ? NO_CELL : this.#cell(known), length, n, stamps)
      if (place === NO_CELL && !this.#vacate() && !this.#drop(known)) return 0
    }
    const resized = length === 0 ? this.#add(identity, series) : known
    this.#records.wordsOf(resized)[placeOf(resized) + CELL] = place
    this.#records.setLength(resized, n)
    if (length === 0) this.#slabs.set(place, 0, UNSET, 1)
    return resized
  }

  /**
   * Moves the record to its queue's tail. From now on every record of the series expires as long after its first
   * field as this one does, and up to 65,536 later.
   */
  touch(record: number, expiry: number): void {
    this.#check(record, 0)
    this.#queues.touch(record, this.#index.series(record), expiry)
  }

  remove(record: number): void {
    this.#check(record, 0)
    this.#queues.unlink(record, this.#index.series(record))
    this.#slabs.free(this.#cell(record))
    this.#index.remove(record)
    this.#records.setLength(record, 0)
    this.#size--
  }

  /** Forgets the texts that the arena was asked about. */
  forget(): void {
    this.#index.forget()
  }

  /**
   * Frees at most `budget` records that have expired at `now`, queue by queue. To find the next one, it looks at no
   * more than `budget` queues.
   * @returns how many were freed
   */
  expire(now: number, budget: number): number {
    this.#now = now
    let freed = 0
    for (; freed < budget; freed++) {
      const record = this.#queues.expired(now, 0, budget)
      if (record === 0) break
      this.remove(record)
    }
    for (let looks = freed; looks < budget; looks++) {
      const record = this.#queues.nextOfMixed(now)
      if (record === undefined) break
      if (record === 0) continue
      this.remove(record)
      freed++
    }
    return freed
  }

  #add(identity: string, series: number): number {
    const record = this.#index.add(identity, series)
    this.#queues.append(record, series)
    this.#size++
    return record
  }

  /** Drops one record that may go, other than `keep`. @returns whether there was one */
  #drop(keep: number): boolean {
    let record = this.#queues.expired(this.#now, keep)
    if (record === 0) {
      // So that the next `expire` finds what has expired behind live records. While there is room, that may wait.
      this.#queues.mix()
      record = this.#queues.evictable(keep)
    }
    if (record !== 0) this.remove(record)
    return record !== 0
  }

  /** Vacates a page: its cells move to free cells of other pages. @returns whether there was such a page */
  #vacate(): boolean {
    const page = this.#slabs.sparsest(Math.floor(this.#maxKeys / LOOKS))
    if (page === NO_CELL) return false
    const next = (from: number) => this.#records.next(from, CELL, CELL_BITS, page)
    for (let record = next(1); record !== 0; record = next(record + 1)) {
      const place = this.#slabs.moved(this.#cell(record), this.length(record))
      this.#records.wordsOf(record)[placeOf(record) + CELL] = place
    }
    return true
  }

  #cell(record: number): number {
    return this.#records.wordsOf(record)[placeOf(record) + CELL] as number
  }

  #first(record: number): number {
    return this.#slabs.get(this.#cell(record), 0)
  }

  // Also rejects the handle of a record that was freed: its length is 0.
  #check(record: number, index: number): void {
    if (!(index >= 0 && index < this.length(record))) throw new RangeError(`field ${index} of ${record}`)
  }
}

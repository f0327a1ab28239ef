import { KeyIndex, type Wanted } from './key-index.js'
import { Queues } from './queues.js'
import { placeOf, Records } from './records.js'
import { CELL_BITS, MAX_FIELDS, NONE, Slabs } from './slabs.js'

/** Of each record: the address of its fields. */
const CELL = 5
/** To find the records of a page all are looked at; so many of them for each cell that was freed before. */
const LOOKS = 1_024
/** A new record's first field: it has not expired. */
const UNSET = 2 ** 48 - 1

interface ArenaOptions {
  /** The most records at a time; each takes about 28 bytes beside its fields. */
  maxKeys: number
  /** Bound in bytes of all fields, 5 or 6 bytes each: 128 for each key when left out, never less than 2.2 MiB. */
  maxBytes?: number
  /** Whether live records of a series may go when the arena is full, asked each time; left out: none. */
  evictable?: (series: number) => boolean
}

/**
 * A bounded number of records in typed arrays. A record belongs to an identity (any text, of which a hash is kept) and a
 * series (0 to 65,535), and is a run of fields, integers below 2^48.
 * The records of a series stand in a queue by the time of their last touch and expire from its head, each so long
 * after its first field as was told at the last touch in the series. All times are of one clock of the caller's that never
 * goes back; they are below 2^48.
 *
 * When there is no room for a record, room that is left here and there is brought together; where that does not do, an
 * expired one is freed, else of the evictable series that has most records the one that was touched first, and so on; other
 * live records are never dropped. So a handle is good until `expire`, or `resize` or `remove` of another record; 0 is no
 * record. What is beyond a record's fields throws a RangeError.
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

  /** Looks for several at once, which is faster than for one after another: then `find` knows them. */
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
   * Gives `record`, or when that is 0 a record of this identity and series, `n` fields (1 to 2,048), adding and
   * removing at the end; new fields hold anything until they are set. What has expired is told by the time of the
   * latest `expire`, and a new record has not until its first field is set.
   * @param stamps whether all fields are times, the first one the latest; one that is older than it by 127 days or
   * more is kept as that old. Such fields take 5 bytes, others 6
   * @returns the record; 0 when there is no room, and then it is as it was (never so for fewer fields)
   * @throws RangeError when the record, `series` or `n` is none
   */
  resize(identity: string, series: number, record: number, n: number, stamps = false): number {
    if (!(n > 0 && n <= MAX_FIELDS && series >= 0 && series <= 0xffff))
      throw new RangeError(`${n} in ${series}`)
    if (record !== 0) this.#check(record, 0)
    const known = record === 0 ? this.find(identity, series) : record
    const length = this.length(known)
    if (length === 0 && this.#size === this.#maxKeys && !this.#drop(0)) return 0
    let place = NONE
    while (place === NONE) {
      place = this.#slabs.resize(length === 0 ? NONE : this.#cell(known), length, n, stamps)
      if (place === NONE && !this.#vacate() && !this.#drop(known)) return 0
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

  /** Keeps no text any longer that it was asked about. */
  forget(): void {
    this.#index.forget()
  }

  /**
   * Frees at most `budget` records that have expired at `now`, queue by queue, and looks at no more queues for the next one.
   * @returns how many
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

  /** Frees one record, but not `keep`, that may go. @returns whether there was one */
  #drop(keep: number): boolean {
    let record = this.#queues.expired(this.#now, keep)
    if (record === 0) {
      // For the next `expire`: until there is no room, what waits costs less than to look for it.
      this.#queues.mix()
      record = this.#queues.evictable(keep)
    }
    if (record !== 0) this.remove(record)
    return record !== 0
  }

  /** Empties a page into the free cells of others. @returns whether there was one for which they do */
  #vacate(): boolean {
    const page = this.#slabs.sparsest(Math.floor(this.#maxKeys / LOOKS))
    if (page === NONE) return false
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

  // Also finds a handle that was freed: its length is 0.
  #check(record: number, index: number): void {
    if (!(index >= 0 && index < this.length(record))) throw new RangeError(`field ${index} of ${record}`)
  }
}

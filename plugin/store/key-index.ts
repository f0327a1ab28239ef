import { HalfSipHash } from './half-sip-hash.js'
import { placeOf, type Records } from './records.js'

// The words of a record: two for its key (the second: 16 bits of the hash, and the series), and one for the next record
// of its bucket. The last record of a bucket has there the complement of the bucket's number.
const REST = 1
const CHAIN = 2
// The word of a bucket: its first record, and above that a bit for each eighth of all keys, set when the bucket has a
// key of that eighth. So most keys that are not there are not looked for record by record, each in another cache line.
const RECORD = 2 ** 24 - 1
const eighthOf = (word: number) => 1 << (24 + (word >>> 29))
/** With fewer buckets, identities would be told apart by fewer than 64 bits. */
const MIN_BUCKETS = 2 ** 16

/** In place of a record: its bucket is known, but not yet whether it is there. */
const SOUGHT = -1

/** Whose record is wanted. */
export interface Wanted {
  identity: string
  spec: { series: number }
}

/**
 * What was last looked for in a series: a decision finds all its records, then reads all, before it writes the first.
 */
interface Last {
  identity: string | undefined
  /** 0 when there is none. */
  record: number
  bucket: number
  word: number
  rest: number
}

/**
 * Finds the record of an identity in a series: there is one at most. Identities are told apart by 64 bits of a hash,
 * under a key of this process. 48 of them are kept in the record; the bucket tells the others. The odds that of 16
 * million keys in a series two are taken for one are 1 to 140,000, of 60,000 keys 1 to 10,000 million, and nobody can
 * bring that about. Should it happen, two identities share a limit: too few messages rather than too many.
 */
export class KeyIndex {
  readonly #records: Records
  readonly #buckets: Int32Array
  readonly #hash = new HalfSipHash()
  readonly #lasts: (Last | undefined)[] = []
  /** The keys that `findAll` looks for; one array for all calls. */
  readonly #sought: Last[] = []

  constructor(records: Records, maxKeys: number) {
    this.#records = records
    const buckets = 2 ** Math.ceil(Math.log2(maxKeys / 2 + 1))
    this.#buckets = new Int32Array(Math.max(buckets, MIN_BUCKETS))
  }

  get bytes(): number {
    return this.#buckets.byteLength
  }

  series(record: number): number {
    return (this.#records.wordsOf(record)[placeOf(record) + REST] as number) >>> 16
  }

  find(identity: string, series: number): number {
    return this.#seek(identity, series).record
  }

  /**
   * Looks for one key in each series: the processor fetches all their buckets at once. Then `find` knows the records.
   */
  findAll(wanted: readonly Wanted[]): void {
    const sought = this.#sought
    let count = 0
    for (const { identity, spec } of wanted) {
      const last = this.#last(spec.series)
      if (last.identity === identity && last.record !== SOUGHT) continue
      this.#aim(last, identity, spec.series)
      sought[count++] = last
    }
    for (let i = 0; i < count; i++) this.#enter(sought[i] as Last)
    for (let i = 0; i < count; i++) this.#follow(sought[i] as Last)
  }

  /** Takes a record for a key that `find` has not found. The caller counts the records. */
  add(identity: string, series: number): number {
    const last = this.#seek(identity, series)
    const records = this.#records
    const record = records.take()
    const bucket = this.#buckets[last.bucket] as number
    const words = records.wordsOf(record)
    const at = placeOf(record)
    words[at] = last.word
    words[at + REST] = last.rest
    words[at + CHAIN] = bucket & RECORD || ~last.bucket
    this.#buckets[last.bucket] = (bucket & ~RECORD) | eighthOf(last.word) | record
    last.record = record
    return record
  }

  /** Takes a record out of its bucket and releases it. */
  remove(record: number): void {
    const records = this.#records
    const last = this.#lasts[this.series(record)]
    if (last?.record === record) last.record = 0
    const next = this.#next(record)
    let eighths = 0
    let end = next
    for (; end > 0; end = this.#next(end)) eighths |= eighthOf(this.#word(end))
    let first = (this.#buckets[~end] as number) & RECORD
    if (first === record) first = Math.max(next, 0)
    else {
      let link = 0
      for (let each = first; each !== record; each = this.#next(each)) {
        eighths |= eighthOf(this.#word(each))
        link = each
      }
      records.wordsOf(link)[placeOf(link) + CHAIN] = next
    }
    this.#buckets[~end] = eighths | first
    records.release(record)
  }

  /** Forgets the texts that it was asked about. */
  forget(): void {
    this.#hash.forget()
    for (const last of this.#lasts) if (last) last.identity = undefined
  }

  #last(series: number): Last {
    return (this.#lasts[series] ??= { identity: undefined, record: SOUGHT, bucket: 0, word: 0, rest: 0 })
  }

  #seek(identity: string, series: number): Last {
    const last = this.#last(series)
    if (last.identity === identity && last.record !== SOUGHT) return last
    this.#aim(last, identity, series)
    this.#enter(last)
    this.#follow(last)
    return last
  }

  /** Computes where the record would be. */
  #aim(last: Last, identity: string, series: number): void {
    const hash = this.#hash
    hash.read(identity)
    last.identity = identity
    last.record = SOUGHT
    last.bucket = (hash.first ^ Math.imul(series, 0x9e3779b1)) & (this.#buckets.length - 1)
    last.word = hash.second
    last.rest = (hash.first >>> 16) | (series << 16)
  }

  /** Goes to the first record of the bucket, if the key may be there. */
  #enter(last: Last): void {
    const bucket = this.#buckets[last.bucket] as number
    last.record = bucket & eighthOf(last.word) && bucket & RECORD
  }

  /** Goes on from there to the record of the key, or to 0 if there is none. */
  #follow(last: Last): void {
    const records = this.#records
    let { record } = last
    while (record > 0) {
      const words = records.wordsOf(record)
      const at = placeOf(record)
      if (words[at] === last.word && words[at + REST] === last.rest) break
      record = words[at + CHAIN] as number
    }
    last.record = Math.max(record, 0)
  }

  #word(record: number): number {
    return this.#records.wordsOf(record)[placeOf(record)] as number
  }

  #next(record: number): number {
    return this.#records.wordsOf(record)[placeOf(record) + CHAIN] as number
  }
}

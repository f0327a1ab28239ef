import { placeOf, type Records } from './records.js'

// The words of a record for its neighbours in the queue.
const BEFORE = 3
const NEXT = 4
/** How much later records may expire: their first fields may be ahead of the clock, each by a little of its own. */
const SPARE = 2 ** 16

interface Queue {
  head: number
  tail: number
  /** How many records stand in it. */
  size: number
  series: number
  /** From a record's first field to its expiry, in ticks. */
  life: number
  /** First field of the record that was touched last. */
  last: number
  /** Whether records expire sooner than they did when touched, so that records before them may live longer. */
  lowered: boolean
}

interface QueueOptions {
  evictable: (series: number) => boolean
  /** A record's first field. */
  first: (record: number) => number
}

/**
 * One queue of records for each series. A record's expiry counts from its first field, which is the newest stamp of a
 * log, or the end of a lock or of a period. How long after that it expires is one number for the whole queue.
 *
 * A queue is looked at from its head alone: a record that expires before the head waits for it, which delays its end
 * and breaks nothing. Where the wait may be long, the queue counts as mixed from then on: its heads are sent to the
 * tail, one after another.
 */
export class Queues {
  readonly #records: Records
  readonly #series: (Queue | undefined)[] = []
  readonly #queues: Queue[] = []
  /** Queues in which a record may expire before one that stands ahead of it. */
  readonly #mixed: Queue[] = []
  readonly #options: QueueOptions
  #turn = 0

  constructor(records: Records, options: QueueOptions) {
    this.#records = records
    this.#options = options
  }

  append(record: number, series: number): void {
    const queue = this.#queue(series)
    const words = this.#records.wordsOf(record)
    const at = placeOf(record)
    words[at + BEFORE] = queue.tail
    words[at + NEXT] = 0
    if (queue.tail === 0) queue.head = record
    else this.#set(queue.tail, NEXT, record)
    queue.tail = record
    queue.size++
  }

  unlink(record: number, series: number): void {
    const queue = this.#queue(series)
    const words = this.#records.wordsOf(record)
    const at = placeOf(record)
    const before = words[at + BEFORE] as number
    const next = words[at + NEXT] as number
    if (before === 0) queue.head = next
    else this.#set(before, NEXT, next)
    if (next === 0) queue.tail = before
    else this.#set(next, BEFORE, before)
    queue.size--
  }

  /**
   * Moves a record to its queue's tail. From now on all records of the queue expire as long after their first fields as
   * this one does, and up to `SPARE` later.
   */
  touch(record: number, series: number, expiry: number): void {
    const queue = this.#queue(series)
    const first = this.#options.first(record)
    queue.life = expiry - first + SPARE
    if (first + SPARE < queue.last && !this.#mixed.includes(queue)) this.#mixed.push(queue)
    queue.last = first
    this.#toTail(record, queue)
  }

  /** Notes that the first field of a record has become an earlier time. */
  lower(series: number): void {
    this.#queue(series).lowered = true
  }

  /** Marks queues as mixed in which records may have expired behind a live one, unless any of their records may go. */
  mix(): void {
    for (const queue of this.#queues) {
      if (!queue.lowered || this.#options.evictable(queue.series)) continue
      queue.lowered = false
      if (!this.#mixed.includes(queue)) this.#mixed.push(queue)
    }
  }

  /**
   * Looks at the head of the next mixed queue.
   * @returns the head, if it has expired; else 0, and the head is sent to the tail; undefined when no queue is mixed
   */
  nextOfMixed(now: number): number | undefined {
    const queue = this.#mixed.shift()
    if (queue === undefined) return undefined
    this.#mixed.push(queue)
    const { head } = queue
    if (head === 0 || this.#expiry(head, queue) <= now) return head
    this.#toTail(head, queue)
    return 0
  }

  /**
   * Finds an expired record other than `keep`: in the queue that gave the last one, or in the next queue that has one
   * at its head.
   * @param looks how many queues are looked at, at most: in an app of a thousand rules, a decision must not look at all
   * @returns the record, or 0
   */
  expired(now: number, keep: number, looks = this.#queues.length): number {
    for (let left = Math.min(looks, this.#queues.length); left > 0; left--) {
      const queue = this.#queues[this.#turn] as Queue
      const record = this.#headBut(queue, keep)
      if (record !== 0 && this.#expiry(record, queue) <= now) return record
      this.#turn = (this.#turn + 1) % this.#queues.length
    }
    return 0
  }

  /**
   * Finds the first record, other than `keep`, of the longest evictable queue; or 0. So a flood that fills one queue
   * leaves the others what they have, and a series that keeps records for a minute has its share beside one that keeps
   * them for hours.
   */
  evictable(keep: number): number {
    let found = 0
    let longest = 0
    for (const queue of this.#queues) {
      if (queue.size <= longest || !this.#options.evictable(queue.series)) continue
      const record = this.#headBut(queue, keep)
      if (record === 0) continue
      found = record
      longest = queue.size
    }
    return found
  }

  #toTail(record: number, queue: Queue): void {
    if (queue.tail === record) return
    this.unlink(record, queue.series)
    this.append(record, queue.series)
  }

  #expiry(record: number, { life }: Queue): number {
    return this.#options.first(record) + life
  }

  /** The head of a queue or, if that is `keep`, the record behind it; or 0. */
  #headBut(queue: Queue, keep: number): number {
    return queue.head === keep ? (this.#records.wordsOf(keep)[placeOf(keep) + NEXT] as number) : queue.head
  }

  #set(record: number, which: number, neighbour: number): void {
    this.#records.wordsOf(record)[placeOf(record) + which] = neighbour
  }

  #queue(series: number): Queue {
    return (this.#series[series] ??= this.#open(series))
  }

  #open(series: number): Queue {
    const queue = { head: 0, tail: 0, size: 0, series, life: 0, last: 0, lowered: false }
    this.#queues.push(queue)
    return queue
  }
}

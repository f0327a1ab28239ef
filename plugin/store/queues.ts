// Of each record: its neighbours and its expiry.
const WIDTH = 3
const NEXT = 1
const EXPIRY = 2
/** The expiry is kept in 32 bits, so in steps of this. */
const GRAIN = 2 ** 16
const NEVER = 2 ** 32 - 1

interface Queue {
  head: number
  tail: number
  slot: number
}

/**
 * One queue of records for each slot. A queue is looked at from its head alone: a record that expires before
 * the head waits for it, which delays its end and breaks nothing.
 */
export class Queues {
  readonly #records: Uint32Array
  readonly #slots: (Queue | undefined)[] = []
  readonly #queues: Queue[] = []
  readonly #evictable: (slot: number) => boolean
  #turn = 0

  constructor(maxKeys: number, evictable: (slot: number) => boolean) {
    this.#records = new Uint32Array((maxKeys + 1) * WIDTH)
    this.#evictable = evictable
  }

  get bytes(): number {
    return this.#records.byteLength
  }

  append(record: number, slot: number): void {
    const queue = this.#queue(slot)
    const at = record * WIDTH
    this.#records[at] = queue.tail
    this.#records[at + NEXT] = 0
    if (queue.tail === 0) queue.head = record
    else this.#records[queue.tail * WIDTH + NEXT] = record
    queue.tail = record
  }

  unlink(record: number, slot: number): void {
    const queue = this.#queue(slot)
    const before = this.#records[record * WIDTH] as number
    const next = this.#records[record * WIDTH + NEXT] as number
    if (before === 0) queue.head = next
    else this.#records[before * WIDTH + NEXT] = next
    if (next === 0) queue.tail = before
    else this.#records[next * WIDTH] = before
  }

  setExpiry(record: number, expiry: number): void {
    this.#records[record * WIDTH + EXPIRY] = Math.min(Math.ceil(expiry / GRAIN), NEVER)
  }

  /** A record that has expired, of the next queue that has one at its head, but not `keep`; or 0. */
  expired(now: number, keep: number): number {
    for (let left = this.#queues.length; left > 0; left--) {
      this.#turn = (this.#turn + 1) % this.#queues.length
      const record = this.#first(this.#queues[this.#turn] as Queue, keep)
      if (record !== 0 && this.#expiry(record) * GRAIN <= now) return record
    }
    return 0
  }

  /** The evictable record with the earliest expiry, but not `keep`; or 0. */
  evictable(keep: number): number {
    let oldest = 0
    for (const queue of this.#queues) {
      const record = this.#evictable(queue.slot) ? this.#first(queue, keep) : 0
      if (record !== 0 && (oldest === 0 || this.#expiry(record) < this.#expiry(oldest))) oldest = record
    }
    return oldest
  }

  #expiry(record: number): number {
    return this.#records[record * WIDTH + EXPIRY] as number
  }

  /** The first of a queue, `keep` aside. */
  #first(queue: Queue, keep: number): number {
    return queue.head === keep ? (this.#records[keep * WIDTH + NEXT] as number) : queue.head
  }

  #queue(slot: number): Queue {
    return (this.#slots[slot] ??= this.#open(slot))
  }

  #open(slot: number): Queue {
    const queue = { head: 0, tail: 0, slot }
    this.#queues.push(queue)
    return queue
  }
}

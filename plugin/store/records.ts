/** For how many records memory is allocated at a time, as a power of two. */
const CHUNK_BITS = 13
const CHUNK = 2 ** CHUNK_BITS
const MASK = CHUNK - 1
/** How many words a record has. They stand side by side, so that few cache lines hold all of them. */
const WIDTH = 6

/** The index of a record's first word in `wordsOf(record)`. */
export function placeOf(record: number): number {
  return (record & MASK) * WIDTH
}

/**
 * Records, by numbers from 1 on; the number of a released record is given out again. Each record has six words of 32
 * bits (0 to 2 are for the index, 3 and 4 for the queues, 5 for the address of its fields) and a length; at first they
 * may hold anything. Memory is allocated as records come into use, a little at a time, and never moves.
 */
export class Records {
  readonly #words = [new Int32Array(CHUNK * WIDTH)]
  readonly #lengths = [new Uint16Array(CHUNK)]
  #unused = 0
  #fresh = 1

  /** Bytes of the allocated memory. */
  get bytes(): number {
    return this.#words.length * CHUNK * (WIDTH * Int32Array.BYTES_PER_ELEMENT + Uint16Array.BYTES_PER_ELEMENT)
  }

  /** @returns a record; the caller counts the records */
  take(): number {
    const record = this.#unused
    if (record !== 0) {
      this.#unused = this.wordsOf(record)[placeOf(record)] as number
      return record
    }
    if (this.#fresh >>> CHUNK_BITS === this.#words.length) {
      this.#words.push(new Int32Array(CHUNK * WIDTH))
      this.#lengths.push(new Uint16Array(CHUNK))
    }
    return this.#fresh++
  }

  release(record: number): void {
    this.wordsOf(record)[placeOf(record)] = this.#unused
    this.#unused = record
  }

  /** The array that holds the words of a record, from `placeOf(record)` on, among those of others. */
  wordsOf(record: number): Int32Array {
    return this.#words[record >>> CHUNK_BITS] as Int32Array
  }

  /** The first record in use, from `from` on, whose word number `word` has `value` above its last `bits` bits; or 0. */
  next(from: number, word: number, bits: number, value: number): number {
    let at = placeOf(from) + word
    for (let chunk = from >>> CHUNK_BITS; chunk < this.#words.length; chunk++, at = word) {
      const words = this.#words[chunk] as Int32Array
      for (; at < words.length; at += WIDTH) {
        if ((words[at] as number) >>> bits !== value) continue
        const record = chunk * CHUNK + (at - word) / WIDTH
        if (this.length(record) > 0) return record
      }
    }
    return 0
  }

  /** How many fields a record has; 0 for 0, which is no record. */
  length(record: number): number {
    return (this.#lengths[record >>> CHUNK_BITS] as Uint16Array)[record & MASK] as number
  }

  setLength(record: number, length: number): void {
    ;(this.#lengths[record >>> CHUNK_BITS] as Uint16Array)[record & MASK] = length
  }
}

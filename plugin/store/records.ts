/** Records for which memory is taken at a time, as a power of two. */
const CHUNK_BITS = 13
const CHUNK = 2 ** CHUNK_BITS
const MASK = CHUNK - 1
/** Of each record so many words, side by side, so that few lines of the caches have all of it. */
const WIDTH = 6

/**
 * Numbers of records, from 1 on, given out again once released. Each record has six words of 32 bits (0 to 2 are for the
 * index, 3 and 4 for the queues, 5 for the address of its fields) and a length; what they hold at first is open.
 * Memory is taken as records come into use, a little at a time, and none of it ever moves.
 */
export class Records {
  readonly #words: Int32Array[] = []
  readonly #lengths: Uint16Array[] = []
  #unused = 0
  #fresh = 1

  /** Bytes of what is taken. */
  get bytes(): number {
    return this.#words.length * CHUNK * (WIDTH * Int32Array.BYTES_PER_ELEMENT + Uint16Array.BYTES_PER_ELEMENT)
  }

  /** @returns a record; the caller keeps count */
  take(): number {
    const record = this.#unused
    if (record !== 0) {
      this.#unused = this.word(record, 0)
      return record
    }
    if (this.#fresh >>> CHUNK_BITS === this.#words.length) {
      this.#words.push(new Int32Array(CHUNK * WIDTH))
      this.#lengths.push(new Uint16Array(CHUNK))
    }
    return this.#fresh++
  }

  release(record: number): void {
    this.setWord(record, 0, this.#unused)
    this.#unused = record
  }

  word(record: number, place: number): number {
    return (this.#words[record >>> CHUNK_BITS] as Int32Array)[(record & MASK) * WIDTH + place] as number
  }

  setWord(record: number, place: number, value: number): void {
    ;(this.#words[record >>> CHUNK_BITS] as Int32Array)[(record & MASK) * WIDTH + place] = value
  }

  /** Of a number that is no record: 0. */
  length(record: number): number {
    return this.#lengths[record >>> CHUNK_BITS]?.[record & MASK] ?? 0
  }

  setLength(record: number, length: number): void {
    ;(this.#lengths[record >>> CHUNK_BITS] as Uint16Array)[record & MASK] = length
  }
}

/** Records for which memory is taken at a time, as a power of two. */
const CHUNK_BITS = 13
const CHUNK = 2 ** CHUNK_BITS
const MASK = CHUNK - 1
/** Of each record so many words, side by side, so that few lines of the caches have all of it. */
const WIDTH = 6

/** Where the first word of a record stands in `wordsOf` it. */
export function placeOf(record: number): number {
  return (record & MASK) * WIDTH
}

/**
 * Numbers of records, from 1 on, given out again once released. Each record has six words of 32 bits (0 to 2 are for the
 * index, 3 and 4 for the queues, 5 for the address of its fields) and a length; what they hold at first is open.
 * Memory is taken as records come into use, a little at a time, and none of it ever moves.
 */
export class Records {
  readonly #words = [new Int32Array(CHUNK * WIDTH)]
  readonly #lengths = [new Uint16Array(CHUNK)]
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

  /** The words of a record, among others', from `placeOf` it on. */
  wordsOf(record: number): Int32Array {
    return this.#words[record >>> CHUNK_BITS] as Int32Array
  }

  /** The first record in use, from one on, of which a word has `value` above its last `bits` bits; or 0. */
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

  /** Of 0, which is no record: 0. */
  length(record: number): number {
    return (this.#lengths[record >>> CHUNK_BITS] as Uint16Array)[record & MASK] as number
  }

  setLength(record: number, length: number): void {
    ;(this.#lengths[record >>> CHUNK_BITS] as Uint16Array)[record & MASK] = length
  }
}

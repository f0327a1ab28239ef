import { randomBytes } from 'node:crypto'
import { hasher } from '../identity/digest.js'

/** From how many characters on a hash by OpenSSL is faster. */
const LONG = 256
const digest = hasher('sha256', randomBytes(16).toString('hex'))

/** The text itself, or of a long one a hash, which stands for the text in this process. */
export function brief(text: string): string {
  return text.length < LONG ? text : digest(text)
}

/**
 * HalfSipHash-1-3 with 64 bits, under a key of this process: a hash for tables whose keys strangers may choose
 * (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012; HalfSipHash, for words of 32 bits, is what the tables
 * of Linux use). For a short text it costs a quarter of a hash by OpenSSL. For a long text it reads such a hash. It
 * tells texts apart in this process and is shown to nobody.
 */
export class HalfSipHash {
  /** The two halves of the hash of the text that was read last. */
  first = 0
  second = 0
  readonly #a: number
  readonly #b: number
  // The text that was read last: a rule asks for the same one once for each of its limits.
  #last: string | undefined

  /** @param key of 8 bytes */
  constructor(key: Buffer = randomBytes(8)) {
    this.#a = key.readInt32LE(0)
    this.#b = key.readInt32LE(4)
  }

  read(text: string): void {
    if (text === this.#last) return
    this.#last = text
    this.#absorb(brief(text))
  }

  /** Forgets the text that was read last. */
  forget(): void {
    this.#last = undefined
  }

  #absorb(text: string): void {
    // `| 0`: a number of 32 bits from the start, like the others, else V8 allocates an object for it each round.
    let a = this.#a | 0
    let b = this.#b ^ 0xee
    let c = this.#a ^ 0x6c796765
    let d = this.#b ^ 0x74656462
    const { length } = text
    const pairs = length >>> 1
    // One round for each two characters, one for the end, and three for each half of the hash.
    for (let round = 0; round < pairs + 7; round++) {
      let word = 0
      if (round < pairs) word = text.charCodeAt(2 * round) | (text.charCodeAt(2 * round + 1) << 16)
      else if (round === pairs) word = (length << 25) | (length % 2 && text.charCodeAt(length - 1))
      else if (round === pairs + 1) c ^= 0xee
      else if (round === pairs + 4) {
        this.first = b ^ d
        b ^= 0xdd
      }
      d ^= word
      a = (a + b) | 0
      b = ((b << 5) | (b >>> 27)) ^ a
      a = (a << 16) | (a >>> 16)
      c = (c + d) | 0
      d = ((d << 8) | (d >>> 24)) ^ c
      a = (a + d) | 0
      d = ((d << 7) | (d >>> 25)) ^ a
      c = (c + b) | 0
      b = ((b << 13) | (b >>> 19)) ^ c
      c = (c << 16) | (c >>> 16)
      a ^= word
    }
    this.second = b ^ d
  }
}

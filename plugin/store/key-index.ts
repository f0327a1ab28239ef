// Of each record: two words of its key, and the next record of its bucket, or the next unused one.
const WIDTH = 3
const CHAIN = 2

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const SIX_BITS = new Uint8Array(128)
for (let i = 0; i < BASE64URL.length; i++) SIX_BITS[BASE64URL.charCodeAt(i)] = i

/**
 * Numbers for pairs of identity and slot, from 1 to `maxKeys`, given out again once removed. The identity is
 * base64url of a keyed hash, hence evenly spread already; its first 16 characters count, folded into 64 bits.
 * So of 16 million keys in a slot two are taken for one with odds of 1 to 130,000, and nobody without the
 * secret can bring that about. Should it happen, two share a limit: too few messages rather than too many.
 */
export class KeyIndex {
  readonly #keys: Int32Array
  readonly #slots: Uint16Array
  readonly #buckets: Int32Array
  readonly #key = new Int32Array(2)
  #unused = 0
  #fresh = 1

  constructor(maxKeys: number) {
    // Untouched pages of a big zeroed array take no memory, so all have their final size from the start.
    this.#keys = new Int32Array((maxKeys + 1) * WIDTH)
    this.#slots = new Uint16Array(maxKeys + 1)
    this.#buckets = new Int32Array(2 ** Math.ceil(Math.log2(maxKeys / 2 + 1)))
  }

  get bytes(): number {
    return this.#keys.byteLength + this.#slots.byteLength + this.#buckets.byteLength
  }

  slot(record: number): number {
    return this.#slots[record] as number
  }

  find(identity: string, slot: number): number {
    const key = this.#key
    const keys = this.#keys
    parse(identity, key)
    let record = this.#buckets[this.#bucket(key[0] as number, slot)] as number
    for (; record !== 0; record = keys[record * WIDTH + CHAIN] as number) {
      const at = record * WIDTH
      const same = keys[at] === key[0] && keys[at + 1] === key[1]
      if (same && this.#slots[record] === slot) return record
    }
    return 0
  }

  /** Gives a number to what `find` has not found; the caller keeps count. */
  add(identity: string, slot: number): number {
    parse(identity, this.#key)
    const record = this.#unused === 0 ? this.#fresh++ : this.#unused
    const at = record * WIDTH
    if (record === this.#unused) this.#unused = this.#keys[at + CHAIN] as number
    const bucket = this.#bucket(this.#key[0] as number, slot)
    this.#keys.set(this.#key, at)
    this.#keys[at + CHAIN] = this.#buckets[bucket] as number
    this.#buckets[bucket] = record
    this.#slots[record] = slot
    return record
  }

  remove(record: number): void {
    const keys = this.#keys
    const at = record * WIDTH
    const bucket = this.#bucket(keys[at] as number, this.slot(record))
    const next = keys[at + CHAIN] as number
    let link = this.#buckets[bucket] as number
    if (link === record) this.#buckets[bucket] = next
    else {
      while (keys[link * WIDTH + CHAIN] !== record) link = keys[link * WIDTH + CHAIN] as number
      keys[link * WIDTH + CHAIN] = next
    }
    keys[at + CHAIN] = this.#unused
    this.#unused = record
  }

  #bucket(word: number, slot: number): number {
    return (word ^ Math.imul(slot, 0x9e3779b1)) & (this.#buckets.length - 1)
  }
}

/** The first 96 bits of an identity as two words, each of two runs of 24 that overlap by 16. */
function parse(identity: string, key: Int32Array): void {
  key[0] = fourCharacters(identity, 0) ^ (fourCharacters(identity, 4) << 8)
  key[1] = fourCharacters(identity, 8) ^ (fourCharacters(identity, 12) << 8)
}

function fourCharacters(text: string, at: number): number {
  const high = (sixBits(text, at) << 6) | sixBits(text, at + 1)
  return (high << 12) | (sixBits(text, at + 2) << 6) | sixBits(text, at + 3)
}

function sixBits(text: string, at: number): number {
  return SIX_BITS[text.charCodeAt(at)] as number
}

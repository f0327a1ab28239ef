/** Bytes of a page. */
export const PAGE_BYTES = 3 * 2 ** 14
/** How much older than the first stamp of a cell the others can be, in ticks: 127 days. */
export const REACH = 2 ** 40

const LOW = 2 ** 32

/**
 * A page of cells of one size and width. The lower 32 bits of each field stand in one part of the page, the other bits
 * in bytes in another part: two bytes a field where fields may be any integer below 2^48; one byte where fields are
 * stamps, none of them above the first. Of each stamp 40 bits are kept, and of the first one its upper 8 bits as well.
 * That is as good as 48 bits of each: a stamp is the latest instant, not after the first one, that ends in its 40 bits.
 */
export class Page {
  readonly #buffer = new ArrayBuffer(PAGE_BYTES)
  readonly #low = new Uint32Array(this.#buffer)
  readonly #rest = new Uint8Array(this.#buffer)
  /** Where the part with the other bits begins, and how many bytes a cell has there. */
  #upper = 0
  #width = 0
  /** How many fields a cell has; an empty page may be opened again for another size. */
  size = 0
  stamps = false
  /** Cells that fit, and cells in use. */
  cells = 0
  used = 0
  /** The cells from this one on were not used since the page was opened. */
  #fresh = 0
  /** The cell that was freed last, plus 1; 0 for none. Its first field names the one freed before it. */
  #freed = 0

  open(size: number, stamps: boolean): void {
    this.size = size
    this.stamps = stamps
    this.#width = stamps ? size + 1 : size * 2
    this.cells = Math.floor(PAGE_BYTES / (size * 4 + this.#width))
    this.#upper = this.cells * size * 4
    this.#fresh = 0
    this.#freed = 0
  }

  get(cell: number, index: number): number {
    const first = cell * this.size
    const low = this.#low[first + index] as number
    const rest = this.#rest
    const at = this.#upper + cell * this.#width
    if (!this.stamps) {
      const two = at + index * 2
      return low + ((rest[two] as number) + (rest[two + 1] as number) * 256) * LOW
    }
    const part = low + (rest[at + index] as number) * LOW
    const top = rest[at + this.size] as number
    const later = part > (this.#low[first] as number) + (rest[at] as number) * LOW
    return part + (later ? top - 1 : top) * REACH
  }

  set(cell: number, index: number, value: number): void {
    const at = this.#upper + cell * this.#width
    const upper = Math.floor(value / LOW)
    this.#low[cell * this.size + index] = value
    if (!this.stamps) {
      this.#rest[at + index * 2] = upper
      this.#rest[at + index * 2 + 1] = upper >>> 8
    } else {
      this.#rest[at + index] = upper
      if (index === 0) this.#rest[at + this.size] = upper >>> 8
    }
  }

  move(cell: number, to: number, from: number, count: number): void {
    const first = cell * this.size
    const at = this.#upper + cell * this.#width
    const bytes = this.stamps ? 1 : 2
    const head = to === 0 ? this.get(cell, from) : 0
    this.#low.copyWithin(first + to, first + from, first + from + count)
    this.#rest.copyWithin(at + to * bytes, at + from * bytes, at + (from + count) * bytes)
    if (to === 0) this.set(cell, 0, head)
  }

  get full(): boolean {
    return this.#freed === 0 && this.#fresh === this.cells
  }

  take(): number {
    this.used++
    if (this.#freed === 0) return this.#fresh++
    const cell = this.#freed - 1
    this.#freed = this.#low[cell * this.size] as number
    return cell
  }

  release(cell: number): void {
    this.#low[cell * this.size] = this.#freed
    this.#freed = cell + 1
    this.used--
  }
}

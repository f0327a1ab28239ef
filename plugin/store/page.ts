/** Bytes of a page. */
export const PAGE_BYTES = 3 * 2 ** 14
/** How much older than the first stamp of a cell the others can be, in ticks: 127 days. */
export const REACH = 2 ** 40

const LOW = 2 ** 32

/**
 * A page of cells of one size and width. The fields of a cell stand side by side, so that few cache lines hold them: 6
 * bytes each where fields may be any integer below 2^48; 5 bytes each where fields are stamps, none of them above the
 * first. Of each stamp 40 bits are kept; the upper 8 bits of the first one stand before it. That is as good as 48 bits
 * of each: a stamp is the latest instant, not after the first one, that ends in its 40 bits.
 */
export class Page {
  readonly #view = new DataView(new ArrayBuffer(PAGE_BYTES))
  readonly #bytes = new Uint8Array(this.#view.buffer)
  /** Bytes of a cell, bytes before its first field, and bytes of a field. */
  #stride = 0
  #lead = 0
  #width = 0
  /** How many fields a cell has; an empty page may be opened again for another size. */
  size = 0
  stamps = false
  /** Cells that fit, and cells in use. */
  cells = 0
  used = 0
  /** The cells from this one on were not used since the page was opened. */
  #fresh = 0
  /** The cell that was freed last, plus 1; 0 for none. Its first bytes name the one freed before it. */
  #freed = 0

  open(size: number, stamps: boolean): void {
    this.size = size
    this.stamps = stamps
    this.#lead = stamps ? 1 : 0
    this.#width = stamps ? 5 : 6
    this.#stride = this.#lead + size * this.#width
    this.cells = Math.floor(PAGE_BYTES / this.#stride)
    this.#fresh = 0
    this.#freed = 0
  }

  get(cell: number, index: number): number {
    const at = this.#at(cell, index)
    const view = this.#view
    if (!this.stamps) return view.getUint32(at, true) + view.getUint16(at + 4, true) * LOW
    const part = view.getUint32(at, true) + view.getUint8(at + 4) * LOW
    const first = cell * this.#stride
    const top = view.getUint8(first)
    const later = part > view.getUint32(first + 1, true) + view.getUint8(first + 5) * LOW
    return part + (later ? top - 1 : top) * REACH
  }

  set(cell: number, index: number, value: number): void {
    const at = this.#at(cell, index)
    const view = this.#view
    const upper = Math.floor(value / LOW)
    view.setUint32(at, value, true)
    if (!this.stamps) view.setUint16(at + 4, upper, true)
    else {
      view.setUint8(at + 4, upper)
      if (index === 0) view.setUint8(at - 1, upper >>> 8)
    }
  }

  move(cell: number, to: number, from: number, count: number): void {
    const head = to === 0 ? this.get(cell, from) : 0
    this.#bytes.copyWithin(this.#at(cell, to), this.#at(cell, from), this.#at(cell, from + count))
    if (to === 0) this.set(cell, 0, head)
  }

  get full(): boolean {
    return this.#freed === 0 && this.#fresh === this.cells
  }

  take(): number {
    this.used++
    if (this.#freed === 0) return this.#fresh++
    const cell = this.#freed - 1
    this.#freed = this.#view.getUint32(cell * this.#stride, true)
    return cell
  }

  release(cell: number): void {
    this.#view.setUint32(cell * this.#stride, this.#freed, true)
    this.#freed = cell + 1
    this.used--
  }

  #at(cell: number, index: number): number {
    return cell * this.#stride + this.#lead + index * this.#width
  }
}

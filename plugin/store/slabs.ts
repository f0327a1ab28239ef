/** The most fields that one cell holds. */
export const MAX_FIELDS = 1024
/** The address of no cell. */
export const NONE = -1

const SIZES = [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, MAX_FIELDS]
const CLASS = Uint8Array.from({ length: MAX_FIELDS + 1 }, (_, n) => SIZES.findIndex(size => size >= n))
/** A field is three words of 16 bits. */
const WORDS = 3
const PAGE_BITS = 13
const PAGE_MASK = (1 << PAGE_BITS) - 1
const PAGE_BYTES = (1 << PAGE_BITS) * WORDS * 2

class Page {
  readonly words = new Uint16Array((1 << PAGE_BITS) * WORDS)
  /** Fields a cell; a page that got empty may serve another size. */
  size = 0
  used = 0
  /** Cells behind this one were not used since the page got its size. */
  fresh = 0
  /** Last freed cell + 1; its first word names the one freed before it. */
  freed = 0
}

/**
 * Cells of 1 to 1,024 fields, a field being an integer of 48 bits. A page (48 KiB) holds cells of one size;
 * once empty it serves any size again, so that a shift from short cells to long ones wastes no room.
 * A cell's address is its page's number and its place there, counted in fields.
 */
export class Slabs {
  readonly #maxPages: number
  readonly #pages: Page[] = []
  readonly #empty: number[] = []
  /** For each size the pages with room. */
  readonly #open = SIZES.map(() => new Set<number>())

  /** @param maxBytes bound of all pages together; not less than one page for each size, 1 MiB */
  constructor(maxBytes: number) {
    this.#maxPages = Math.max(SIZES.length, Math.floor(maxBytes / PAGE_BYTES))
  }

  get bytes(): number {
    return this.#pages.length * PAGE_BYTES
  }

  get(cell: number, index: number): number {
    const { words } = this.#page(cell)
    const at = ((cell & PAGE_MASK) + index) * WORDS
    const high = (words[at + 1] as number) + (words[at + 2] as number) * 0x10000
    return (words[at] as number) + high * 0x10000
  }

  set(cell: number, index: number, value: number): void {
    const { words } = this.#page(cell)
    const at = ((cell & PAGE_MASK) + index) * WORDS
    words[at] = value
    words[at + 1] = value / 0x10000
    words[at + 2] = value / 0x100000000
  }

  move(cell: number, to: number, from: number, count: number): void {
    const at = cell & PAGE_MASK
    this.#page(cell).words.copyWithin((at + to) * WORDS, (at + from) * WORDS, (at + from + count) * WORDS)
  }

  /**
   * A cell for `n` fields in place of `cell` (or NONE) with its `length` fields; fields that are new are 0.
   * @returns its address, or NONE when there is no room, and then `cell` is as it was (never so for fewer)
   */
  resize(cell: number, length: number, n: number): number {
    const size = cell === NONE ? 0 : this.#page(cell).size
    let to = cell
    if (SIZES[CLASS[n] as number] !== size) {
      to = this.#allocate(CLASS[n] as number)
      if (to === NONE && n > size) return NONE
      if (to === NONE) to = cell
      else if (cell !== NONE) this.#replace(cell, to, Math.min(length, n))
    }
    const at = to & PAGE_MASK
    if (n > length) this.#page(to).words.fill(0, (at + length) * WORDS, (at + n) * WORDS)
    return to
  }

  free(cell: number): void {
    const number = cell >>> PAGE_BITS
    const page = this.#page(cell)
    const open = this.#open[CLASS[page.size] as number] as Set<number>
    page.words[(cell & PAGE_MASK) * WORDS] = page.freed
    page.freed = (cell & PAGE_MASK) / page.size + 1
    page.used--
    open.add(number)
    if (page.used > 0) return
    open.delete(number)
    this.#empty.push(number)
  }

  #page(cell: number): Page {
    return this.#pages[cell >>> PAGE_BITS] as Page
  }

  #replace(cell: number, to: number, count: number): void {
    const from = (cell & PAGE_MASK) * WORDS
    const words = this.#page(cell).words.subarray(from, from + count * WORDS)
    this.#page(to).words.set(words, (to & PAGE_MASK) * WORDS)
    this.free(cell)
  }

  #allocate(kind: number): number {
    const open = this.#open[kind] as Set<number>
    const { value: number = this.#openPage(kind) } = open.values().next()
    if (number === NONE) return NONE
    const page = this.#pages[number] as Page
    const reused = page.freed > 0
    const at = (reused ? page.freed - 1 : page.fresh++) * page.size
    if (reused) page.freed = page.words[at * WORDS] as number
    page.used++
    if (page.freed === 0 && (page.fresh + 1) * page.size > 1 << PAGE_BITS) open.delete(number)
    return (number << PAGE_BITS) | at
  }

  #openPage(kind: number): number {
    const number = this.#empty.pop() ?? this.#pages.length
    if (number >= this.#maxPages) return NONE
    if (number === this.#pages.length) this.#pages.push(new Page())
    const page = this.#pages[number] as Page
    page.size = SIZES[kind] as number
    page.fresh = 0
    page.freed = 0
    this.#open[kind]?.add(number)
    return number
  }
}

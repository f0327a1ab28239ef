import { PAGE_BYTES, Page, REACH } from './page.js'

/** How many fields a cell may hold. */
const SIZES = [
  1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048
]
/** The most fields that one cell holds. */
export const MAX_FIELDS = Math.max(...SIZES)
/** The address of no cell. */
export const NONE = -1

const CLASS = Uint8Array.from({ length: MAX_FIELDS + 1 }, (_, n) => SIZES.findIndex(size => size >= n))
/** As many cells as the smallest ones make in a page. */
const CELL_BITS = 13
const CELL_MASK = (1 << CELL_BITS) - 1

/**
 * Cells of 1 to 2,048 fields, a field being an integer of 48 bits. A page (48 KiB) holds cells of one size and
 * width; once empty it serves any again, so that a shift from short cells to long ones wastes no room. Where there is no
 * page left, a larger cell serves as well.
 * A cell's address is its page's number and its own number there.
 *
 * Cells of stamps take a byte less for all fields but the first. No stamp may be above the first one; one that
 * is older by 127 days (`REACH`) or more is kept as that old.
 */
export class Slabs {
  readonly #maxPages: number
  readonly #pages: Page[] = []
  readonly #empty: number[] = []
  /** For each size the pages with room, those of stamps behind the others. */
  readonly #open = [...SIZES, ...SIZES].map(() => new Set<number>())

  /** @param maxBytes bound of all pages together; not less than one page for each size and width, 2.2 MiB */
  constructor(maxBytes: number) {
    this.#maxPages = Math.max(this.#open.length, Math.floor(maxBytes / PAGE_BYTES))
  }

  get bytes(): number {
    return this.#pages.length * PAGE_BYTES
  }

  get(cell: number, index: number): number {
    return this.#page(cell).get(cell & CELL_MASK, index)
  }

  /** @param length fields in use: a new first stamp may leave the last of them out of reach */
  set(cell: number, index: number, value: number, length: number): void {
    const page = this.#page(cell)
    const at = cell & CELL_MASK
    if (!page.stamps) return page.set(at, index, value)
    const oldest = index === 0 ? value - REACH + 1 : page.get(at, 0) - REACH + 1
    const tooOld = index === 0 ? length - 1 : 0
    for (let i = tooOld; i > 0 && page.get(at, i) < oldest; i--) page.set(at, i, oldest)
    page.set(at, index, Math.max(value, oldest))
  }

  move(cell: number, to: number, from: number, count: number): void {
    this.#page(cell).move(cell & CELL_MASK, to, from, count)
  }

  /**
   * A cell for `n` fields in place of `cell` (or NONE) with its `length` fields; fields that are new hold anything.
   * @returns its address, or NONE when there is no room, and then `cell` is as it was (never so for fewer)
   */
  resize(cell: number, length: number, n: number, stamps: boolean): number {
    const size = SIZES[CLASS[n] as number] as number
    const from = cell === NONE ? undefined : this.#page(cell)
    if (from?.size === size && from.stamps === stamps) return cell
    // From a larger cell of its kind it moves to a smaller one alone.
    const below = from?.stamps === stamps && from.size > size ? from.size : Number.POSITIVE_INFINITY
    const to = this.#allocate(size, stamps, below)
    if (from === undefined) return to
    if (to === NONE) return n > from.size ? NONE : cell
    for (let i = 0; i < Math.min(length, n); i++) this.set(to, i, from.get(cell & CELL_MASK, i), i)
    this.free(cell)
    return to
  }

  free(cell: number): void {
    const number = cell >>> CELL_BITS
    const page = this.#page(cell)
    const open = this.#openOf(page.size, page.stamps)
    page.release(cell & CELL_MASK)
    open.add(number)
    if (page.used > 0) return
    open.delete(number)
    this.#empty.push(number)
  }

  #page(cell: number): Page {
    return this.#pages[cell >>> CELL_BITS] as Page
  }

  #openOf(size: number, stamps: boolean): Set<number> {
    return this.#open[(CLASS[size] as number) + (stamps ? SIZES.length : 0)] as Set<number>
  }

  #allocate(size: number, stamps: boolean, below: number): number {
    const { value: open = this.#openPage(size, stamps) } = this.#openOf(size, stamps).values().next()
    const number = open === NONE ? this.#largerPage(size, stamps, below) : open
    if (number === NONE) return NONE
    const page = this.#pages[number] as Page
    const cell = page.take()
    if (page.full) this.#openOf(page.size, stamps).delete(number)
    return (number << CELL_BITS) | cell
  }

  /** A page with room, of cells that are larger than `size`, and smaller than `below`. */
  #largerPage(size: number, stamps: boolean, below: number): number {
    for (const larger of SIZES) {
      if (larger <= size || larger >= below) continue
      const [number] = this.#openOf(larger, stamps)
      if (number !== undefined) return number
    }
    return NONE
  }

  #openPage(size: number, stamps: boolean): number {
    const number = this.#empty.pop() ?? this.#pages.length
    if (number >= this.#maxPages) return NONE
    if (number === this.#pages.length) this.#pages.push(new Page())
    this.#pages[number]?.open(size, stamps)
    this.#openOf(size, stamps).add(number)
    return number
  }
}

import { PAGE_BYTES, Page, REACH } from './page.js'

/** How many fields a cell may hold. */
const SIZES = [
  1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048
]
/** The most fields that one cell holds. */
export const MAX_FIELDS = Math.max(...SIZES)
/** The address of no cell. */
export const NO_CELL = -1

const CLASS = Uint8Array.from({ length: MAX_FIELDS + 1 }, (_, n) => SIZES.findIndex(size => size >= n))
/** How many bits at the end of an address name the cell in its page: enough for a page of the smallest cells. */
export const CELL_BITS = 13
const CELL_MASK = (1 << CELL_BITS) - 1

/** All pages of one size and width. */
interface Kind {
  /** The pages with room. */
  readonly open: Set<number>
  /** How many cells are free. */
  free: number
  /** How many cells a page has. */
  cells: number
}

/**
 * Cells of 1 to 2,048 fields; a field is an integer of 48 bits. A page (48 KiB) holds cells of one size and width. An
 * empty page may serve any size and width again, so that a shift from short cells to long ones wastes no room. When no
 * page is left, a larger cell serves as well. The address of a cell is the number of its page and its own number there.
 *
 * Cells of stamps take a byte less for all fields but the first. No stamp may be above the first one; a stamp that is
 * older than the first one by 127 days (`REACH`) or more is kept as that old.
 */
export class Slabs {
  readonly #maxPages: number
  readonly #pages: Page[] = []
  readonly #empty: number[] = []
  /** One kind for each size; after them one for each size of stamps. */
  readonly #kinds = [...SIZES, ...SIZES].map((): Kind => ({ open: new Set(), free: 0, cells: 1 }))

  /** @param maxBytes bound of all pages together; at least one page for each size and width fits, 2.2 MiB */
  constructor(maxBytes: number) {
    this.#maxPages = Math.max(this.#kinds.length, Math.floor(maxBytes / PAGE_BYTES))
  }

  get bytes(): number {
    return this.#pages.length * PAGE_BYTES
  }

  get(cell: number, index: number): number {
    return this.#page(cell).get(cell & CELL_MASK, index)
  }

  /** @param length fields in use: a new first stamp may put the last of them out of reach (`REACH`) */
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
   * Gives a cell for `n` fields in place of `cell` (or `NO_CELL`) with its `length` fields; new fields hold anything.
   * @returns its address; `NO_CELL` when there is no room, which leaves `cell` as it was (never for fewer fields)
   */
  resize(cell: number, length: number, n: number, stamps: boolean): number {
    const size = SIZES[CLASS[n] as number] as number
    const from = cell === NO_CELL ? undefined : this.#page(cell)
    if (from?.size === size && from.stamps === stamps) return cell
    // A cell that is larger than needed moves only to a smaller one of its kind.
    const below = from?.stamps === stamps && from.size > size ? from.size : Number.POSITIVE_INFINITY
    const to = this.#allocate(size, stamps, below)
    if (from === undefined) return to
    if (to === NO_CELL) return n > from.size ? NO_CELL : cell
    return this.#move(cell, to, Math.min(length, n))
  }

  free(cell: number): void {
    const number = cell >>> CELL_BITS
    const page = this.#page(cell)
    const kind = this.#kindOf(page.size, page.stamps)
    page.release(cell & CELL_MASK)
    kind.open.add(number)
    kind.free++
    if (page.used > 0) return
    kind.open.delete(number)
    kind.free -= page.cells
    this.#empty.push(number)
  }

  /**
   * Finds a page to vacate: of a size and width that has a page's worth of free cells, and `spare` more or as many
   * again, the page with the fewest cells in use; or `NO_CELL`. From then on that page is filled last. So when each of its
   * cells has been `moved` at once, it is empty.
   * @param spare cells to leave free, so that the next calls do not need the page again at once
   */
  sparsest(spare: number): number {
    const open = this.#kinds.find(({ free, cells }) => free >= cells + Math.min(spare, cells))?.open
    if (open === undefined) return NO_CELL
    const used = (number: number) => this.#pages[number]?.used as number
    const page = [...open].reduce((least, number) => (used(number) < used(least) ? number : least))
    open.delete(page) // until its first cell is free
    return page
  }

  /** Moves a cell with its `length` fields to another page, in which there is room. @returns its address */
  moved(cell: number, length: number): number {
    const { size, stamps } = this.#page(cell)
    return this.#move(cell, this.#allocate(size, stamps, 0), length)
  }

  #move(cell: number, to: number, count: number): number {
    const from = this.#page(cell)
    for (let i = 0; i < count; i++) this.set(to, i, from.get(cell & CELL_MASK, i), i)
    this.free(cell)
    return to
  }

  #page(cell: number): Page {
    return this.#pages[cell >>> CELL_BITS] as Page
  }

  #kindOf(size: number, stamps: boolean): Kind {
    return this.#kinds[(CLASS[size] as number) + (stamps ? SIZES.length : 0)] as Kind
  }

  #allocate(size: number, stamps: boolean, below: number): number {
    const { value: open = this.#openPage(size, stamps) } = this.#kindOf(size, stamps).open.values().next()
    const number = open === NO_CELL ? this.#largerPage(size, stamps, below) : open
    if (number === NO_CELL) return NO_CELL
    const page = this.#pages[number] as Page
    const cell = page.take()
    const kind = this.#kindOf(page.size, stamps)
    kind.free--
    if (page.full) kind.open.delete(number)
    return (number << CELL_BITS) | cell
  }

  /** A page with room, of cells that are larger than `size`, and smaller than `below`. */
  #largerPage(size: number, stamps: boolean, below: number): number {
    for (const larger of SIZES) {
      if (larger <= size || larger >= below) continue
      const [number] = this.#kindOf(larger, stamps).open
      if (number !== undefined) return number
    }
    return NO_CELL
  }

  #openPage(size: number, stamps: boolean): number {
    const number = this.#empty.pop() ?? this.#pages.length
    if (number >= this.#maxPages) return NO_CELL
    if (number === this.#pages.length) this.#pages.push(new Page())
    const page = this.#pages[number] as Page
    const kind = this.#kindOf(size, stamps)
    page.open(size, stamps)
    kind.open.add(number)
    kind.free += page.cells
    kind.cells = page.cells
    return number
  }
}

import type { Carried } from './carried.js'
import type { Outage } from './outage.js'
import type { Entry } from './store.js'

/** How many entries may wait for a store, or for one of its nodes. Beyond that, the oldest sixteenth is dropped. */
const MAX_WAITING = 2 ** 16

/** Entries that wait to be carried over: a list for each outage, of the store or of one of its nodes, oldest first. */
export class Backlog {
  private readonly lists = new Map<Outage, Carried[]>()

  /**
   * @param outageOf finds the outage of the store, or of the cluster node that has the keys of these entries
   * @param onDropped called with the reason and the number of entries that will not be carried over
   */
  constructor(
    private readonly outageOf: (entries: readonly Entry[]) => Outage,
    private readonly onDropped: (error: unknown, entries: number) => void
  ) {}

  get isEmpty(): boolean {
    return this.lists.size === 0
  }

  get outages(): Outage[] {
    return [...this.lists.keys()]
  }

  get all(): Carried[] {
    return [...this.lists.values()].flat()
  }

  has(outage: Outage): boolean {
    return this.lists.has(outage)
  }

  /** The list itself, not a copy: the caller removes the entries that it carries over. */
  listOf(outage: Outage): Carried[] {
    return this.lists.get(outage) ?? []
  }

  add(outage: Outage, carried: readonly Carried[]): void {
    const list = this.listOf(outage)
    list.push(...carried)
    if (list.length > MAX_WAITING)
      this.reportDropped(list.splice(0, MAX_WAITING / 16), `more than ${MAX_WAITING} wait`)
    this.lists.set(outage, list)
  }

  delete(outage: Outage): void {
    this.lists.delete(outage)
  }

  /**
   * Moves the entries that wait for a node which was not known yet, or has lost its hash slots, to the nodes that have
   * the slots now.
   */
  move(outage: Outage): void {
    const list = this.listOf(outage)
    const nodeOf = ({ taken }: Carried) => this.outageOf([taken.entry])
    if (list[0] === undefined || nodeOf(list[0]) === outage) return
    this.delete(outage)
    for (const each of list) this.add(nodeOf(each), [each])
  }

  /** Drops every entry, and reports it. */
  dropAll(why: string): void {
    for (const list of this.lists.values()) this.reportDropped(list.splice(0), why)
    this.lists.clear()
  }

  private reportDropped(carried: readonly Carried[], why: string): void {
    const { length } = carried.filter(({ over }) => !over)
    if (length > 0) this.onDropped(new Error(why), length)
  }
}

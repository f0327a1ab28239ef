import type { Carried } from './carried.js'
import type { Outage } from './outage.js'
import type { Entry } from './store.js'

/** So many wait for a store, or for a node of it, at most; of more the oldest sixteenth goes. */
const MOST = 2 ** 16

/** What waits to be told to a store, or to each node of it: a list for each outage, the oldest first. */
export class Backlog {
  private readonly lists = new Map<Outage, Carried[]>()

  /**
   * @param outageOf of the store, or of that part of it which has these
   * @param onDropped hears why so many will not be told
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

  /** The list itself, from which its reader takes what it tells. */
  of(outage: Outage): Carried[] {
    return this.lists.get(outage) ?? []
  }

  add(outage: Outage, carried: readonly Carried[]): void {
    const list = this.of(outage)
    list.push(...carried)
    if (list.length > MOST) this.tellDropped(list.splice(0, MOST / 16), `more than ${MOST} wait`)
    this.lists.set(outage, list)
  }

  delete(outage: Outage): void {
    this.lists.delete(outage)
  }

  /** What waits for a node that was not known, or has lost its slots, waits for those that have them from now on. */
  move(outage: Outage): void {
    const list = this.of(outage)
    const nodeOf = ({ taken }: Carried) => this.outageOf([taken.entry])
    if (list[0] === undefined || nodeOf(list[0]) === outage) return
    this.delete(outage)
    for (const each of list) this.add(nodeOf(each), [each])
  }

  /** Drops all of it. */
  drop(why: string): void {
    for (const list of this.lists.values()) this.tellDropped(list, why)
  }

  private tellDropped(carried: readonly Carried[], why: string): void {
    const { length } = carried.filter(({ over }) => !over)
    if (length > 0) this.onDropped(new Error(why), length)
  }
}

import { factsOf } from '../limits/index.js'
import { type Entry, type Facts, PASSES, type Store, type Taken } from './store.js'
import { takenOf } from './taken.js'

/** The entries of one identity: their keys carry one hash tag, so one node has them all. */
interface Group {
  identity: string
  entries: Entry[]
  /** Their places among all entries. */
  places: number[]
}

/**
 * Redis Cluster: one script call for each identity, since each may live on another node.
 * All are looked at before any is counted. They are counted one after another, everywhere in the same order (Havender,
 * "Avoiding deadlock in multitasking systems", 1968), so that of many who want the same somebody is admitted; when one
 * refuses, those before it are given back.
 */
export class ClusterStore implements Store {
  readonly name = 'redis'

  /** @param store speaks to the nodes, for entries of one identity at a time */
  constructor(private readonly store: Store) {}

  async reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    const groups = groupsOf(entries)
    if (groups.length === 1) return this.store.reserve(entries, token)
    const seen = await Promise.all(groups.map(group => this.store.peek(group.entries)))
    if (seen.some(facts => facts[1] === 0)) return merge(entries, groups, seen)
    const found = [...seen]
    const taken: Taken[] = []
    try {
      for (const [i, group] of groups.entries()) {
        const facts = await this.store.reserve(group.entries, token)
        found[i] = facts
        if (facts[1] === 0) break
        taken.push(...takenOf(group.entries, facts))
      }
    } catch (error) {
      await this.refund(taken, token)
      throw error
    }
    if (found.every(facts => facts[1] === 1)) return merge(entries, groups, found)
    await this.refund(taken, token)
    return merge(entries, groups, found, 0)
  }

  async peek(entries: readonly Entry[]): Promise<Facts> {
    const groups = groupsOf(entries)
    return merge(entries, groups, await Promise.all(groups.map(group => this.store.peek(group.entries))))
  }

  async refund(taken: readonly Taken[], token: string): Promise<void> {
    const groups = groupsOf(taken.map(each => each.entry))
    await Promise.all(
      groups.map(group =>
        this.store.refund(
          group.places.map(place => taken[place] as Taken),
          token
        )
      )
    )
  }

  async renew(entries: readonly Entry[], token: string): Promise<boolean> {
    return (await this.each(entries, group => this.store.renew(group, token))).every(Boolean)
  }

  async clear(entries: readonly Entry[]): Promise<void> {
    await this.each(entries, group => this.store.clear(group))
  }

  async block(entries: readonly Entry[], ms: number): Promise<void> {
    await this.each(entries, group => this.store.block(group, ms))
  }

  async unblock(entries: readonly Entry[]): Promise<void> {
    await this.each(entries, group => this.store.unblock(group))
  }

  close(): void {}

  private each<T>(entries: readonly Entry[], call: (group: Entry[]) => T): Promise<Awaited<T>[]> {
    return Promise.all(groupsOf(entries).map(group => call(group.entries)))
  }
}

/** In the order in which everybody counts. */
function groupsOf(entries: readonly Entry[]): Group[] {
  const groups = new Map<string, Group>()
  for (const [place, entry] of entries.entries()) {
    const group = groups.get(entry.identity) ?? { identity: entry.identity, entries: [], places: [] }
    group.entries.push(entry)
    group.places.push(place)
    groups.set(entry.identity, group)
  }
  return [...groups.values()].sort((a, b) => (a.identity < b.identity ? -1 : 1))
}

/**
 * The facts of all groups as those of one store, in the order of the entries.
 * @param receipt stands for every receipt, when what was counted has been given back
 */
function merge(
  entries: readonly Entry[],
  groups: readonly Group[],
  found: readonly Facts[],
  receipt?: number
): number[] {
  const now = found[0]?.[0] ?? 0
  const parts: number[][] = entries.map(() => [])
  for (const [g, group] of groups.entries()) {
    const facts = found[g] as Facts
    let head = 2
    for (const [i, { spec }] of group.entries.entries()) {
      const part = facts.slice(head, head + factsOf(spec))
      const passes = part[0] === PASSES
      if (passes && receipt !== undefined) part[1] = receipt
      // Each node has its clock: a wait is by its own; the end of a period, for a refund, stays the same instant.
      if (passes && spec.kind === 'count' && part[1] !== 0)
        part[3] = (part[3] as number) + (facts[0] as number) - now
      parts[group.places[i] as number] = part
      head += part.length
    }
  }
  return [now, found.every(facts => facts[1] === 1) ? 1 : 0, ...parts.flat()]
}

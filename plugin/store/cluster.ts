import type { Awaitable } from '../awaitable.js'
import { ADMITTED } from './facts.js'
import { type Group, groupsOf, merge } from './groups.js'
import type { Reserved, Reserver } from './reserver.js'
import type { Entry, Settling } from './store.js'
import { takenOf } from './taken.js'

/** Decides on the entries of one identity at a time, on whichever node has its keys. */
export interface Nodes extends Reserver {
  /** The decision that `reserve` would make; changes nothing. */
  peek(entries: readonly Entry[]): Awaitable<Reserved>
}

/**
 * Redis Cluster, or shards behind a proxy: each script call is about one identity, since each may be on another node.
 * On a lost node, whatever stands in for it decides.
 *
 * A decision peeks at all identities before it counts any. It counts them one after another, in an order that is the
 * same in every process (Havender, "Avoiding deadlock in multitasking systems", 1968), so that of many requests that
 * want the same slots some are admitted. When an identity refuses, those counted before it are given back.
 */
export class Cluster implements Reserver {
  readonly store: Reserver['store']

  /** @param report called with the error when slots of a refusal could not be given back */
  constructor(
    private readonly nodes: Nodes,
    private readonly report: (error: unknown) => void
  ) {
    this.store = scattered(nodes.store)
  }

  async reserve(entries: readonly Entry[], token: string): Promise<Reserved> {
    const groups = groupsOf(entries)
    if (groups.length === 1) return this.nodes.reserve(entries, token)
    const found = await Promise.all(groups.map(group => this.nodes.peek(group.entries)))
    if (!found.every(admits)) return this.join(entries, groups, found)
    let counted = 0
    try {
      for (const [i, group] of groups.entries()) {
        const reserved = await this.nodes.reserve(group.entries, token)
        found[i] = reserved
        if (!admits(reserved)) break
        counted++
      }
    } finally {
      if (counted < groups.length) await this.giveBack(groups.slice(0, counted), found, token)
    }
    return this.join(entries, groups, found)
  }

  close(): Awaitable<void> {
    return this.nodes.close()
  }

  private async giveBack(groups: readonly Group[], found: readonly Reserved[], token: string): Promise<void> {
    const given = groups.map(async ({ entries }, i) => {
      const { facts, store, takeBack } = found[i] as Reserved
      takeBack?.()
      if (facts) await store.refund(takenOf(entries, facts), token)
    })
    await Promise.all(given.map(each => each.catch(this.report)))
  }

  private join(entries: readonly Entry[], groups: readonly Group[], found: readonly Reserved[]): Reserved {
    const all = found.map(each => each.facts)
    const facts = all.some(each => each !== null) ? merge(entries, groups, all) : null
    const uncounted = facts?.[1] === 1 && all.includes(null)
    const stores = new Map(groups.map(({ identity }, i) => [identity, (found[i] as Reserved).store]))
    // A part that a memory decided holds in this process alone, and a part that was admitted uncounted holds nowhere.
    // So it names the store of the whole decision.
    const other = uncounted ? 'none' : [...stores.values()].find(({ name }) => name !== this.store.name)?.name
    return { facts, store: settledBy(other ?? this.store.name, identity => stores.get(identity) as Settling) }
  }
}

function admits({ facts }: Reserved): boolean {
  return facts === null || facts[ADMITTED] === 1
}

/** The same store, asked about one identity at a time. */
function scattered(store: Reserver['store']): Reserver['store'] {
  const each = async (entries: readonly Entry[], call: (group: readonly Entry[]) => Awaitable<void>) => {
    await Promise.all(groupsOf(entries).map(group => call(group.entries)))
  }
  return {
    ...settledBy(store.name, () => store),
    peek: async entries => {
      const groups = groupsOf(entries)
      const found = await Promise.all(groups.map(group => store.peek(group.entries)))
      return merge(entries, groups, found)
    },
    clear: entries => each(entries, group => store.clear(group)),
    block: (entries, ms) => each(entries, group => store.block(group, ms)),
    unblock: entries => each(entries, group => store.unblock(group))
  }
}

/** Settles the slots of each identity in the store that has counted them. */
function settledBy(name: string, storeOf: (identity: string) => Settling): Settling {
  return {
    name,
    nameOf: identity => storeOf(identity).name,
    refund: async (taken, token) => {
      const identities = [...new Set(taken.map(({ entry }) => entry.identity))]
      const of = (identity: string) => taken.filter(({ entry }) => entry.identity === identity)
      await Promise.all(identities.map(identity => storeOf(identity).refund(of(identity), token)))
    },
    renew: (entry, token) => storeOf(entry.identity).renew(entry, token)
  }
}

import { type Clock, systemClock } from '../clock.js'
import { factsOf } from '../limits/index.js'
import { KnownRefusals } from './known-refusals.js'
import type { Reserved, Reserver } from './reserver.js'
import { type Entry, type Facts, PASSES, type Store, TICKS_PER_MS } from './store.js'
import { watched } from './watched.js'

interface RefusalCacheOptions {
  /** How long a refusal is known at most, in milliseconds. */
  ms: number
  clock?: Pick<Clock, 'monotonic'>
  /** Of how many identities refusals are known at most; beyond it the oldest tenth goes. */
  maxKeys?: number
}

/**
 * Refuses without a trip what the store behind it has just refused. What admits is always asked.
 * What ends a refusal before its time is heard of in this process alone (`watch`).
 */
export class RefusalCache {
  private readonly known: KnownRefusals
  private readonly clock: Pick<Clock, 'monotonic'>
  private endings = 0

  constructor({ ms, clock = systemClock, maxKeys = 10_000 }: RefusalCacheOptions) {
    this.known = new KnownRefusals(ms * TICKS_PER_MS, maxKeys)
    this.clock = clock
  }

  /** Of how many identities refusals are kept, with those whose time is over. */
  get size(): number {
    return this.known.size
  }

  /** The same reserver, which is not asked about what is known to be refused. */
  over(reserver: Reserver): Reserver {
    const cache = { ...reserver.store, name: 'cache' }
    return {
      store: reserver.store,
      reserve: (entries, token) => {
        const at = this.clock.monotonic()
        const facts = this.known.recall(entries, ticksOf(at))
        return facts ? { facts, store: cache, at } : this.ask(reserver, entries, token)
      },
      close: () => reserver.close()
    }
  }

  /** The same store, from which the end of a refusal is heard. Nothing of this process may go around it. */
  watch(store: Store): Store {
    return watched(store, entries => this.forget(entries))
  }

  private async ask(reserver: Reserver, entries: readonly Entry[], token: string): Promise<Reserved> {
    const { endings } = this
    const asked = this.now()
    const reserved = await reserver.reserve(entries, token)
    const { facts, store } = reserved
    // What stands in for the store knows less. And if a refusal was ended meanwhile, this answer may be older than that.
    const sure = store.name === reserver.store.name && endings === this.endings
    if (!sure || !facts) return reserved
    this.correct(entries, facts)
    if (facts[1] === 0) this.known.remember(entries, facts, asked, this.now())
    return reserved
  }

  /** What is only observed is asked about though it is known to refuse: it may have been ended elsewhere. */
  private correct(entries: readonly Entry[], facts: Facts): void {
    let head = 2
    for (const entry of entries) {
      if (entry.spec.observed && facts[head] === PASSES) this.known.drop(entry)
      head += factsOf(entry.spec)
    }
  }

  private forget(entries: readonly Entry[]): void {
    const counted = entries.filter(({ spec }) => spec.kind !== 'lock')
    if (counted.length > 0) this.endings++
    for (const entry of counted) this.known.drop(entry)
  }

  private now(): number {
    return ticksOf(this.clock.monotonic())
  }
}

function ticksOf(ms: number): number {
  return Math.floor(ms * TICKS_PER_MS)
}

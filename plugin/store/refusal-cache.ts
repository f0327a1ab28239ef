import { type Clock, systemClock } from '../clock.js'
import { isHeld } from '../limits/index.js'
import { ADMITTED, type Facts, FIRST, factsOf, PASSES } from './facts.js'
import { KnownRefusals } from './known-refusals.js'
import type { Reserved, Reserver } from './reserver.js'
import { type Entry, isInForce, type Store, TICKS_PER_MS } from './store.js'
import { watched } from './watched.js'

interface RefusalCacheOptions {
  /** How long a refusal is remembered at most, in milliseconds. */
  ms: number
  clock?: Pick<Clock, 'monotonic'>
  /** For how many identities refusals are remembered at most; beyond that the oldest tenth is dropped. */
  maxKeys?: number
}

/**
 * Refuses what the store has just refused, without a trip to the store. Before anything is admitted, the store is
 * asked. What ends a refusal before its time is noticed only in this app (`watch`).
 */
export class RefusalCache {
  private readonly known: KnownRefusals
  private readonly clock: Pick<Clock, 'monotonic'>
  private endings = 0

  constructor({ ms, clock = systemClock, maxKeys = 10_000 }: RefusalCacheOptions) {
    this.known = new KnownRefusals(ms * TICKS_PER_MS, maxKeys)
    this.clock = clock
  }

  /** For how many identities refusals are held, with those whose time is over. */
  get size(): number {
    return this.known.size
  }

  /** The same reserver behind the cache: it is not asked about what is known to be refused. */
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

  /** The same store, watched for what ends a refusal. All calls of this app have to go through it. */
  watch(store: Store): Store {
    return watched(store, entries => this.forget(entries))
  }

  private async ask(reserver: Reserver, entries: readonly Entry[], token: string): Promise<Reserved> {
    const { endings } = this
    const asked = this.now()
    const reserved = await reserver.reserve(entries, token)
    const { facts, store } = reserved
    // A stand-in for the store knows less. And if a refusal was ended meanwhile, this answer may be older than its end.
    const sure = store.name === reserver.store.name && endings === this.endings
    if (!sure || !facts) return reserved
    this.correct(entries, facts)
    if (facts[ADMITTED] === 0) this.known.remember(entries, facts, asked, this.now())
    // What a request admits under a rule that was replaced since, the rule in force may have refused: a value that is
    // counted passes.
    else this.forget(entries.filter(({ spec }) => !isInForce(spec)))
    return reserved
  }

  /**
   * Forgets the refusals of observed entries that pass by now: they may have been ended elsewhere. An observed entry is
   * asked about though its refusal is known.
   */
  private correct(entries: readonly Entry[], facts: Facts): void {
    let head = FIRST
    for (const entry of entries) {
      if (entry.spec.observed && facts[head] === PASSES) this.known.drop(entry)
      head += factsOf(entry.spec)
    }
  }

  private forget(entries: readonly Entry[]): void {
    const counted = entries.filter(({ spec }) => !isHeld(spec))
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

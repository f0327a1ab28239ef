import { type Clock, systemClock } from '../clock.js'
import { factsOf } from '../limits/index.js'
import { factsAt } from './reading.js'
import type { Reserved, Reserver } from './reserver.js'
import { type Entry, type Facts, PASSES, type Store, TICKS_PER_MS, UNKNOWN } from './store.js'
import { isLasting, isSame, refuses, resetsOf, type Told, toldOf, writeTold } from './told.js'
import { watched } from './watched.js'

export interface RefusalCacheOptions {
  /** How long a refusal is known at most, in milliseconds. */
  ms: number
  clock?: Pick<Clock, 'monotonic'>
  /** Of how many identities refusals are known at most; the oldest go first. */
  maxKeys?: number
}

/** A decision that refused. Times are ticks of this process's clock. */
interface Refusal {
  now: number
  answered: number
  /** Until then everything that refused goes on refusing, unless something is given back. */
  until: number
  passed: readonly Told[]
}

interface Known {
  told: Told
  refusal: Refusal
}

const NONE: readonly Known[] = []

/**
 * Refuses without a trip what the store behind it has just refused. What admits is always asked.
 *
 * An entry that is full stays full until its slot returns, which the store has told, or until something is given
 * back, cleared or unblocked. The latter is heard of in this process alone (`watch`).
 */
export class RefusalCache {
  // By identity, oldest first; one a spec.
  private readonly known = new Map<string, Known[]>()
  private readonly ticks: number
  private readonly clock: Pick<Clock, 'monotonic'>
  private readonly maxKeys: number
  private endings = 0

  constructor({ ms, clock = systemClock, maxKeys = 10_000 }: RefusalCacheOptions) {
    this.ticks = ms * TICKS_PER_MS
    this.clock = clock
    this.maxKeys = maxKeys
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
        const facts = this.recall(entries, ticksOf(at))
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
    // What stood in for the store knows less; and an answer may be older than an ending that came before it.
    const sure = store.name === reserver.store.name && endings === this.endings
    if (!sure || !facts) return reserved
    this.correct(entries, facts)
    if (facts[1] === 0) this.remember(entries, facts, asked)
    return reserved
  }

  /** What is only observed is asked about though it is known to refuse: it may have been ended elsewhere. */
  private correct(entries: readonly Entry[], facts: Facts): void {
    let head = 2
    for (const entry of entries) {
      if (entry.spec.observed && facts[head] === PASSES) this.drop(entry)
      head += factsOf(entry.spec)
    }
  }

  private remember(entries: readonly Entry[], facts: Facts, asked: number): void {
    // A lost node of a cluster may have been passed over: of what stands there nothing is known.
    const told = toldOf(entries, facts).filter(each => each.facts[0] !== UNKNOWN)
    // The entries of a rule are known together, or not at all.
    const fleeting = new Set(entries.filter(entry => !isLasting(entry)).map(({ spec }) => spec.rule))
    const lasts = ({ entry }: Told) => !fleeting.has(entry.spec.rule)
    const refusing = told.filter(refuses)
    const lasting = refusing.filter(lasts)
    // The waiting time is that of all which refuse: without one of them it would be too short.
    if (refusing.some(each => !each.entry.spec.observed && !lasts(each))) return
    const answered = this.now()
    // The store looked between the question and the answer: it counts from the question.
    const until = asked + Math.min(this.ticks, ...lasting.flatMap(resetsOf))
    if (until <= answered) return
    const passed = told.filter(each => !refuses(each) && lasts(each))
    const refusal = { now: facts[0] as number, answered, until, passed }
    for (const told of lasting) {
      const { identity, spec } = told.entry
      const others =
        this.known.get(identity)?.filter(each => each.told.entry.spec.series !== spec.series) ?? []
      this.known.delete(identity)
      this.known.set(identity, [...others, { told, refusal }])
    }
    for (const key of this.known.keys()) {
      if (this.known.size <= this.maxKeys) break
      this.known.delete(key)
    }
  }

  /** The decision as far as it is known, when that is enough to refuse. */
  private recall(entries: readonly Entry[], now: number): Facts | undefined {
    if (this.known.size === 0) return undefined
    const found: (Known | undefined)[] = new Array(entries.length)
    let first: Known | undefined
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as Entry
      found[i] = this.find(entry, now)
      if (!entry.spec.observed) first ??= found[i]
    }
    if (first === undefined) return undefined
    const facts = factsAt(first.refusal.now + now - first.refusal.answered, entries)
    facts[1] = 0
    let head = 2
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as Entry
      const known = found[i] ?? passedIn(found, entry)
      if (known) writeTold(facts, head, known.told, now - known.refusal.answered)
      else facts[head] = UNKNOWN
      head += factsOf(entry.spec)
    }
    return facts
  }

  private find(entry: Entry, now: number): Known | undefined {
    for (const known of this.known.get(entry.identity) ?? NONE)
      if (isSame(known.told.entry, entry)) return now < known.refusal.until ? known : undefined
    return undefined
  }

  private forget(entries: readonly Entry[]): void {
    const counted = entries.filter(({ spec }) => spec.kind !== 'lock')
    if (counted.length > 0) this.endings++
    for (const entry of counted) this.drop(entry)
  }

  private drop({ identity, spec }: Entry): void {
    const others = this.known.get(identity)?.filter(each => each.told.entry.spec.rule !== spec.rule)
    if (others?.length === 0) this.known.delete(identity)
    else if (others) this.known.set(identity, others)
  }

  private now(): number {
    return ticksOf(this.clock.monotonic())
  }
}

function ticksOf(ms: number): number {
  return Math.floor(ms * TICKS_PER_MS)
}

/** What passed beside one of the refusals found. */
function passedIn(found: readonly (Known | undefined)[], entry: Entry): Known | undefined {
  for (const known of found) {
    const told = known?.refusal.passed.find(each => isSame(each.entry, entry))
    if (known && told) return { told, refusal: known.refusal }
  }
}

import type { Reserved, Reserver } from './fallback.js'
import type { Clock } from './memory.js'
import {
  fill,
  isLasting,
  isObserved,
  isSame,
  type Part,
  partsOf,
  refuses,
  resetsOf,
  tell,
  unknown
} from './part.js'
import { type Entry, type Facts, type Store, TICKS_PER_MS } from './store.js'
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
  passed: readonly Part[]
}

interface Known {
  part: Part
  refusal: Refusal
}

/**
 * Refuses without a trip what the store behind it has just refused. What admits is always asked.
 *
 * An entry that is full stays full until its slot returns, which the store has told, or until something is given
 * back, cleared or unblocked. The latter is heard of in this process alone (`watch`).
 */
export class RefusalCache {
  // By identity, oldest first; one a rule.
  private readonly known = new Map<string, Known[]>()
  private readonly ticks: number
  private readonly clock: Pick<Clock, 'monotonic'>
  private readonly maxKeys: number
  private endings = 0

  constructor({ ms, clock = { monotonic: () => performance.now() }, maxKeys = 10_000 }: RefusalCacheOptions) {
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
        const parts = partsOf(entries)
        const facts = this.recall(parts)
        return facts ? { facts, store: cache } : this.ask(reserver, entries, parts, token)
      },
      close: () => reserver.close()
    }
  }

  /** The same store, from which the end of a refusal is heard. Nothing of this process may go around it. */
  watch(store: Store): Store {
    return watched(store, entries => this.forget(entries))
  }

  private async ask(
    reserver: Reserver,
    entries: readonly Entry[],
    parts: readonly Part[],
    token: string
  ): Promise<Reserved> {
    const { endings } = this
    const asked = this.now()
    const reserved = await reserver.reserve(entries, token)
    const { facts, store } = reserved
    // What stood in for the store knows less; and an answer may be older than an ending that came before it.
    const sure = store === reserver.store && endings === this.endings
    if (sure && facts?.[1] === 0) this.remember(parts, facts, asked)
    return reserved
  }

  private remember(parts: readonly Part[], facts: Facts, asked: number): void {
    fill(parts, facts)
    const refusing = parts.filter(refuses)
    // The waiting time is that of all which refuse: without one of them it would be too short.
    if (refusing.some(part => !isObserved(part) && !isLasting(part))) return
    const lasting = refusing.filter(isLasting)
    const answered = this.now()
    // The store looked between the question and the answer: it counts from the question.
    const until = asked + Math.min(this.ticks, ...lasting.flatMap(resetsOf))
    if (until <= answered) return
    const passed = parts.filter(part => !refuses(part) && isLasting(part))
    const refusal = { now: facts[0] as number, answered, until, passed }
    for (const part of lasting) {
      const { identity, rule } = part
      const others = this.known.get(identity)?.filter(each => each.part.rule !== rule) ?? []
      this.known.delete(identity)
      this.known.set(identity, [...others, { part, refusal }])
    }
    for (const key of this.known.keys()) {
      if (this.known.size <= this.maxKeys) break
      this.known.delete(key)
    }
  }

  /** The decision as far as it is known, when that is enough to refuse. */
  private recall(parts: readonly Part[]): Facts | undefined {
    if (this.known.size === 0) return undefined
    const now = this.now()
    const found = parts.map(part => this.find(part, now))
    const first = found.find((known, i) => known && !isObserved(parts[i] as Part))
    if (first === undefined) return undefined
    const facts = [first.refusal.now + now - first.refusal.answered, 0]
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i] as Part
      const known = found[i] ?? passedIn(found, part)
      if (known) tell(facts, known.part, now - known.refusal.answered)
      else unknown(facts, part)
    }
    return facts
  }

  private find(part: Part, now: number): Known | undefined {
    const known = this.known.get(part.identity)?.find(each => isSame(each.part, part))
    return known && now < known.refusal.until ? known : undefined
  }

  private forget(entries: readonly Entry[]): void {
    const counted = entries.filter(({ spec }) => spec.kind !== 'lock')
    if (counted.length > 0) this.endings++
    for (const { identity, spec } of counted) {
      const others = this.known.get(identity)?.filter(each => each.part.rule !== spec.rule)
      if (others?.length === 0) this.known.delete(identity)
      else if (others) this.known.set(identity, others)
    }
  }

  private now(): number {
    return Math.floor(this.clock.monotonic() * TICKS_PER_MS)
  }
}

/** What passed beside one of the refusals found. */
function passedIn(found: readonly (Known | undefined)[], part: Part): Known | undefined {
  for (const known of found) {
    const same = known?.refusal.passed.find(each => isSame(each, part))
    if (known && same) return { part: same, refusal: known.refusal }
  }
}

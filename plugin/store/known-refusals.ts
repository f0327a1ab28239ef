import { factsOf } from '../limits/index.js'
import { factsAt } from './reading.js'
import { type Entry, type Facts, UNKNOWN } from './store.js'
import { isLasting, isSame, type KnownRefusal, Told } from './told.js'

const NONE: readonly Told[] = []

/**
 * What is known to be refused. An entry that is full stays full until its slot returns, which the store has told, or until
 * something is given back, cleared or unblocked (`drop`). Times are ticks of this process's clock.
 */
export class KnownRefusals {
  // By identity, oldest first; one a spec.
  private readonly known = new Map<string, Told[]>()

  /**
   * @param ticks how long a refusal is known at most
   * @param maxKeys of how many identities refusals are known at most; beyond it the oldest tenth goes
   */
  constructor(
    private readonly ticks: number,
    private readonly maxKeys: number
  ) {}

  /** Of how many identities refusals are kept, with those whose time is over. */
  get size(): number {
    return this.known.size
  }

  /**
   * @param facts by which the store refused
   * @param asked when it was asked: it looked between that and its answer, and counts from the former
   */
  remember(entries: readonly Entry[], facts: Facts, asked: number, answered: number): void {
    // The entries of a rule are known together, or not at all.
    const fleeting = new Set(entries.filter(entry => !isLasting(entry)).map(({ spec }) => spec.rule))
    const told: (Told | undefined)[] = new Array(entries.length)
    const refusal: KnownRefusal = { facts, answered, until: asked + this.ticks, told }
    let head = 2
    for (const [i, { spec, identity, value }] of entries.entries()) {
      // The entry of a request holds its rule, which may be replaced before this is forgotten.
      const each = new Told({ spec, identity, value }, head, refusal)
      head += factsOf(spec)
      // It was not asked about, as where its node of a cluster is lost: nothing is known of it.
      if (each.state === UNKNOWN) continue
      const lasts = !fleeting.has(spec.rule)
      // The waiting time is that of all that refuse. Without one that may end any time, it would be wrong: so none is kept.
      if (!lasts && each.refuses && !spec.observed) return
      if (!lasts) continue
      told[i] = each
      if (each.refuses) refusal.until = Math.min(refusal.until, ...each.resets.map(reset => asked + reset))
    }
    if (refusal.until <= answered) return
    for (const each of told) if (each?.refuses) this.keep(each)
    if (this.known.size > this.maxKeys) this.dropOldest()
  }

  /** The decision as far as it is known, when that is enough to refuse. */
  recall(entries: readonly Entry[], now: number): Facts | undefined {
    if (this.known.size === 0) return undefined
    const found: (Told | undefined)[] = new Array(entries.length)
    let first: KnownRefusal | undefined
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as Entry
      found[i] = this.find(entry, now)
      if (!entry.spec.observed) first ??= found[i]?.refusal
    }
    if (first === undefined) return undefined
    const facts = factsAt((first.facts[0] as number) + now - first.answered, entries)
    facts[1] = 0
    let head = 2
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as Entry
      const told = found[i] ?? passedIn(found, entry)
      if (told) told.write(facts, head, now)
      else facts[head] = UNKNOWN
      head += factsOf(entry.spec)
    }
    return facts
  }

  /** Forgets what is known of an entry, and of all others of its rule. */
  drop({ identity, spec }: Entry): void {
    const others = this.known.get(identity)?.filter(({ entry }) => entry.spec.rule !== spec.rule)
    if (others?.length === 0) this.known.delete(identity)
    else if (others) this.known.set(identity, others)
  }

  /** A tenth together: to find its first entry, a `Map` passes over the places of those that it has lost. */
  private dropOldest(): void {
    const left = Math.ceil(this.maxKeys * 0.9)
    for (const identity of this.known.keys()) {
      if (this.known.size <= left) return
      this.known.delete(identity)
    }
  }

  private keep(told: Told): void {
    const { identity, spec } = told.entry
    const others = this.known.get(identity)?.filter(({ entry }) => entry.spec.series !== spec.series) ?? []
    this.known.delete(identity)
    this.known.set(identity, [...others, told])
  }

  private find(entry: Entry, now: number): Told | undefined {
    for (const told of this.known.get(entry.identity) ?? NONE)
      if (isSame(told.entry, entry)) return now < told.refusal.until ? told : undefined
    return undefined
  }
}

/** What passed beside one of the refusals found. */
function passedIn(found: readonly (Told | undefined)[], entry: Entry): Told | undefined {
  for (let i = 0; i < found.length; i++) {
    const all = found[i]?.refusal.told
    for (let k = 0; all !== undefined && k < all.length; k++) {
      const told = all[k]
      if (told !== undefined && !told.refuses && isSame(told.entry, entry)) return told
    }
  }
}

import { ADMITTED, type Facts, FIRST, factsOf, NOW, UNKNOWN } from './facts.js'
import { asksTheSame, isLasting, KnownEntry, type KnownRefusal } from './known-entry.js'
import { factsAt } from './reading.js'
import type { Entry } from './store.js'

const NONE: readonly KnownEntry[] = []

/**
 * Remembers refusals. An entry that is full stays full until its slot returns, at a time that the store has told, or
 * until something is given back, cleared or unblocked (`drop`). Times are ticks of this process's clock.
 */
export class KnownRefusals {
  // By identity, oldest first. Of each identity one for each series.
  private readonly known = new Map<string, KnownEntry[]>()

  /**
   * @param ticks how long a refusal is remembered at most
   * @param maxKeys for how many identities refusals are remembered at most; beyond that the oldest tenth is dropped
   */
  constructor(
    private readonly ticks: number,
    private readonly maxKeys: number
  ) {}

  /** For how many identities refusals are held, with those whose time is over. */
  get size(): number {
    return this.known.size
  }

  /**
   * @param facts by which the store refused
   * @param asked when the store was asked: it decided between this and `answered`, and the refusal counts from this
   * @param answered when the store answered
   */
  remember(entries: readonly Entry[], facts: Facts, asked: number, answered: number): void {
    // The entries of a rule are known together, or not at all.
    const fleeting = new Set(entries.filter(entry => !isLasting(entry)).map(({ spec }) => spec.rule))
    const known: (KnownEntry | undefined)[] = new Array(entries.length)
    const refusal: KnownRefusal = { facts, answered, until: asked + this.ticks, entries: known }
    let head = FIRST
    for (const [i, { spec, identity, value }] of entries.entries()) {
      // A copy, since a request's entry refers to its rule, which may be replaced before this is forgotten.
      const each = new KnownEntry({ spec, identity, value }, head, refusal)
      head += factsOf(spec)
      // The store was not asked about this entry, as when its node of a cluster is lost. Nothing is known of it.
      if (each.state === UNKNOWN) continue
      const lasts = !fleeting.has(spec.rule)
      // The waiting time is that of all entries that refuse. Without this one, whose refusal may end at any time, it
      // would be wrong. So nothing of this decision is remembered.
      if (!lasts && each.refuses && !spec.observed) return
      if (!lasts) continue
      known[i] = each
      if (each.refuses) refusal.until = Math.min(refusal.until, ...each.resets.map(reset => asked + reset))
    }
    if (refusal.until <= answered) return
    for (const each of known) if (each?.refuses) this.keep(each)
    if (this.known.size > this.maxKeys) this.dropOldest()
  }

  /** The facts as far as they are known, if that is enough to refuse; else undefined. */
  recall(entries: readonly Entry[], now: number): Facts | undefined {
    if (this.known.size === 0) return undefined
    const found: (KnownEntry | undefined)[] = new Array(entries.length)
    let first: KnownRefusal | undefined
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as Entry
      found[i] = this.find(entry, now)
      if (!entry.spec.observed) first ??= found[i]?.refusal
    }
    if (first === undefined) return undefined
    const facts = factsAt((first.facts[NOW] as number) + now - first.answered, entries)
    facts[ADMITTED] = 0
    let head = FIRST
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as Entry
      const known = found[i] ?? passedIn(found, entry)
      if (known) known.write(facts, head, now)
      else facts[head] = UNKNOWN
      head += factsOf(entry.spec)
    }
    return facts
  }

  /** Forgets what is known of an entry, and of all other entries of its rule for this identity. */
  drop({ identity, spec }: Entry): void {
    const others = this.known.get(identity)?.filter(({ entry }) => entry.spec.rule !== spec.rule)
    if (others?.length === 0) this.known.delete(identity)
    else if (others) this.known.set(identity, others)
  }

  /** Drops a tenth at once: to find its first entry, a `Map` passes over the places of all that were deleted. */
  private dropOldest(): void {
    const left = Math.ceil(this.maxKeys * 0.9)
    for (const identity of this.known.keys()) {
      if (this.known.size <= left) return
      this.known.delete(identity)
    }
  }

  private keep(known: KnownEntry): void {
    const { identity, spec } = known.entry
    const others = this.known.get(identity)?.filter(({ entry }) => entry.spec.series !== spec.series) ?? []
    this.known.delete(identity)
    this.known.set(identity, [...others, known])
  }

  private find(entry: Entry, now: number): KnownEntry | undefined {
    for (const known of this.known.get(entry.identity) ?? NONE)
      if (asksTheSame(known.entry, entry)) return now < known.refusal.until ? known : undefined
    return undefined
  }
}

/** What is known of an entry that passed, from a refusal of other entries that was found. */
function passedIn(found: readonly (KnownEntry | undefined)[], entry: Entry): KnownEntry | undefined {
  for (let i = 0; i < found.length; i++) {
    const all = found[i]?.refusal.entries
    for (let k = 0; all !== undefined && k < all.length; k++) {
      const known = all[k]
      if (known !== undefined && !known.refuses && asksTheSame(known.entry, entry)) return known
    }
  }
}

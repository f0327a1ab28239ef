import fc from 'fast-check'
import t from 'tap'
import { isHeld } from '../../plugin/limits/index.js'
import { BLOCKED, PASSES, UNKNOWN } from '../../plugin/store/facts.js'
import { RedisStore } from '../../plugin/store/redis.js'
import { RefusalCache } from '../../plugin/store/refusal-cache.js'
import { alone, type Reserver } from '../../plugin/store/reserver.js'
import { type Entry, type Store, TICKS_PER_MS } from '../../plugin/store/store.js'
import { startRedis } from '../helper/redis.js'
import {
  alike,
  type Command,
  command,
  entriesOf,
  everything,
  replace,
  askedOf as rulesOf,
  seeded
} from './history.js'
import { Model, type Slot } from './model.js'
import { type EntryFacts, type NamedFacts, named, takenOf, token } from './specs.js'
import { Time } from './time.js'

const START = '2026-03-28T20:00:00Z'
const SPAN_MS = 60_000

interface Reservation {
  token: string
  entries: readonly Entry[]
  slots: (Slot | undefined)[]
  told: NamedFacts
}

const keyOf = ({ identity, spec }: Entry) => `${identity}:${spec.rule}`
/** Each version of a rule is refused on its own. */
const askedOf = (entry: Entry) =>
  `${keyOf(entry)}:${entry.spec.name}:${JSON.stringify(entry.spec.limits)}:${entry.value ?? ''}`

/** Runs a history in two processes, one of which has the cache, and on the model. Throws where a promise is broken. */
class World {
  readonly model = new Model()
  readonly reservations: Reservation[] = []
  readonly seen = { redis: 0, cache: 0, stale: 0 }
  /** When Redis last refused an entry here, unless this process has ended that refusal since. */
  private readonly refused = new Map<string, number>()
  /** The refusals that the other process has ended since. */
  private readonly changed = new Set<string>()
  private readonly here: Reserver
  private last: readonly Entry[] = []

  constructor(
    private readonly there: Store,
    private readonly time: Time
  ) {
    this.model.now = time.ticks
    const cache = new RefusalCache({ ms: SPAN_MS, clock: time.clock, maxKeys: 8 })
    this.here = cache.over(alone(cache.watch(there)))
  }

  /** @param elsewhere whether the other process does it */
  async run(step: Command, elsewhere: boolean): Promise<void> {
    if (step.do === 'reserve') return this.reserve(entriesOf(step.asked))
    if (step.do === 'together') {
      for (const each of alike(step)) await this.reserve(entriesOf(each))
      return
    }
    // Asks again for what was refused last, alone or under more rules.
    if (step.do === 'peek') {
      const rules = this.last.map(({ spec }) => spec.rule)
      const more = elsewhere ? entriesOf(step.asked).filter(({ spec }) => !rules.includes(spec.rule)) : []
      return this.reserve(this.last.length > 0 ? [...more, ...this.last] : entriesOf(step.asked))
    }
    if (step.do === 'wait') return this.moveTo(this.time.ticks + Math.min(step.ticks, 4_000_000))
    if (step.do === 'edge') {
      const edges = this.model.edges(everything)
      return this.moveTo(Math.max((edges[step.pick % edges.length] ?? 0) + step.by, this.time.ticks))
    }
    if (step.do === 'replace') return replace(step)
    const store = elsewhere ? this.there : this.here.store
    if ('pick' in step) {
      const found = this.reservations[step.pick % this.reservations.length]
      if (found && step.do !== 'renew') await this.settle(step.do, found, store)
      return
    }
    const among = step.do === 'clear' && this.last.length > 0 ? this.last : entriesOf(step.asked)
    const entries = among.filter(entry => !isHeld(entry.spec))
    if (entries.length === 0) return
    this.end(entries, store)
    if (step.do === 'clear') {
      this.model.clear(entries)
      await store.clear(entries)
      return this.pass()
    }
    if (step.do === 'block') {
      this.model.block(entries, step.ms)
      return store.block(entries, step.ms)
    }
    this.model.unblock(entries)
    await store.unblock(entries)
  }

  private async reserve(entries: readonly Entry[]): Promise<void> {
    const holder = token()
    const reserved = await this.here.reserve(entries, holder)
    const told = named(entries, reserved.facts ?? [])
    if (reserved.store.name === 'cache') return this.checkCached(entries, told)
    this.seen.redis++
    const right = this.model.reserve(entries, holder)
    if (right.admitted !== told.admitted) throw new Error(`Redis says ${told.admitted}`)
    for (const [i, entry] of entries.entries()) {
      if (told.admitted || told.entries[i]?.state === PASSES) continue
      this.refused.set(askedOf(entry), this.time.ticks)
      this.changed.delete(askedOf(entry))
    }
    if (!told.admitted) this.last = entries
    else this.reservations.push({ token: holder, entries, slots: right.entries.map(each => each.slot), told })
  }

  private checkCached(entries: readonly Entry[], told: NamedFacts): void {
    this.seen.cache++
    if (told.admitted) throw new Error('the cache admits')
    const refusing = entries.filter((_, i) => ![PASSES, UNKNOWN].includes(told.entries[i]?.state ?? PASSES))
    if (refusing.every(({ spec }) => spec.observed)) throw new Error('nothing in force refuses')
    for (const [i, entry] of entries.entries()) {
      const found = told.entries[i] as EntryFacts
      if (found.state === UNKNOWN) continue
      if (isHeld(entry.spec) || entry.max) throw new Error(`${entry.spec.name} may not be told of`)
      if (found.state !== PASSES) this.checkRefused(entry, found)
    }
  }

  private checkRefused(entry: Entry, found: EntryFacts): void {
    const age = this.time.ticks - (this.refused.get(askedOf(entry)) ?? Number.NEGATIVE_INFINITY)
    if (age >= SPAN_MS * TICKS_PER_MS) throw new Error(`${entry.spec.name} refused ${age} ticks ago`)
    const now = this.model.peek([entry]).entries[0]
    if (found.state === BLOCKED) {
      if (this.changed.has(askedOf(entry))) return
      if (now?.blockedFor !== found.blockedFor) throw new Error(`${entry.spec.name} is blocked no more`)
      return
    }
    if (this.changed.has(askedOf(entry))) {
      if (now?.state === PASSES) this.seen.stale++
      return
    }
    const right = now?.limits ?? []
    if (now?.state === PASSES) throw new Error(`${entry.spec.name} would pass`)
    const { spec } = entry
    for (const [n, { used, reset }] of found.limits.entries()) {
      const max = spec.limits[n]?.max ?? 0
      if (used < max) continue
      const waits = right[n]?.reset ?? 0
      // A repeated send to a known value moves the time of the others, as does a send under the rule's other version.
      const moves = spec.kind === 'distinct' || spec.inForce.spec !== undefined
      if (moves ? reset > waits : reset !== waits)
        throw new Error(`${spec.name} says ${reset}, the model ${waits}`)
    }
  }

  private async settle(
    how: 'refund' | 'release',
    found: Reservation,
    store: Reserver['store']
  ): Promise<void> {
    const { entries, slots, told } = found
    const mine = (entry: Entry) => isHeld(entry.spec) === (how === 'release')
    const taken = takenOf(entries, told).filter(({ entry }) => mine(entry))
    if (taken.length === 0) return
    this.end(
      taken.map(({ entry }) => entry),
      store
    )
    for (const [i, entry] of entries.entries()) {
      const slot = slots[i]
      if (slot && mine(entry)) this.model.refund(entry, slot, found.token)
    }
    await store.refund(taken, found.token)
    if (how === 'refund') this.pass()
  }

  private end(entries: readonly Entry[], store: Reserver['store']): void {
    for (const key of entries.map(keyOf))
      for (const asked of this.refused.keys()) {
        if (!asked.startsWith(`${key}:`)) continue
        if (store === this.there) this.changed.add(asked)
        else this.refused.delete(asked)
      }
  }

  // Redis cannot run two scripts in one tick, so slots given back lie in the past, and receipts of counts as well.
  private pass(): void {
    const slots = this.reservations.flatMap(each => each.slots.map(slot => slot?.at ?? 0))
    this.moveTo(Math.max(this.time.ticks, this.model.latest(), ...slots) + 1_000)
  }

  private moveTo(ticks: number): void {
    this.time.set(ticks)
    this.model.now = ticks
  }
}

t.test(
  'random histories: a refusal by the cache was true within its time, all else is decided as without it',
  async t => {
    const { client, clock } = await startRedis(t, { clock: true })
    let runs = 0
    const total = { redis: 0, cache: 0, stale: 0 }
    const options = seeded(t, 30)
    const again = fc.record({
      do: fc.constantFrom('peek' as const, 'peek' as const, 'peek' as const, 'clear' as const),
      asked: rulesOf(3)
    })
    const step = fc.tuple(
      fc.oneof({ weight: 2, arbitrary: command }, { weight: 1, arbitrary: again }),
      fc.boolean()
    )
    const histories = fc.array(step, { minLength: 1, maxLength: 300, size: 'max' })
    await fc.assert(
      fc.asyncProperty(histories, async history => {
        const world = new World(new RedisStore(client, `run${runs++}:`), new Time(START, clock))
        try {
          for (const [step, elsewhere] of history) await world.run(step, elsewhere)
        } finally {
          for (const by of ['redis', 'cache', 'stale'] as const) total[by] += world.seen[by]
          await client.flushall()
        }
      }),
      options
    )
    t.comment(JSON.stringify(total))
    t.ok(
      total.redis > 20 * options.numRuns && total.cache > 5 * options.numRuns,
      'Redis and the cache both decide'
    )
    t.ok(total.stale > 0, 'some refusals were ended elsewhere meanwhile')
  }
)

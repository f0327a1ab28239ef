import fc from 'fast-check'
import t from 'tap'
import { isHeld } from '../../plugin/limits/index.js'
import { BLOCKED } from '../../plugin/store/facts.js'
import { MemoryStore } from '../../plugin/store/memory.js'
import { RedisStore } from '../../plugin/store/redis.js'
import { isSend } from '../../plugin/store/stand-in.js'
import type { Entry, Store, Taken } from '../../plugin/store/store.js'
import { startRedis } from '../helper/redis.js'
import { alike, type Command, command, entriesOf, everything, replace, seeded } from './history.js'
import { Model, type ModelFacts, type Slot } from './model.js'
import { type NamedFacts, named, takenOf, token } from './specs.js'
import { Time } from './time.js'

const START = '2026-03-28T20:00:00Z'

/** A reservation, as the model and each store know it. */
interface Reservation {
  token: string
  entries: readonly Entry[]
  slots: (Slot | undefined)[]
  /** What each store has counted. */
  taken: Taken[][]
}

/** Runs the same history on the model and on the stores. Throws where they differ. */
class World {
  readonly model = new Model()
  readonly reservations: Reservation[] = []
  steps = 0
  admitted = 0
  refused = 0
  carried = 0
  /** When something was last given back or cleared. */
  private passed = 0

  constructor(
    readonly stores: readonly Store[],
    readonly time: Time
  ) {
    this.model.now = time.ticks
    this.passed = time.ticks
  }

  async run(step: Command): Promise<void> {
    this.steps++
    if (step.do === 'reserve') return this.reserve([entriesOf(step.asked)])
    if (step.do === 'together') return this.reserve(alike(step).map(entriesOf))
    if (step.do === 'peek') return this.peek(entriesOf(step.asked))
    if (step.do === 'wait') return this.moveTo(this.time.ticks + step.ticks)
    if (step.do === 'edge') {
      const edges = this.model.edges(everything)
      const edge = (edges[step.pick % edges.length] ?? 0) + step.by
      return this.moveTo(Math.max(edge, this.time.ticks))
    }
    if (step.do === 'replace') return replace(step)
    if ('pick' in step) {
      const found = this.reservations[step.pick % this.reservations.length]
      return found && this.settle(step.do, found)
    }
    const entries = entriesOf(step.asked)
    if (step.do === 'count') return this.count(entries, step.ticks)
    if (step.do === 'clear') {
      this.model.clear(entries)
      await Promise.all(this.stores.map(store => store.clear(entries)))
      return this.pass()
    }
    const counted = entries.filter(entry => !isHeld(entry.spec))
    if (counted.length === 0) return
    if (step.do === 'block') {
      this.model.block(counted, step.ms)
      await Promise.all(this.stores.map(store => store.block(counted, step.ms)))
    } else {
      this.model.unblock(counted)
      await Promise.all(this.stores.map(store => store.unblock(counted)))
    }
  }

  async peek(entries: readonly Entry[]): Promise<void> {
    const right = this.model.peek(entries)
    for (const store of this.stores) same(store, right, named(entries, await store.peek(entries)))
  }

  /** Reserves for all requests at the same time. */
  private async reserve(requests: readonly Entry[][]): Promise<void> {
    for (const entries of requests) await this.peek(entries)
    const asked = requests.map(entries => ({ entries, holder: token() }))
    const right = asked.map(({ entries, holder }) => this.model.reserve(entries, holder))
    const told = await Promise.all(
      this.stores.map(store =>
        Promise.all(
          asked.map(async ({ entries, holder }) => named(entries, await store.reserve(entries, holder)))
        )
      )
    )
    for (const [i, { entries, holder }] of asked.entries()) {
      const facts = right[i] as ModelFacts
      const found = told.map(each => each[i] as NamedFacts)
      for (const [s, store] of this.stores.entries()) same(store, facts, found[s] as NamedFacts)
      if (!facts.admitted) this.refused++
      else {
        this.admitted++
        const slots = facts.entries.map(each => each.slot)
        const taken = found.map(each => takenOf(entries, each))
        this.reservations.push({ token: holder, entries, slots, taken })
      }
    }
    for (const entries of requests) await this.peek(entries)
  }

  /** Counts what was admitted elsewhere: not before what was given back, and not while Redis blocks it. */
  private async count(entries: readonly Entry[], ticks: number): Promise<void> {
    const ago = Math.min(ticks, this.time.ticks - this.passed)
    const { entries: found } = this.model.peek(entries)
    for (const [i, entry] of entries.entries()) {
      const { spec } = entry
      if (!isSend(entry) || found[i]?.state === BLOCKED) continue
      const ends = spec.kind === 'count' ? this.model.endOf(spec, ago) : 0
      const slot = this.model.count(entry, ago)
      const taken: Taken[][] = []
      for (const store of this.stores) {
        const receipt = await store.count(entry, ago, ends)
        if ((receipt !== 0) !== (slot !== undefined)) throw new Error(`${store.name} counted: ${receipt}`)
        taken.push([{ entry, receipt, ends }])
      }
      if (!slot) continue
      this.carried++
      this.reservations.push({ token: '', entries: [entry], slots: [slot], taken })
    }
    await this.peek(entries)
  }

  private async settle(
    how: 'refund' | 'release' | 'renew',
    { token, entries, slots, taken }: Reservation
  ): Promise<void> {
    const ofKind = (entry: Entry) => isHeld(entry.spec) === (how !== 'refund')
    const mine = entries.filter((entry, i) => slots[i] !== undefined && ofKind(entry))
    if (mine.length === 0) return
    if (how === 'renew') {
      for (const entry of mine) {
        const right = this.model.renew(entry, token)
        for (const store of this.stores) {
          const renewed = await store.renew(entry, token)
          if (renewed !== right) throw new Error(`${store.name} renewed: ${renewed}`)
        }
      }
      return
    }
    for (const [i, entry] of entries.entries()) {
      const slot = slots[i]
      if (slot && ofKind(entry)) this.model.refund(entry, slot, token)
    }
    for (const [i, store] of this.stores.entries()) {
      const given = taken[i]?.filter(({ entry }) => ofKind(entry)) ?? []
      await store.refund(given, token)
    }
    if (how === 'refund') this.pass()
  }

  // Redis cannot run two scripts in one tick, so slots given back lie in the past, and receipts of counts as well.
  private pass(): void {
    this.moveTo(
      Math.max(
        this.time.ticks,
        this.model.latest(),
        ...this.reservations.flatMap(({ slots }) => slots.map(slot => slot?.at ?? 0))
      ) + 1_000
    )
    this.passed = this.time.ticks
  }

  private moveTo(ticks: number): void {
    this.time.set(ticks)
    this.model.now = ticks
  }
}

function same(store: Store, right: ModelFacts, found: NamedFacts): void {
  const told = (facts: NamedFacts | ModelFacts) =>
    JSON.stringify({
      now: facts.now,
      admitted: facts.admitted,
      entries: facts.entries.map(each => ({
        state: each.state,
        blockedFor: each.blockedFor,
        counted: 'slot' in each ? each.slot !== undefined : each.receipt !== 0,
        limits: each.limits
      }))
    })
  if (told(found) !== told(right))
    throw new Error(`${store.name} says ${told(found)}\nthe model says ${told(right)}`)
}

t.test('random histories: the model, memory and Redis agree', async t => {
  const { client, clock } = await startRedis(t, { clock: true })
  let runs = 0
  const total = { steps: 0, admitted: 0, refused: 0, carried: 0 }
  const options = seeded(t, 30)
  const histories = fc.array(command, { minLength: 1, maxLength: 300, size: 'max' })
  await fc.assert(
    fc.asyncProperty(histories, async history => {
      const time = new Time(START, clock)
      const memory = new MemoryStore({ clock: time.clock, maxKeys: 1_000 })
      const world = new World([memory, new RedisStore(client, `run${runs++}:`)], time)
      try {
        for (const step of history) await world.run(step)
        await world.peek(everything)
      } finally {
        memory.close()
        total.steps += world.steps
        total.admitted += world.admitted
        total.refused += world.refused
        total.carried += world.carried
        await client.flushall()
      }
    }),
    options
  )
  t.comment(JSON.stringify(total))
  t.ok(total.steps > 50 * options.numRuns, 'long histories')
  t.ok(
    total.admitted > total.steps / 20 && total.refused > total.steps / 20,
    'many admitted and many refused'
  )
})

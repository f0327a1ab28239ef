import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { FastifyReply, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import type { Decision, DecisionEvent, Rule, SendLimitOptions } from '../../plugin/index.js'
import { until } from '../helper/until.js'
import { type Opened, type Place, places } from './settlement/places.js'

const MINUTE = 60_000
const HOUR = 3_600_000
const LOCK = 5 * MINUTE
const key = { value: 'query.id' }
const rules: Rule[] = [
  {
    name: 'log',
    key,
    limits: [
      { max: 2, window: MINUTE },
      { max: 4, window: 10 * MINUTE }
    ]
  },
  { name: 'hour', key, limits: [{ max: 5, per: 'hour' }] },
  // Much longer than a test, so that it is not renewed.
  { name: 'flight', key, lock: LOCK }
]

/** What a request does once it is admitted, and in the end. */
type Deed = 'refund' | 'keep' | 'end'
interface Visit {
  /** Whether it asks for the lock as well. */
  locks: boolean
  deeds: Deed[]
}

/** The limits of one identity, as a plain list of who is counted since when. */
class Model {
  now: number
  readonly counted = new Map<number, number>()
  lock: { holder: number; ends: number } | undefined

  constructor(start: number) {
    this.now = start
  }

  /** How many are counted in each limit: two windows and the hour. */
  used(): number[] {
    const all = [...this.counted.values()]
    const since = (span: number) => all.filter(at => at > this.now - span).length
    return [since(MINUTE), since(10 * MINUTE), all.filter(at => hourOf(at) === hourOf(this.now)).length]
  }

  locked(): boolean {
    return this.lock !== undefined && this.lock.ends > this.now
  }

  reserve(visitor: number, locks: boolean): boolean {
    const [minute = 0, minutes = 0, hour = 0] = this.used()
    if (minute >= 2 || minutes >= 4 || hour >= 5 || (locks && this.locked())) return false
    this.counted.set(visitor, this.now)
    if (locks) this.lock = { holder: visitor, ends: this.now + LOCK }
    return true
  }

  release(visitor: number): void {
    if (this.lock?.holder === visitor) this.lock = undefined
  }
}

function hourOf(ms: number): number {
  return Math.floor(ms / HOUR)
}

const visitShape = {
  locks: fc.boolean(),
  deeds: fc.array(fc.constantFrom<Deed>('refund', 'keep', 'end'), { minLength: 1, maxLength: 4 })
}
// Steps that end right at an edge, beside it, or far away.
const step = fc.oneof(
  fc.constantFrom(0, 1, MINUTE - 1, MINUTE, MINUTE + 1, LOCK, 10 * MINUTE, HOUR),
  fc.integer({ min: 0, max: 2 * MINUTE })
)
const history = fc.record({
  scheduler: fc.scheduler(),
  visits: fc.array(fc.record(visitShape), { minLength: 2, maxLength: 10 }),
  steps: fc.array(step, { maxLength: 8 })
})

type History = typeof history extends fc.Arbitrary<infer T> ? T : never

interface Stage extends Opened {
  now: () => number
  /** Moves on to a new instant, since no two stamps share one. */
  tick: () => number
  advance: (ms: number) => void
}
let somebody = 0

async function stage(t: Test, place: Place, options: Partial<SendLimitOptions> = {}): Promise<Stage> {
  const { app, used } = await place.open(t, rules, options)
  // The clocks begin at the start of an hour: at noon.
  let now = 12 * HOUR
  const advance = (ms: number) => {
    now += ms
    place.advance(ms)
  }
  const tick = () => {
    advance(1)
    return now
  }
  return { app, used, now: () => now, tick, advance }
}

/** Runs visitors who reserve, settle and end, and steps of time, in the order of the scheduler. */
async function explore(stage: Stage, { scheduler, visits, steps }: History) {
  const { app, used } = stage
  const id = `somebody ${++somebody}`
  const model = new Model(stage.now())
  const check = async (what: string) => {
    const seen = await used({ log: id, hour: id, flight: id })
    assert.deepEqual(seen, [...model.used(), Number(model.locked())], what)
    assert.ok((seen[0] ?? 0) <= 2 && (seen[1] ?? 0) <= 4 && (seen[2] ?? 0) <= 5, 'never more than max')
  }
  const turn = (what: string) => scheduler.schedule(Promise.resolve(), what)
  // One at a time uses the store and the model, in the order of the scheduler.
  let last = Promise.resolve()
  const alone = (what: string, act: () => Promise<void>) => {
    last = last.then(act).then(() => check(what))
    return last
  }
  const visitors = visits.map(async ({ locks, deeds }, n) => {
    let decision: Decision | undefined
    await turn(`${n} reserves`)
    await alone(`${n} reserves`, async () => {
      model.now = stage.tick()
      const expected = model.reserve(n, locks)
      decision = await app.limit.reserve({ log: id, hour: id, ...(locks && { flight: id }) })
      assert.equal(decision.allowed, expected, `${n} is admitted`)
    })
    let settled = !decision?.allowed
    for (const deed of [...deeds, 'end' as const]) {
      await turn(`${n}: ${deed}`)
      await alone(`${n}: ${deed}`, async () => {
        if (deed === 'refund') {
          if (!settled) model.counted.delete(n)
          await decision?.refund()
        } else if (deed === 'keep') decision?.keep()
        else {
          model.release(n)
          decision?.end()
          await until(
            async () => (await used({ flight: id }))[0] === Number(model.locked()),
            'the lock of the model'
          )
        }
        settled = true
      })
    }
  })
  const time = steps.map(async ms => {
    await turn(`${ms} ms pass`)
    await alone(`${ms} ms pass`, async () => {
      stage.advance(ms)
      model.now = stage.now()
    })
  })
  await scheduler.waitFor(Promise.all([...visitors, ...time]))
  await check('in the end')
}

interface Guest extends Visit {
  status: number
}
const party = fc.record({
  scheduler: fc.scheduler(),
  guests: fc.array(fc.record({ ...visitShape, status: fc.constantFrom(202, 502) }), {
    minLength: 2,
    maxLength: 8
  }),
  steps: fc.array(step, { maxLength: 6 })
})

type Party = typeof party extends fc.Arbitrary<infer T> ? T : never

/** What the route below calls in its run. */
interface Run {
  decided(n: number, event: DecisionEvent): void
  handle(n: number, reply: FastifyReply): Promise<void>
}

/** The same through a route, with requests whose handlers settle, or leave that to their end. */
async function exploreRoute(stage: Stage, runs: Map<string, Run>, { scheduler, guests, steps }: Party) {
  const { app, used } = stage
  const id = `somebody ${++somebody}`
  const model = new Model(stage.now())
  const inside = new Map<number, number>()
  const turn = (what: string) => scheduler.schedule(Promise.resolve(), what)
  const wrong: unknown[] = []
  const run: Run = {
    decided(n, { allowed, refusal }) {
      model.now = stage.now()
      // A lock is released after its handler; the list below knows only the handlers.
      if (refusal === 'in-flight') return
      if (model.reserve(n, false) !== allowed) wrong.push(`${n} was ${allowed ? 'admitted' : 'refused'}`)
      if (!allowed || !guests[n]?.locks) return
      for (const [other, since] of inside) if (since > model.now - LOCK) wrong.push(`${n} beside ${other}`)
      inside.set(n, model.now)
    },
    async handle(n, reply) {
      const { deeds, status } = guests[n] as Guest
      let settled = false
      for (const deed of deeds) {
        await turn(`${n}: ${deed}`)
        if (deed === 'end') break
        if (deed === 'refund' && !settled) model.counted.delete(n)
        if (deed === 'refund') void reply.limit?.refund()
        else reply.limit?.keep()
        settled = true
      }
      await turn(`${n} answers ${status}`)
      if (status === 502 && !settled) model.counted.delete(n)
      inside.delete(n)
      reply.code(status).send({})
    }
  }
  runs.set(id, run)
  const requests = guests.map(async ({ locks }, n) => {
    await turn(`${n} comes`)
    await app.inject({ url: locks ? '/locked' : '/send', query: { id, n: `${n}` } })
  })
  const time = steps.map(async ms => {
    await turn(`${ms} ms pass`)
    stage.advance(ms)
  })
  await scheduler.waitFor(Promise.all([...requests, ...time]))
  assert.deepEqual(wrong, [])
  await until(async () => (await used({ flight: id }))[0] === 0, 'a free lock')
  model.now = stage.now()
  assert.deepEqual(await used({ log: id, hour: id }), model.used(), 'in the end')
  runs.delete(id)
}

t.test('reserve, refund, keep, end and time in any order count as in the model', async t => {
  for (const place of await places(t)) {
    t.test(place.store, async t => {
      const on = await stage(t, place)
      const numRuns = place.store === 'memory' ? 300 : 25
      await fc.assert(
        fc.asyncProperty(history, each => explore(on, each)),
        { numRuns }
      )
    })
  }
})

t.test('handlers of several requests and time in any order count as in the model', async t => {
  const [memory] = await places(t)
  assert.ok(memory)
  const runs = new Map<string, Run>()
  const of = (request: FastifyRequest | null) => request?.query as { id: string; n: string }
  const on = await stage(t, memory, {
    onDecision: (event, request) => runs.get(of(request).id)?.decided(Number(of(request).n), event)
  })
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    await runs.get(of(request).id)?.handle(Number(of(request).n), reply)
    return reply
  }
  // Right before the decision.
  on.app.addHook('preHandler', (_request, _reply, done) => {
    on.tick()
    done()
  })
  on.app.get('/send', { config: { limit: ['log', 'hour'] } }, handler)
  on.app.get('/locked', { config: { limit: ['log', 'hour', 'flight'] } }, handler)
  await on.app.ready()
  await fc.assert(
    fc.asyncProperty(party, each => exploreRoute(on, runs, each)),
    { numRuns: 200 }
  )
})

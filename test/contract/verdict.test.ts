import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { systemClock } from '../../plugin/clock.js'
import type { CompiledRule } from '../../plugin/compiled-rule.js'
import type { Decision } from '../../plugin/decision.js'
import type { Source } from '../../plugin/identity/path.js'
import { Limiter } from '../../plugin/limiter.js'
import { isHeld } from '../../plugin/limits/index.js'
import type { MaxFunction, Rule } from '../../plugin/rule.js'
import { RuleCompiler } from '../../plugin/rules.js'
import { MemoryStore } from '../../plugin/store/memory.js'
import { Receipts } from '../../plugin/store/receipts.js'
import { RedisStore } from '../../plugin/store/redis.js'
import { alone } from '../../plugin/store/reserver.js'
import type { Entry, Store } from '../../plugin/store/store.js'
import type { Verdict } from '../../plugin/verdict.js'
import { startRedis } from '../helper/redis.js'
import { seeded } from './history.js'
import { Model, type ModelFacts, type Slot } from './model.js'
import { type ModelRule, verdictOf } from './model-verdict.js'
import { Time } from './time.js'

const key = { value: 'body.who' }
const paying = ((request: { max: number }) => request.max) as unknown as MaxFunction
const policy: Rule[] = [
  { name: 'content', key, limits: [{ max: 2, window: '60s' }] },
  {
    name: 'mail',
    key,
    limits: [
      { max: 1, window: '60s' },
      { max: 5, window: '1h' },
      { max: 10, window: '24h' }
    ]
  },
  {
    name: 'account',
    key,
    limits: [
      { max: 6, per: 'day', timeZone: 'Asia/Shanghai' },
      { max: 9, per: 'month' },
      { max: 3, window: '10s' }
    ]
  },
  // Longer than a test, so that no lock is renewed meanwhile.
  { name: 'in-flight', key, lock: '10m' },
  {
    name: 'watched',
    key,
    mode: 'observe',
    limits: [
      { max: 1, window: '5m' },
      { max: 2, per: 'hour' }
    ]
  },
  { name: 'paying', key, limits: [{ max: paying, ceiling: 4, window: '60s' }] },
  {
    name: 'recipients',
    key,
    distinct: { value: 'body.to' },
    limits: [
      { max: 2, window: '60s' },
      { max: 3, window: '10m' }
    ]
  },
  { name: 'wrong-code', key, counts: 'failures', limits: [{ max: 3, window: '10m' }] },
  { name: 'flood', key: { value: 'query.who' }, counts: 'attempts', limits: [{ max: 4, window: '60s' }] }
]

interface Request {
  keys: Record<string, string | [who: string, to: string]>
  max: number
}
const who = fc.constantFrom('a', 'b')
const request: fc.Arbitrary<Request> = fc.record({
  keys: fc
    .subarray(
      policy.map(rule => rule.name),
      { minLength: 1, maxLength: 6 }
    )
    .chain(names =>
      fc.tuple(
        ...names.map(name =>
          fc.tuple(
            fc.constant(name),
            name === 'recipients' ? fc.tuple(who, fc.constantFrom('1', '2', '3', '4', '5')) : who
          )
        )
      )
    )
    .map(pairs => Object.fromEntries(pairs)),
  max: fc.nat(4)
})
const pick = fc.nat(1_000_000)
const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ do: fc.constant('decide' as const), request }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('peek' as const), request }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      pick,
      outcome: fc.constantFrom(200, 404, 503, null)
    })
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('refund' as const), pick }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('refund by receipt' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('keep' as const), pick }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('end' as const), pick }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('block' as const), request, ms: fc.constantFrom(0, 30_000) })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('unblock' as const), request }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear' as const), request }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 90_000 }) })
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 90_000_000 }) })
  }
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** A decision, and the rules of which the model may still give back slots. */
interface Made {
  decisions: Decision[]
  token: string
  rules: ModelRule[]
  facts: ModelFacts
  open: Set<string>
  locked: boolean
}

class World {
  readonly model = new Model()
  readonly made: Made[] = []
  readonly limiters: Limiter[]
  readonly rules = new Map<string, CompiledRule>()

  constructor(
    readonly stores: readonly Store[],
    readonly time: Time,
    fail: (error: unknown) => void
  ) {
    const compiler = new RuleCompiler({
      secret: '0123456789abcdef',
      digest: 'md5',
      region: 'CN',
      ipv4Prefix: 32,
      ipv6Prefix: 64
    })
    for (const rule of policy) this.rules.set(rule.name, compiler.compile(rule, rule.name, ''))
    this.limiters = stores.map(store => {
      const receipts = new Receipts({ secret: '0123456789abcdef', scope: '', foreign: '' })
      const limiter = new Limiter(alone(store), receipts, 1_000, systemClock, fail)
      limiter.rules = this.rules
      return limiter
    })
    this.model.now = time.ticks
  }

  async run(step: Step): Promise<void> {
    // Everything happens at an instant of its own.
    this.time.advance(step.do === 'wait' ? step.ms * 100 : 101)
    this.model.now = this.time.ticks
    if (step.do === 'wait') return
    if ('request' in step) return this.ask(step)
    const made = this.made[step.pick % this.made.length]
    if (!made) return
    if (step.do === 'refund by receipt') await this.refund(made)
    else await this.settle(step, made)
  }

  private async ask(step: Extract<Step, { request: Request }>): Promise<void> {
    const { model } = this
    const rules = this.asked(step.request)
    const entries = rules.flatMap(rule => rule.entries)
    const counted = entries.filter(entry => !isHeld(entry.spec))
    const { keys } = step.request
    const source = step.request as unknown as Source
    if (step.do === 'decide') {
      const token = String(this.made.length)
      const facts = model.reserve(entries, token)
      const right = verdictOf(model, rules, facts)
      const decisions: Decision[] = []
      for (const limiter of this.limiters) decisions.push(await limiter.decideFor(keys, source))
      if (facts.admitted)
        this.made.push({
          decisions,
          token,
          rules,
          facts,
          locked: true,
          open: new Set(rules.map(({ name }) => name))
        })
      for (const decision of decisions) same(decision, right)
    } else if (step.do === 'peek') {
      const right = verdictOf(model, rules, model.peek(entries))
      for (const limiter of this.limiters) same(await limiter.peek(keys, source), right)
    } else if (step.do === 'clear') {
      model.clear(entries)
      for (const limiter of this.limiters) await limiter.clear(keys)
    } else if (counted.length > 0) {
      if (step.do === 'block') model.block(counted, step.ms)
      else model.unblock(counted)
      const { 'in-flight': _lock, ...others } = keys
      for (const limiter of this.limiters)
        await (step.do === 'block' ? limiter.block(others, step.ms) : limiter.unblock(keys))
    }
  }

  private asked({ keys, max }: Request): ModelRule[] {
    return Object.entries(keys).map(([name, values]) => {
      const [who = '', to] = [values].flat()
      const { specs, observed } = this.rules.get(name) as CompiledRule
      const own = { ...(name === 'paying' && { max: [max] }), ...(to && { value: Number(to) }) }
      return { name, observed, entries: specs.map(spec => ({ spec, identity: who, ...own })) }
    })
  }

  private async settle(
    step: Exclude<Step, { request: Request } | { ms: number } | { do: 'refund by receipt' }>,
    made: Made
  ): Promise<void> {
    const kept = (name: string) => {
      const failures = this.rules.get(name)?.counts === 'failures'
      if (step.do === 'refund') return false
      if (step.do === 'keep' || step.do === 'end' || step.outcome === null) return true
      return failures ? step.outcome >= 400 && step.outcome <= 499 : step.outcome < 400
    }
    for (const name of made.open)
      if (!kept(name) && this.rules.get(name)?.counts !== 'attempts') this.giveBack(made, name)
    if (step.do !== 'settle' || step.outcome === null) made.open.clear()
    if (step.do === 'end' && made.locked) {
      made.locked = false
      for (const [entry] of slotsOf(made, 'in-flight')) this.model.release(entry, made.token)
    }
    for (const decision of made.decisions) {
      if (step.do === 'settle') await decision.settle(step.outcome)
      else if (step.do === 'refund') await decision.refund()
      else decision[step.do]()
    }
    // Nothing waits for the release of a lock, but it has been sent, so it comes before whatever is sent now.
    await this.stores[1]?.peek([
      { spec: (this.rules.get('mail') as CompiledRule).specs[0] as Entry['spec'], identity: 'a' }
    ])
  }

  /** Refunds by receipt, also what was kept before; the decisions do not hear of it. */
  private async refund(made: Made): Promise<void> {
    for (const { name } of made.rules)
      if (this.rules.get(name)?.counts !== 'attempts') this.giveBack(made, name)
    for (const [i, decision] of made.decisions.entries()) await this.limiters[i]?.refund(decision.receipt())
  }

  private giveBack(made: Made, name: string): void {
    for (const [entry, slot] of slotsOf(made, name))
      if (!isHeld(entry.spec)) this.model.refund(entry, slot, '')
    made.open.delete(name)
  }
}

function slotsOf({ rules, facts }: Made, name: string): [Entry, Slot][] {
  const entries = rules.flatMap(rule => rule.entries)
  const own = rules.find(rule => rule.name === name)?.entries ?? []
  return own.flatMap(entry => {
    const slot = facts.entries[entries.indexOf(entry)]?.slot
    return slot ? [[entry, slot] as [Entry, Slot]] : []
  })
}

function same(found: Verdict, right: Verdict): void {
  const told = ({ allowed, retryAfterMs, violated, observed, rules, refusal }: Verdict) =>
    JSON.stringify({ allowed, retryAfterMs, violated, observed, rules, refusal })
  if (told(found) !== told(right)) throw new Error(`found ${told(found)}\nright ${told(right)}`)
}

t.test('random histories: the verdicts of both stores are those of the model', async t => {
  const { client, clock } = await startRedis(t, { clock: true })
  const failures: unknown[] = []
  const total = { steps: 0, decisions: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 200, size: 'max' }), async steps => {
      await client.flushall()
      const time = new Time('2026-03-31T10:00:00Z', clock)
      const memory = new MemoryStore({ clock: time.clock, maxKeys: 1_000 })
      const world = new World([memory, new RedisStore(client, 'verdict:')], time, error =>
        failures.push(error)
      )
      try {
        for (const step of steps) await world.run(step)
      } finally {
        for (const { decisions } of world.made) for (const decision of decisions) decision.end()
        // Until Redis has released the locks: calls that lose their client would be tried again for 15 seconds.
        await turn()
        await client.ping()
        memory.close()
        total.steps += steps.length
        total.decisions += world.made.length
      }
    }),
    seeded(t, 40)
  )
  t.comment(JSON.stringify(total))
  t.strictSame(failures, [], 'no settlement failed')
})

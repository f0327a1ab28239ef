// How does the cost of a decision grow with rules, with limits in a rule, with `max`, with repeats of a value, with keys in
// memory?
// npm run bench -- growth [--quick] [--json file]
import Fastify from 'fastify'
import type { Redis } from 'ioredis'
import limitPlugin, { type Rule, type SendLimitOptions } from '../plugin/index.js'
import { type Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pin, pinning, SERVER_CORE } from './lib/cores.js'
import { STRICT } from './lib/limiters.js'
import { type BenchRedis, openRedis } from './lib/redis.js'
import { commandLine, report } from './lib/report.js'
import { interleave, type Sample, summarize } from './lib/rounds.js'

interface Subject {
  rules: Rule[]
  /** How often each identity is counted. */
  times: number
}
type Decide = (identity: string) => Promise<unknown>

const WINDOWS = ['60s', '1h', '6h', '12h', '24h']
const MINUTE = 60_000
/** How many decisions are measured in memory, a thousand at a time. */
const IN_MEMORY = 20_000
/** How many decisions are on their way to Redis at once. */
const BATCH = 100

function ruleOf(i: number, limits: Rule['limits']): Rule {
  return { name: `rule-${i}`, key: { value: `body.v${i}` }, limits: limits as NonNullable<Rule['limits']> }
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i)
}

const subjects: Record<string, Subject> = {
  ...Object.fromEntries(
    [1, 2, 3, 5, 10, 20].map(n => [
      `rules: ${n}`,
      { rules: range(n).map(i => ruleOf(i, [{ max: 1, window: '60s' }])), times: 1 }
    ])
  ),
  ...Object.fromEntries(
    [1, 2, 3, 4, 5].map(n => [
      `limits in a rule: ${n}`,
      {
        rules: [
          ruleOf(
            0,
            range(n).map(i => ({ max: i + 1, window: WINDOWS[i] as string }))
          )
        ],
        times: 1
      }
    ])
  ),
  ...Object.fromEntries(
    [1, 10, 100, 1000].map(max => [
      `max: ${max}`,
      { rules: [ruleOf(0, [{ max, window: '1h' }])], times: max }
    ])
  ),
  ...Object.fromEntries(
    [1, 10, 100, 1000].map(times => [
      `repeats of a value: ${times}`,
      { rules: [{ ...ruleOf(0, [{ max: 5, window: '1h' }]), distinct: { value: 'body.to' } } as Rule], times }
    ])
  )
}

async function open(
  rules: Rule[],
  options: Partial<SendLimitOptions>
): Promise<{ decide: Decide; close(): unknown }> {
  const app = Fastify()
  await app.register(limitPlugin, { rules, ...STRICT, ...options })
  await app.ready()
  const keyOf = (rule: Rule, text: string) => (rule.distinct === undefined ? text : [text, 'one value'])
  return {
    async decide(identity) {
      const { allowed } = await app.limit.reserve(
        Object.fromEntries(rules.map((rule, i) => [rule.name, keyOf(rule, `${i}${identity}`)]))
      )
      if (!allowed) throw new Error('refused')
    },
    close: () => app.close()
  }
}

/**
 * The median of turns of a thousand decisions: during the first, Node compiles the code, and during some, it collects
 * what the subject before has left.
 */
async function pace(decide: (i: number) => Promise<unknown>): Promise<number> {
  const turns: number[] = []
  for (let i = 0; i < IN_MEMORY; ) {
    const start = performance.now()
    for (const end = i + 1_000; i < end; i++) await decide(i)
    turns.push(performance.now() - start)
  }
  return summarize(turns).median
}

/** Each identity is counted as often as its limit admits, from none to full. */
async function costs(
  { rules, times }: Subject,
  redis: BenchRedis,
  client: Redis,
  count: number
): Promise<Sample> {
  const identity = (i: number, all = count) => `someone${i % Math.ceil(all / times)}`
  const inMemory = await open(rules, {})
  const memory = await pace(i => inMemory.decide(identity(i, IN_MEMORY)))
  await inMemory.close()
  await redis.client.flushall()
  const overRedis = await open(rules, { client })
  const before = await redis.cpu()
  for (let i = 0; i < count; i += BATCH)
    await Promise.all(range(Math.min(BATCH, count - i)).map(j => overRedis.decide(identity(i + j))))
  const cpu = ((await redis.cpu()) - before) / count
  await overRedis.close()
  return { 'memory, µs': memory, 'Redis CPU, µs': cpu }
}

/** A memory store with so many live keys. From then on, with each decision a key is added and another one expires. */
async function filled(keys: number): Promise<{ decide: Decide; close(): unknown }> {
  let now = 1
  const clock = { monotonic: () => now, wall: () => Date.now() }
  const { decide, close } = await open([ruleOf(0, [{ max: 1, window: MINUTE }])], {
    clock,
    maxKeys: 2 * keys
  })
  let next = 0
  const one = () => {
    now += MINUTE / keys
    return decide(`someone${next++}`)
  }
  for (let i = 0; i < keys; i++) await one()
  return { decide: one, close }
}

async function bench(all: Closing): Promise<void> {
  const how = commandLine()
  const { size } = how
  pin(process.pid, LOAD_CORE)
  const redis = await openRedis(all, SERVER_CORE)
  const client = redis.connect({ enableAutoPipelining: true })
  // Connect first: filling blocks the event loop, and connecting would time out.
  await client.ping()
  const sizes = size.quick ? [10_000, 100_000] : [10_000, 1_000_000, 5_000_000]
  const stores = new Map<string, Awaited<ReturnType<typeof filled>>>()
  for (const keys of sizes) {
    const store = await filled(keys)
    all.teardown(store.close)
    stores.set(`keys: ${keys}`, store)
  }
  const samples = await interleave([...Object.keys(subjects), ...stores.keys()], size, async name => {
    const count = 1_000
    const subject = subjects[name]
    if (subject) return costs(subject, redis, client, count)
    const decide = stores.get(name)?.decide as Decide
    return { 'memory, µs': await pace(() => decide('')) }
  })
  const most = (of: string, by: string) =>
    Object.keys(samples.get(of)?.[0] ?? {}).map(column => ({
      name: `${of} ÷ ${by}, ${column}`,
      of,
      by,
      column
    }))
  report(how, `one decision; keys: with one expiring for each that is added; ${pinning()}`, samples, [
    ...most('rules: 5', 'rules: 1'),
    ...most('rules: 20', 'rules: 1'),
    ...most('limits in a rule: 5', 'limits in a rule: 1'),
    ...most('max: 1000', 'max: 1'),
    ...most('repeats of a value: 1000', 'repeats of a value: 1'),
    ...most(`keys: ${sizes.at(-1)}`, 'keys: 10000')
  ])
}

await closing(bench)

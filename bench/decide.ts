// How many decisions a second does a process make, asked by 1, 16 and 128 at once, in memory and over Redis?
// npm run bench -- decide [--quick] [--json file]
import { answer, asked, Child } from './lib/child.js'
import { Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pinning, SERVER_CORE } from './lib/cores.js'
import { floor } from './lib/floors.js'
import {
  expressRateLimit,
  FIVE,
  FOUR,
  fastifyRateLimit,
  flexible,
  type Limiter,
  ours,
  oursPlain
} from './lib/limiters.js'
import { sendOf } from './lib/policy.js'
import { connect, openRedis } from './lib/redis.js'
import { commandLine, report } from './lib/report.js'
import { interleave, type Sample, type Size } from './lib/rounds.js'

type Open = (client: ReturnType<typeof connect>) => Limiter | undefined | Promise<Limiter | undefined>

/** Each subject has a process of its own; each measurement a limiter of its own. */
const memory: Record<string, Open> = {
  'ours, 5 rules': () => ours(FIVE),
  'ours, 4 rules': () => ours(FOUR),
  'ours, 4 rules, plain values': () => oursPlain(),
  'rate-limiter-flexible, 4': () => flexible(),
  '@fastify/rate-limit, 4': () => fastifyRateLimit(),
  'express-rate-limit, 4 stores': () => expressRateLimit()
}
const overRedis: Record<string, Open> = {
  'EVALSHA of return 1': floor,
  'ours, 5 rules, Redis': client => ours(FIVE, { client }),
  'ours, 4 rules, plain values, Redis': client => oursPlain({ client }),
  'rate-limiter-flexible, 4, Redis': client => flexible(client),
  '@fastify/rate-limit, 4, Redis': client => fastifyRateLimit(client),
  'rate-limit-redis, 4 stores': client => expressRateLimit(client)
}
/** Asked for a hundred that have all just been refused. */
const refusing: Record<string, Open> = {
  'refused: ours, 1 rule': () => ours(['mobile']),
  'refused: ours, 5 rules': () => ours(FIVE),
  'refused: ours, 1 rule, refusalCache': client => ours(['mobile'], { client, refusalCache: '1s' }),
  'refused: ours, 5 rules, refusalCache': client => ours(FIVE, { client, refusalCache: '1s' }),
  'refused: rate-limiter-flexible, 1, its block': client => flexible(client, [2], true),
  'refused: rate-limiter-flexible, 4, its block': client => flexible(client, [0, 1, 2, 3], true)
}
const subjects = { ...memory, ...overRedis, ...refusing }
const WIDTHS = [1, 16, 128]

/** For how long each width is asked: a trip takes longer than a decision here. Together they end within two minutes. */
function timeOf(name: string, round: number, { quick }: Size): number {
  if (quick) return 20
  const ms = name in overRedis ? 150 : 100
  // The first round, which is not kept, is to compile.
  return round === 0 ? 2 * ms : ms
}

async function measure(
  name: string,
  client: ReturnType<typeof connect>,
  from: number,
  ms: number
): Promise<{ sample: Sample; next: number }> {
  const sample: Sample = {}
  let [used, all] = [0, 0]
  for (const width of WIDTHS) {
    const limiter = await subjects[name]?.(client)
    if (limiter === undefined) throw new Error(name)
    const refused = name in refusing
    if (refused) for (let i = 0; i < 300; i++) await limiter.decide(sendOf(i % 100))
    globalThis.gc?.()
    const run = async (time: number) => {
      let [count, admitted, over] = [0, 0, false]
      const start = performance.now()
      const work = async () => {
        while (!over) {
          const i = count++
          if (await limiter.decide(sendOf(refused ? i % 100 : from + i))) admitted++
          // Reading the clock costs as much as what is measured, nearly.
          if (i % 16 === 0) over = performance.now() - start > time
        }
      }
      await Promise.all(Array.from({ length: width }, work))
      if (admitted !== (refused ? 0 : count)) throw new Error(`${name} admitted ${admitted} of ${count}`)
      from += count
      return { count, took: performance.now() - start }
    }
    // A process that has waited for all the others is slow at first.
    await run(ms / 2)
    const before = process.cpuUsage()
    const { count, took } = await run(ms)
    const { user, system } = process.cpuUsage(before)
    sample[`${width} at once`] = (count / took) * 1000
    used += user + system
    all += count
    await limiter.close()
  }
  sample['CPU, µs each'] = used / all
  return { sample, next: from }
}

async function isThere(name: string, client: ReturnType<typeof connect>): Promise<boolean> {
  const limiter = await subjects[name]?.(client)
  await limiter?.close()
  return limiter !== undefined
}

/** Answers a time, in ms, with the speed of its decisions; 0 with whether its subject is there. */
function child([name = '', url = '']: string[]): void {
  const client = connect(new Closing(), url)
  let from = 0
  answer(async (ms: number) => {
    if (ms === 0) return isThere(name, client)
    const { sample, next } = await measure(name, client, from, ms)
    from = next
    return sample
  })
}

async function main(): Promise<void> {
  const how = commandLine()
  await closing(async all => {
    const redis = await openRedis(all, LOAD_CORE)
    const children = new Map<string, Child>()
    const start = async (name: string) => {
      const child = await Child.start(all, import.meta.url, [name, redis.url], SERVER_CORE)
      if (await child.ask<boolean>(0)) children.set(name, child)
      else console.log(`skipped, not there: ${name}`)
    }
    await Promise.all(Object.keys(subjects).map(start))
    const there = Object.keys(subjects).filter(name => children.has(name))
    const samples = await interleave(there, how.size, async (name, round) => {
      await redis.client.flushall()
      return (children.get(name) as Child).ask<Sample>(timeOf(name, round, how.size))
    })
    const against = (of: string, by: string, width: number, atLeast?: number) => ({
      name: `${of} ÷ ${by}, ${width} at once`,
      of,
      by,
      column: `${width} at once`,
      ...(atLeast && { atLeast })
    })
    report(how, `decisions a second; ${pinning()}`, samples, [
      ...['ours, 5 rules', 'ours, 4 rules', 'ours, 4 rules, plain values'].flatMap(name => [
        against(name, 'rate-limiter-flexible, 4', 16, 4),
        against(name, '@fastify/rate-limit, 4', 16, 1.7)
      ]),
      against('ours, 5 rules', 'express-rate-limit, 4 stores', 16),
      ...['refused: ours, 1 rule', 'refused: ours, 1 rule, refusalCache'].map(name =>
        against(name, 'refused: rate-limiter-flexible, 1, its block', 16, 3)
      ),
      ...['refused: ours, 5 rules', 'refused: ours, 5 rules, refusalCache'].map(name =>
        against(name, 'refused: rate-limiter-flexible, 4, its block', 16, 3)
      ),
      against('ours, 5 rules, Redis', 'EVALSHA of return 1', 16, 0.8),
      against('ours, 5 rules, Redis', 'EVALSHA of return 1', 128, 0.75),
      ...Object.keys(overRedis)
        .slice(2)
        .flatMap(name => [16, 128].map(width => against(name, 'EVALSHA of return 1', width)))
    ])
  })
}

const role = asked()
if (role) child(role)
else await main()

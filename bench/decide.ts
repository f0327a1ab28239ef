// How many decisions a second does a process make, asked by 1, 16 and 128 at once, in memory and over Redis?
// npm run bench -- decide [--quick] [--json file]
import { setTimeout } from 'node:timers/promises'
import { answer, asked, Child } from './lib/child.js'
import { Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pinning, SERVER_CORE } from './lib/cores.js'
import { floor } from './lib/floors.js'
import {
  type Ask,
  fastifyRateLimit,
  flexible,
  type Limiter,
  ours,
  oursPlain,
  rateLimitRedis
} from './lib/limiters.js'
import { FIVE, FOUR, sendOf } from './lib/policy.js'
import { connect, openRedis } from './lib/redis.js'
import { type Comparison, commandLine, report } from './lib/report.js'
import { interleave, type Sample, type Samples } from './lib/rounds.js'

type Open = (client: ReturnType<typeof connect>) => Limiter | undefined | Promise<Limiter | undefined>

/** Room for what all rounds together leave. */
const MAX_KEYS = 5_000_000
/** Each subject has a process of its own, and there one limiter for all rounds, as a server has. */
const memory: Record<string, Open> = {
  'ours, 5 rules': () => ours(FIVE, { maxKeys: MAX_KEYS }),
  'ours, 4 rules': () => ours(FOUR, { maxKeys: MAX_KEYS }),
  'ours, 4 rules, plain values': () => oursPlain({ maxKeys: MAX_KEYS }),
  'rate-limiter-flexible, 4': () => flexible(),
  '@fastify/rate-limit, 4': () => fastifyRateLimit()
}
const FLOOR = 'EVALSHA of return 1'
const overRedis: Record<string, Open> = {
  [FLOOR]: floor,
  'ours, 5 rules, Redis': client => ours(FIVE, { client }),
  'rate-limiter-flexible, 4, Redis': client => flexible(client),
  '@fastify/rate-limit, 4, Redis': client => fastifyRateLimit(client),
  'rate-limit-redis, 4 stores': client => rateLimitRedis(client)
}
/** Asked for a hundred that have all just been refused. */
const refusing: Record<string, Open> = {
  'refused: ours, 1 rule, refusalCache': client => ours(['mobile'], { client, refusalCache: '1s' }),
  'refused: ours, 5 rules, refusalCache': client => ours(FIVE, { client, refusalCache: '1s' }),
  'refused: rate-limiter-flexible, 1, its block': client => flexible(client, [2], true),
  'refused: rate-limiter-flexible, 4, its block': client => flexible(client, [0, 1, 2, 3], true)
}
const subjects = { ...memory, ...overRedis, ...refusing }
const WIDTHS = [1, 16, 128]
/** So many sends are made ready before the clock starts. */
const AT_A_TIME = 1_000

/** For how long each width is asked at most, in ms. Together they end within five minutes. */
function timeOf(name: string, quick: boolean): number {
  if (quick) return 10
  return name in memory ? 20_000 : 600
}

/** How often each width is asked in memory: as often for all, since what is tracked makes a limiter slow. */
const MOST = 30_000

async function measure(
  name: string,
  limiter: Limiter,
  from: number,
  ms: number
): Promise<{ sample: Sample; next: number }> {
  const sample: Sample = {}
  let [used, all] = [0, 0]
  for (const width of WIDTHS) {
    const refused = name in refusing
    // Each width has a hundred of its own: what was refused before may go again after a minute.
    const first = from
    for (let time = 0; refused && time < 3; time++) {
      for (let i = 0; i < 100; i++) await limiter.decide(sendOf(first + i))
      // For what is still on its way to Redis: who refuses at once lets no answer in meanwhile.
      await setTimeout(20)
    }
    const most = name in memory ? MOST : Infinity
    const run = async (part: number) => {
      const total = { count: 0, took: 0, cpu: 0 }
      while (total.took < ms * part && total.count < most * part) {
        const asks = Array.from({ length: AT_A_TIME }, (_, i) =>
          limiter.prepare(sendOf(refused ? first + (i % 100) : from + i))
        )
        from += AT_A_TIME
        const start = performance.now()
        const before = process.cpuUsage()
        const admitted = await askAll(limiter, asks, width)
        const { user, system } = process.cpuUsage(before)
        total.took += performance.now() - start
        total.cpu += user + system
        total.count += AT_A_TIME
        if (admitted !== (refused ? 0 : AT_A_TIME)) throw new Error(`${name} admitted ${admitted}`)
      }
      return total
    }
    // A process that has waited for another one is slow at first.
    await run(0.5)
    const { count, took, cpu } = await run(1)
    sample[`${width} at once`] = (count / took) * 1000
    used += cpu
    all += count
  }
  sample['CPU, µs each'] = used / all
  return { sample, next: from }
}

/** Asks `width` at once. @returns how many were admitted */
async function askAll(limiter: Limiter, asks: readonly Ask[], width: number): Promise<number> {
  let [next, admitted] = [0, 0]
  const work = async () => {
    for (let ask = asks[next++]; ask !== undefined; ask = asks[next++]) {
      // As `decide` does, of which a call takes as long as half of a known refusal.
      try {
        if (limiter.admits(await ask())) admitted++
      } catch (error) {
        if (error instanceof Error) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: width }, work))
  return admitted
}

/** Answers a time, in ms, with the speed of its decisions; 0 with whether its subject is there. */
function child([name = '', url = '']: string[]): void {
  const opening = subjects[name]?.(connect(new Closing(), url))
  let from = 0
  answer(async (ms: number) => {
    const limiter = await opening
    if (ms === 0 || limiter === undefined) return limiter !== undefined
    const { sample, next } = await measure(name, limiter, from, ms)
    from = next
    return sample
  })
}

/** What is set beside what, and how many times as many decisions a second it is to make. */
const pairs: { of: string; by: string; atLeast?: (width: number) => number }[] = [
  ...['ours, 5 rules', 'ours, 4 rules', 'ours, 4 rules, plain values'].map(of => ({
    of,
    by: 'rate-limiter-flexible, 4',
    atLeast: () => 4
  })),
  { of: 'ours, 5 rules', by: '@fastify/rate-limit, 4', atLeast: () => 1.7 },
  { of: 'ours, 4 rules, plain values', by: '@fastify/rate-limit, 4', atLeast: () => 1.7 },
  ...[1, 5].map(rules => ({
    of: `refused: ours, ${rules} rule${rules > 1 ? 's' : ''}, refusalCache`,
    by: `refused: rate-limiter-flexible, ${Math.min(rules, 4)}, its block`,
    atLeast: () => 3
  })),
  { of: 'ours, 5 rules, Redis', by: FLOOR, atLeast: width => (width === 16 ? 0.8 : 0.75) },
  ...['rate-limiter-flexible, 4, Redis', '@fastify/rate-limit, 4, Redis', 'rate-limit-redis, 4 stores'].map(
    of => ({ of, by: FLOOR })
  )
]

/** Two processes at a time, in turn: one that idles while many others are measured is slow when its turn comes. */
async function main(): Promise<void> {
  const how = commandLine()
  const samples: Samples = new Map()
  const comparisons: Comparison[] = []
  await closing(async all => {
    const redis = await openRedis(all, LOAD_CORE)
    for (const { of, by, atLeast } of pairs) {
      await closing(async own => {
        const start = (name: string) => Child.start(own, import.meta.url, [name, redis.url], SERVER_CORE)
        const [first, second] = await Promise.all([start(of), start(by)])
        for (const [name, child] of [
          [of, first],
          [by, second]
        ] as const)
          if (!(await child.ask<boolean>(0))) return console.log(`skipped, not there: ${name}`)
        const measured = await interleave([of, by], how.size, async name => {
          // What has been refused stays so for a minute.
          if (!(name in refusing)) await redis.client.flushall()
          return (name === of ? first : second).ask<Sample>(timeOf(name, how.size.quick))
        })
        const ratio = `${of} ÷ ${by}`
        const [above = [], below = []] = measured.values()
        measured.set(
          ratio,
          above.map((sample, round) => quotient(sample, below[round] as Sample))
        )
        for (const [name, rounds] of measured) samples.set(name, [...(samples.get(name) ?? []), ...rounds])
        for (const width of WIDTHS.slice(1)) {
          const least = atLeast?.(width)
          const column = `${width} at once`
          comparisons.push({
            name: `${ratio}, ${column}`,
            of: ratio,
            column,
            ...(least && { atLeast: least })
          })
        }
      })
    }
  })
  report(how, `decisions a second; ${pinning()}`, samples, comparisons)
}

function quotient(above: Sample, below: Sample): Sample {
  return Object.fromEntries(
    Object.keys(above).map(column => [column, (above[column] ?? 0) / (below[column] ?? 0)])
  )
}

const role = asked()
if (role) child(role)
else await main()

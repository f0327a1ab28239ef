// How many decisions a second does a process make, asked by 1, 16 and 128 at once, in memory and over Redis?
// npm run bench -- decide [--quick] [--json file]
import { setTimeout } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { answer, asked, Child, cpuTime } from './lib/child.js'
import { Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pinning, SERVER_CORE } from './lib/cores.js'
import { FLOOR, floor } from './lib/floors.js'
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
import { repeat, type Sample, type Samples } from './lib/rounds.js'

type Open = (client: Redis) => Limiter | Promise<Limiter>

/** Room for the keys of all rounds. */
const MAX_KEYS = 5_000_000
/** Each subject has a process of its own, and there one limiter for all rounds, as a server has. */
const memory: Record<string, Open> = {
  'ours, 5 rules': () => ours(FIVE, { maxKeys: MAX_KEYS }),
  'ours, 4 rules': () => ours(FOUR, { maxKeys: MAX_KEYS }),
  'ours, 4 rules, plain values': () => oursPlain({ maxKeys: MAX_KEYS }),
  'rate-limiter-flexible, 4': () => flexible(),
  '@fastify/rate-limit, 4': () => fastifyRateLimit()
}
const overRedis: Record<string, Open> = {
  [FLOOR]: floor,
  'ours, 5 rules, Redis': client => ours(FIVE, { client }),
  'rate-limiter-flexible, 4, Redis': client => flexible(client),
  '@fastify/rate-limit, 4, Redis': client => fastifyRateLimit(client),
  'rate-limit-redis, 4 stores': client => rateLimitRedis(client)
}
/** Whose Redis has room for the keys to come, as one that has run for a while. In the others each doubling moves all. */
const overGrownRedis: Record<string, Open> = {
  [`${FLOOR}, grown`]: floor,
  'ours, 5 rules, Redis, grown': client => ours(FIVE, { client })
}
/** Asked about a hundred sends that have all just been refused. */
const refusing: Record<string, Open> = {
  'refused: ours, 1 rule, refusalCache': client => ours(['mobile'], { client, refusalCache: '1s' }),
  'refused: ours, 5 rules, refusalCache': client => ours(FIVE, { client, refusalCache: '1s' }),
  'refused: rate-limiter-flexible, 1, its block': client => flexible(client, [2], true),
  'refused: rate-limiter-flexible, 4, its block': client => flexible(client, [0, 1, 2, 3], true)
}
const subjects = { ...memory, ...overRedis, ...overGrownRedis, ...refusing }
const WIDTHS = [1, 16, 128]
/** How many sends are prepared before the clock starts. */
const AT_A_TIME = 1_000

/**
 * How many turns each of two subjects has at each width in a round. They alternate, so that other load affects both.
 */
const TURNS = 8

interface Turn {
  width: number
  /** The turn ends after `most` decisions or `ms` milliseconds, whichever comes first. */
  most: number
  ms: number
  /** Whether this is the first turn of its width and round. */
  first: boolean
}

/** In memory, all subjects are asked equally often, since tracked keys make a limiter slower. */
function sizeOf(name: string, quick: boolean): Pick<Turn, 'most' | 'ms'> {
  if (quick) return { most: AT_A_TIME, ms: 10 }
  return name in memory ? { most: 4_000, ms: 2_000 } : { most: 1_000_000, ms: 100 }
}

/** How many decisions took how many milliseconds, and microseconds of processor time. */
interface Pace {
  count: number
  took: number
  cpu: number
}

const none = (): Pace => ({ count: 0, took: 0, cpu: 0 })

function add(sum: Pace, { count, took, cpu }: Pace): void {
  sum.count += count
  sum.took += took
  sum.cpu += cpu
}

/** Asks `width` at once. @returns how many were admitted */
async function askAll(limiter: Limiter, asks: readonly Ask[], width: number): Promise<number> {
  let [next, admitted] = [0, 0]
  const work = async () => {
    for (let ask = asks[next++]; ask !== undefined; ask = asks[next++]) {
      // As `decide` does; calling it would take half as long as a known refusal.
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

/** Answers a turn with its pace. */
async function child([name = '', url = '']: string[]): Promise<void> {
  const limiter = await (subjects[name] as Open)(connect(new Closing(), url))
  const refused = name in refusing
  // Numbers of the next new send, and of the first of a hundred that are refused.
  let [from, flood] = [0, 0]

  const run = async ({ width, most, ms }: Turn): Promise<Pace> => {
    const sum = none()
    while (sum.took < ms && sum.count < most) {
      const asks = Array.from({ length: AT_A_TIME }, (_, i) =>
        limiter.prepare(sendOf(refused ? flood + (i % 100) : from + i))
      )
      from += AT_A_TIME
      const start = performance.now()
      const before = cpuTime()
      const admitted = await askAll(limiter, asks, width)
      add(sum, { count: AT_A_TIME, took: performance.now() - start, cpu: cpuTime() - before })
      if (admitted !== (refused ? 0 : AT_A_TIME)) throw new Error(`${name} admitted ${admitted}`)
    }
    return sum
  }

  answer(async (turn: Turn) => {
    if (refused && turn.first) {
      // Other sends than before: those refused earlier may be admitted again after a minute.
      flood = from
      from += 100
      await refuseAll(limiter, flood)
    }
    // Warms up: a process that has waited for another one is slow at first.
    await run({ ...turn, most: turn.most / 4, ms: turn.ms / 4 })
    return run(turn)
  })
}

/** Sends a hundred three times: admitted once, then refused. @param flood number of the first one */
async function refuseAll(limiter: Limiter, flood: number): Promise<void> {
  for (let time = 0; time < 3; time++) {
    for (let i = 0; i < 100; i++) await limiter.decide(sendOf(flood + i))
    // Waits for answers of Redis: a limiter that refuses at once lets none be read meanwhile.
    await setTimeout(20)
  }
}

/** Which subjects are compared, and with the target: how many times as many decisions a second `of` is to make. */
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
  { of: 'ours, 5 rules, Redis, grown', by: `${FLOOR}, grown` },
  ...['rate-limiter-flexible, 4, Redis', '@fastify/rate-limit, 4, Redis', 'rate-limit-redis, 4 stores'].map(
    of => ({ of, by: FLOOR })
  )
]

/**
 * Measures one round of two subjects.
 * @param size the size of each turn
 * @param reset called before each width
 * @returns the sample of each subject
 */
async function measure(
  children: readonly Child[],
  size: Pick<Turn, 'most' | 'ms'>,
  reset: () => Promise<unknown>
): Promise<Sample[]> {
  const both = children.map(child => ({ child, sample: {} as Sample, all: none() }))
  for (const width of WIDTHS) {
    await reset()
    const sums = new Map(both.map(one => [one, none()]))
    for (let turn = 0; turn < TURNS; turn++) {
      for (const [one, sum] of turn % 2 === 0 ? sums : [...sums].reverse()) {
        const { child, all } = one
        child.resume()
        const pace = await child.ask<Pace>({ width, ...size, first: turn === 0 } satisfies Turn)
        child.pause()
        add(sum, pace)
        add(all, pace)
      }
    }
    for (const [{ sample }, { count, took }] of sums) sample[`${width} at once`] = (count / took) * 1000
  }
  for (const { sample, all } of both) sample['CPU, µs each'] = all.cpu / all.count
  return both.map(({ sample }) => sample)
}

/** Runs two processes at a time: one that idled while many others were measured would be slow when its turn comes. */
async function main(): Promise<void> {
  const how = commandLine()
  const samples: Samples = new Map()
  const keep = (name: string, sample: Sample) => samples.set(name, [...(samples.get(name) ?? []), sample])
  const comparisons: Comparison[] = []
  await closing(async all => {
    const redis = await openRedis(all, LOAD_CORE)
    for (const { of, by, atLeast } of pairs) {
      await closing(async own => {
        const children: Child[] = []
        for (const name of [of, by]) {
          const child = await Child.start(own, import.meta.url, [name, redis.url], SERVER_CORE)
          child.pause()
          children.push(child)
        }
        // The pair before has had the same sends.
        await redis.client.flushall()
        const reset = async () => {
          // Not here: refused sends must stay refused, which they do for a minute.
          if (!(of in refusing)) await redis.client.flushall()
          if (of in overGrownRedis) await redis.grow()
        }
        const ratio = `${of} ÷ ${by}`
        const rounds = await repeat(how.size, () => measure(children, sizeOf(of, how.size.quick), reset))
        for (const [above = {}, below = {}] of rounds) {
          keep(of, above)
          keep(by, below)
          keep(ratio, quotient(above, below))
        }
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
if (role) await child(role)
else await main()

// What does a decision cost Redis: processor time, commands, bytes?
// npm run bench -- redis [--quick] [--json file]
import type { Redis } from 'ioredis'
import { type Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pin, pinning, SERVER_CORE } from './lib/cores.js'
import { counters, FLOOR, floor } from './lib/floors.js'
import { fastifyRateLimit, flexible, type Limiter, ours, rateLimitRedis } from './lib/limiters.js'
import { FIVE, FOUR, rules, sendOf } from './lib/policy.js'
import { type BenchRedis, openRedis } from './lib/redis.js'
import { commandLine, report } from './lib/report.js'
import { interleave, type Sample } from './lib/rounds.js'

type Open = (client: Redis) => Limiter | Promise<Limiter>

const cpuSubjects: Record<string, Open> = {
  [FLOOR]: floor,
  'INCR+EXPIRE, 5 scripts': client => counters(client, 5),
  'INCR+EXPIRE, 7 scripts': client => counters(client, 7),
  'ours, admit, fresh': client => ours(FIVE, { client }),
  'ours, admit, full log': client => ours(FIVE, { client }, hurried()),
  'ours, refuse': client => ours(FIVE, { client }),
  'ours, 4 rules': client => ours(FOUR, { client }),
  'rate-limiter-flexible, 4': client => flexible(client),
  '@fastify/rate-limit, 4': client => fastifyRateLimit(client),
  'rate-limit-redis, 4 stores': client => rateLimitRedis(client)
}
/** How many decisions are on their way at once. */
const BATCH = 250
/**
 * How often the same send is admitted again by the hurried policy, whose windows are shorter, so that logs fill sooner.
 */
const PACE_MS = 250

function hurried() {
  const windows: Record<string, number> = { '60s': PACE_MS - 50, '1h': PACE_MS * 4, '24h': PACE_MS * 9 }
  return rules.map(rule => ({
    ...rule,
    limits: rule.limits?.map(limit =>
      limit.window ? { ...limit, window: windows[limit.window] ?? limit.window } : limit
    )
  })) as typeof rules
}

async function decideAll(
  limiter: Limiter,
  count: number,
  expected: boolean,
  account?: string
): Promise<void> {
  for (let done = 0; done < count; done += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, i) =>
      limiter.decide({ ...sendOf(done + i), ...(account && { account }) })
    )
    if ((await Promise.all(batch)).some(allowed => allowed !== expected)) throw new Error('not as expected')
  }
}

async function cost(redis: BenchRedis, count: number, work: () => Promise<void>): Promise<Sample> {
  const [cpu, scripts] = [await redis.cpu(), await redis.scripts()]
  await work()
  return {
    'CPU, µs': ((await redis.cpu()) - cpu) / count,
    commands: ((await redis.scripts()) - scripts) / count
  }
}

async function decisionCost(name: string, redis: BenchRedis, client: Redis, count: number): Promise<Sample> {
  await redis.client.flushall()
  const limiter = await (cpuSubjects[name] as Open)(client)
  try {
    if (name === 'ours, admit, full log') return await fullLog(limiter, redis, Math.min(count, 8 * BATCH))
    const refused = name === 'ours, refuse'
    if (refused) await decideAll(limiter, count, true)
    return await cost(redis, count, () => decideAll(limiter, count, !refused))
  } finally {
    await limiter.close()
  }
}

/**
 * The same sends again and again, at a pace at which they are admitted; measured once ten of each have been counted.
 */
async function fullLog(limiter: Limiter, redis: BenchRedis, count: number): Promise<Sample> {
  const rounds = Math.ceil(count / BATCH)
  const total: Sample = {}
  for (let i = 0; i < 10 + rounds; i++) {
    const work = () => decideAll(limiter, BATCH, true, `account${i}`)
    if (i < 10) await work()
    else
      for (const [column, value] of Object.entries(await cost(redis, BATCH, work)))
        total[column] = (total[column] ?? 0) + value / rounds
    await new Promise(resolve => setTimeout(resolve, PACE_MS))
  }
  return total
}

const ten = Array.from({ length: 10 }, (_, i) => i)
type Track = (client: Redis, mail: string) => Promise<unknown>
const mailOnly = [{ ...rules[3], limits: [{ max: 10, window: '24h' }] }] as typeof rules

/** The forms in which a mail address is kept, by how often it was counted. */
const byteSubjects: Record<string, (client: Redis) => Promise<{ track: Track; close(): unknown }>> = {
  'bytes: ours, log of 1': client => trackOurs(client, 1),
  'bytes: ours, log of 10': client => trackOurs(client, 10),
  'bytes: sorted set of 1': async () => ({ track: sortedSet(1), close() {} }),
  'bytes: sorted set of 10': async () => ({ track: sortedSet(10), close() {} }),
  'bytes: a counter': async () => ({
    track: (redis, mail) => redis.set(`floor:${mail}`, 1, 'EX', 60),
    close() {}
  })
}

async function trackOurs(client: Redis, times: number) {
  const limiter = await ours(['mail'], { client }, mailOnly)
  return {
    async track(_: Redis, mail: string) {
      for (let i = 0; i < times; i++) await limiter.decide({ ...sendOf(0), to: mail })
    },
    close: () => limiter.close()
  }
}

function sortedSet(times: number): Track {
  return (client, mail) =>
    Promise.all([
      client.zadd(`sl:${mail}`, ...ten.slice(0, times).flatMap(i => [1.7e12 + i, `${1.7e12 + i}`])),
      client.pexpire(`sl:${mail}`, 86_400_000)
    ])
}

async function bytes(name: string, redis: BenchRedis, client: Redis): Promise<Sample> {
  await redis.client.flushall()
  const subject = await byteSubjects[name]?.(client)
  await subject?.track(client, sendOf(1).to)
  await subject?.close()
  const [key] = (await redis.client.keys('*')).filter(name => name !== 'sl:secret')
  return { bytes: (await redis.client.memory('USAGE', key as string)) as number }
}

async function bench(all: Closing): Promise<void> {
  const how = commandLine()
  pin(process.pid, LOAD_CORE)
  const redis = await openRedis(all, SERVER_CORE)
  const client = redis.connect({ enableAutoPipelining: true })
  const names = [...Object.keys(cpuSubjects), ...Object.keys(byteSubjects)]
  const samples = await interleave(names, how.size, name =>
    name in byteSubjects
      ? bytes(name, redis, client)
      : decisionCost(name, redis, client, how.size.scale(4_000, 500))
  )
  const floorOf = (of: string, atMost?: number) => ({
    name: `Redis CPU: ${of} ÷ floor`,
    of,
    by: FLOOR,
    column: 'CPU, µs',
    ...(atMost && { atMost })
  })
  const commands = (of: string) => ({ name: `commands: ${of}`, of, column: 'commands', atMost: 1 })
  const bytesOf = (n: number) => ({
    name: `bytes a tracked mail address, log of ${n}`,
    of: `bytes: ours, log of ${n}`,
    column: 'bytes'
  })
  report(how, `a decision, ${BATCH} on their way at once; floor: ${FLOOR}; ${pinning()}`, samples, [
    floorOf('ours, admit, fresh', 5),
    floorOf('ours, admit, full log', 5.5),
    floorOf('ours, refuse', 6),
    ...Object.keys(cpuSubjects)
      .filter(name => !name.startsWith('ours, ') && name !== FLOOR)
      .map(name => floorOf(name)),
    floorOf('ours, 4 rules'),
    commands('ours, admit, fresh'),
    commands('ours, refuse'),
    ...[1, 10].flatMap(n => [
      { ...bytesOf(n), atMost: n === 1 ? 144 : 192 },
      {
        ...bytesOf(n),
        name: `bytes a tracked mail address, log of ${n} ÷ sorted set`,
        by: `bytes: sorted set of ${n}`
      }
    ])
  ])
}

await closing(bench)

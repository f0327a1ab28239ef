// What does one instance of the API do on one core, and what does it need in Redis?
// npm run bench -- capacity [--quick] [--json file]
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { folderOf } from '../test/helper/folder.js'
import { freePort } from '../test/helper/redis.js'
import { environmentOf } from './capacity/environment.js'
import { type Asked, type Question, REFUSED, type What } from './capacity/load.js'
import { Child } from './lib/child.js'
import { type Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pinning, SERVER_CORE } from './lib/cores.js'
import { FLOOR, floor } from './lib/floors.js'
import { sendOf } from './lib/policy.js'
import { openRedis } from './lib/redis.js'
import { type Comparison, commandLine, report } from './lib/report.js'
import { interleave, type Sample } from './lib/rounds.js'

interface Subject {
  what: What
  connections: number
  /** How many requests are measured, and how many in a quick run. */
  count: [number, number]
}

const CONNECTIONS = 32
const subjects: Record<string, Subject> = {
  bare: { what: 'bare', connections: CONNECTIONS, count: [5_000, 1_000] },
  code: { what: 'code', connections: CONNECTIONS, count: [1_000, 200] },
  'code, one at a time': { what: 'code', connections: 1, count: [200, 50] },
  resend: { what: 'resend', connections: CONNECTIONS, count: [500, 200] },
  verification: { what: 'verification', connections: CONNECTIONS, count: [1_000, 200] },
  refusal: { what: 'refusal', connections: CONNECTIONS, count: [1_000, 200] }
}
/** What is asked for when bytes are counted. */
const kept: Record<string, What> = { 'bytes: code': 'code', 'bytes: code, Idempotency-Key': 'keyed' }
/** The share of the requests that is sent before measuring, since a process that was idle is slow at first. */
const WARM = 0.1
/** How soon the policy admits a resend. */
const RESENDABLE_MS = 60_000
/** How many calls of the floor are on their way at once. */
const BATCH = 250
const module = (name: string) => new URL(`./capacity/${name}.js`, import.meta.url).href

async function bench(all: Closing): Promise<void> {
  const how = commandLine()
  const { size } = how
  const redis = await openRedis(all, LOAD_CORE)
  const keys = Array.from({ length: 10 }, () => randomBytes(24).toString('hex'))
  const folder = folderOf(all)
  const env = environmentOf(folder, keys)
  const load = await Child.start(all, module('load'), [folder, ...keys], LOAD_CORE)
  Object.assign(env, { REDIS_URL: redis.url, WEBHOOK_URL: await load.ask<string>('webhook') })

  async function start(name: string) {
    const PORT = String(await freePort())
    const child = await Child.start(all, module('server'), [name], SERVER_CORE, { env: { ...env, PORT } })
    return { child, port: Number(PORT) }
  }
  const servers = { bare: await start('bare'), api: await start('api') }
  const serverOf = (what: What) => (what === 'bare' ? servers.bare : servers.api)

  function ask(what: What, count: number, connections = CONNECTIONS): Promise<Asked> {
    return load.ask({ what, count, connections, port: serverOf(what).port } satisfies Question)
  }

  async function measure({ what, connections, count: [most, quick] }: Subject): Promise<Sample> {
    const count = size.scale(most, quick)
    const before = Math.ceil(count * WARM)
    if (what === 'verification') await ask('code', before + count)
    if (what === 'refusal') await ask('code', REFUSED)
    await ask(what, before, connections)
    const { child } = serverOf(what)
    const [api, store] = [await child.ask<number>('cpu'), await redis.cpu()]
    const { requests, seconds, p50, p99 } = await ask(what, count, connections)
    const cpu = (await child.ask<number>('cpu')) - api
    return {
      'requests/s': requests / seconds,
      'a processor second': (requests / cpu) * 1e6,
      'p50, ms': p50,
      'p99, ms': p99,
      'server, µs': cpu / requests,
      'server busy, %': cpu / seconds / 10_000,
      ...(what !== 'bare' && { 'Redis, µs': ((await redis.cpu()) - store) / requests })
    }
  }

  const client = redis.connect({ enableAutoPipelining: true })
  const least = await floor(client)
  async function measureFloor(): Promise<Sample> {
    const count = size.scale(5_000, 500)
    const before = await redis.cpu()
    for (let done = 0; done < count; done += BATCH)
      await Promise.all(Array.from({ length: BATCH }, (_, i) => least.decide(sendOf(done + i))))
    return { 'Redis, µs': ((await redis.cpu()) - before) / count }
  }

  /** The keys and bytes for each recipient that has had a code, while the code is kept and when it is gone. */
  async function bytes(what: What): Promise<Sample> {
    const count = size.scale(2_000, 500)
    await redis.client.flushdb()
    const empty = await redis.memory()
    await ask(what, count)
    const [under, keys] = [await redis.memory(), await redis.client.dbsize()]
    // As Redis itself does thirty minutes after a code was made.
    for (const key of await redis.client.keys('captcha:*')) await redis.client.del(key)
    return {
      keys: keys / count,
      'under way': (under - empty) / count,
      gone: ((await redis.memory()) - empty) / count
    }
  }

  // Warms up, in portions, since `Child.ask` waits for a minute at most.
  for (let i = 0; i < 10; i++) {
    await ask('bare', size.scale(1_000, 100))
    await ask('code', size.scale(600, 100))
    await ask('verification', size.scale(200, 50))
    await ask('refusal', size.scale(200, 20))
  }
  // Codes that were not verified are resent later.
  await sleep(RESENDABLE_MS)
  const samples = await interleave([...Object.keys(subjects), FLOOR], size, name =>
    name === FLOOR ? measureFloor() : measure(subjects[name] as Subject)
  )
  for (const [name, what] of Object.entries(kept)) {
    const cell: Sample[] = []
    for (let round = 0; round < size.rounds; round++) cell.push(await bytes(what))
    samples.set(name, cell)
  }
  report(
    how,
    `${CONNECTIONS} connections, messages taken at once by a webhook over TLS; ${pinning()}`,
    samples,
    comparisons()
  )
}

function comparisons(): Comparison[] {
  const names = Object.keys(subjects).filter(name => !/^bare|one at a time/.test(name))
  return [
    ...names.map(of => ({ name: `${of} ÷ bare`, of, by: 'bare', column: 'requests/s' })),
    ...names.map(of => ({ name: `processor time: ${of} ÷ bare`, of, by: 'bare', column: 'server, µs' })),
    ...names.map(of => ({ name: `Redis CPU: ${of} ÷ floor`, of, by: FLOOR, column: 'Redis, µs' })),
    ...Object.keys(kept).flatMap(of =>
      ['under way', 'gone'].map(state => ({ name: `${of}, ${state}`, of, column: state }))
    )
  ]
}

await closing(bench)

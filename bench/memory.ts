// How many bytes does a tracked key take, and how long is the longest pause while a store fills?
// npm run bench -- memory [--quick] [--json file]
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { Arena } from '../plugin/store/arena.js'
import { commandLine, report } from './lib/report.js'
import type { Samples } from './lib/rounds.js'

interface Figures {
  /** Heap and array buffers, bytes a key. */
  bytes: number
  /** Resident memory, bytes a key. */
  rss: number
  /** Resident memory of the empty store, in MB. */
  emptyRss: number
  /** Longest time between the ends of two operations, in ms; other programs on the machine add to it. */
  pause: number
  /** Most processor time of 16 operations in a row, all threads, in ms: the pause without those others. */
  cpu: number
  /** Mean of one operation, in µs, two readings of the clock included. */
  mean: number
}
type Hit = (key: string) => void | Promise<unknown>
interface LocalStore {
  incr(key: string, done: () => void, timeWindow: number, max: number): void
}

const DAY = 86_400_000
const LocalStore = createRequire(import.meta.url)('@fastify/rate-limit/store/LocalStore.js') as new (
  continueExceeding: boolean,
  exponentialBackoff: boolean,
  cache: number
) => LocalStore

/** How often each key comes, and what a hit does. */
const subjects: Record<string, { hits: number; open(keys: number): Hit }> = {
  'no store': { hits: 1, open: () => () => {} },
  'arena, log of 1': { hits: 1, open: keys => arenaLog(keys, 1) },
  'arena, log of 10 at once': { hits: 1, open: keys => arenaLog(keys, 10) },
  'arena, log of 10 grown': { hits: 10, open: keys => arenaLog(keys, 1) },
  '@fastify/rate-limit LocalStore': { hits: 1, open: localStore },
  'rate-limiter-flexible Memory': { hits: 1, open: flexible }
}

/** Adds `stamps` to the log of a key, newest first. */
function arenaLog(keys: number, stamps: number): Hit {
  const arena = new Arena({ maxKeys: keys })
  let now = 1
  return key => {
    const known = arena.find(key, 1)
    const length = arena.length(known)
    const record = arena.resize(key, 1, known, length + stamps)
    arena.move(record, stamps, 0, length)
    for (let i = 0; i < stamps; i++) arena.set(record, i, ++now)
    arena.touch(record, now + DAY * 100)
    arena.expire(now, 2)
  }
}

function localStore(keys: number): Hit {
  const store = new LocalStore(false, false, keys)
  const done = () => {}
  return key => store.incr(key, done, DAY, 10)
}

function flexible(): Hit {
  const limiter = new RateLimiterMemory({ points: 10, duration: DAY / 1000 })
  return key => limiter.consume(key)
}

async function fill(hit: Hit, keys: number, hits: number): Promise<Pick<Figures, 'pause' | 'cpu' | 'mean'>> {
  let [pause, cpu, sum, lastCpu, last] = [0, 0, 0, cpuTime(), performance.now()]
  for (let i = 0; i < keys * hits; i++) {
    const key = hash('md5', String(i % keys), 'base64url')
    const start = performance.now()
    const pending = hit(key)
    if (pending) await pending
    const end = performance.now()
    sum += end - start
    if (end - last > pause) pause = end - last
    last = end
    if (i % 16 > 0) continue
    const spent = cpuTime()
    cpu = Math.max(cpu, spent - lastCpu)
    lastCpu = spent
  }
  return { pause, cpu, mean: (sum / keys / hits) * 1000 }
}

function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function used(): { bytes: number; rss: number } {
  for (let i = 0; i < 4; i++) globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage() // external includes arrayBuffers
  return { bytes: heapUsed + external, rss }
}

async function measure(name: string, keys: number): Promise<Figures> {
  const subject = subjects[name]
  if (!subject) throw new Error(name)
  await fill(subject.open(5_000), 5_000, subject.hits) // compiles what is measured
  const before = used()
  const hit = subject.open(keys)
  const empty = used()
  const speed = await fill(hit, keys, subject.hits)
  const after = used()
  await hit(hash('md5', '0', 'base64url')) // the store must outlive the measuring
  return {
    bytes: (after.bytes - before.bytes) / keys,
    rss: (after.rss - before.rss) / keys,
    emptyRss: (empty.rss - before.rss) / 1e6,
    ...speed
  }
}

async function inChild(name: string, keys: number): Promise<Figures> {
  const script = fileURLToPath(import.meta.url)
  const args = ['--expose-gc', script, '--subject', name, '--keys', String(keys)]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 })
  return JSON.parse(stdout)
}

async function compare(how: ReturnType<typeof commandLine>): Promise<void> {
  const { quick } = how.size
  const sizes = quick ? [10_000, 100_000] : [10_000, 100_000, 1_000_000]
  const deadline = performance.now() + (quick ? 10_000 : 110_000) // nothing new is begun after it
  const samples: Samples = new Map()
  let rounds = 0
  for (; rounds < 5 && performance.now() < deadline; rounds++) {
    for (const keys of sizes) {
      for (const name of Object.keys(subjects)) {
        if (rounds > 0 && performance.now() > deadline) break
        const cell = `${keys} ${name}`
        samples.set(cell, [...(samples.get(cell) ?? []), { ...(await inChild(name, keys)) }])
      }
    }
  }
  const units = 'bytes, rss: a key; emptyRss: MB; pause: longest, ms; cpu: most for 16 in a row, ms; mean: µs'
  const most = sizes.at(-1)
  const log = (n: string) => `${most} arena, log of ${n}`
  const peer = `${most} rate-limiter-flexible Memory`
  report({ ...how, size: { ...how.size, rounds } }, units, samples, [
    { name: 'bytes a key, log of 1', of: log('1'), column: 'bytes', atMost: 45 },
    { name: 'bytes a key, log of 10', of: log('10 grown'), column: 'bytes', atMost: 80 },
    { name: 'bytes, log of 10 ÷ rate-limiter-flexible', of: log('10 grown'), by: peer, column: 'bytes' },
    { name: 'longest pause, ms', of: log('10 grown'), column: 'pause', atMost: 5 },
    { name: 'longest pause ÷ rate-limiter-flexible', of: log('10 grown'), by: peer, column: 'pause' }
  ])
}

const { values } = parseArgs({
  options: { subject: { type: 'string' }, keys: { type: 'string' } },
  strict: false
})
if (typeof values.subject === 'string') {
  console.log(JSON.stringify(await measure(values.subject, Number(values.keys))))
  process.exit() // timers of a day may be pending
} else await compare(commandLine())

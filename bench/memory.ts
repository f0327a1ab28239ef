// How many bytes does a tracked key take, and how long is the longest pause while a store fills?
// npm run bench -- memory [--quick] [--json file]
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { Arena } from '../plugin/store/arena.js'
import { TICKS_PER_MS } from '../plugin/store/store.js'
import { cpuTime } from './lib/child.js'
import { commandLine, report } from './lib/report.js'
import type { Samples } from './lib/rounds.js'

interface Figures {
  /** Heap and array buffers, in bytes per key. */
  bytes: number
  /** Resident memory, in bytes per key. */
  rss: number
  /** Resident memory of the empty store, in MB. */
  emptyRss: number
  /** Longest time between the ends of two operations, in ms; other programs on the machine may prolong it. */
  pause: number
  /** Most processor time of 16 operations in a row, all threads, in ms: the pause without other programs. */
  cpu: number
  /** Mean time of an operation, in µs, including two readings of the clock. */
  mean: number
}
/** Implemented by classes, so that all objects of one share what Node has compiled. */
interface Subject {
  hit(key: string): void | Promise<unknown>
}
interface LocalStore {
  incr(key: string, done: () => void, timeWindow: number, max: number): void
}

const DAY = 86_400_000
const WARM_KEYS = 20_000
const LocalStore = createRequire(import.meta.url)('@fastify/rate-limit/store/LocalStore.js') as new (
  continueExceeding: boolean,
  exponentialBackoff: boolean,
  cache: number
) => LocalStore

class Nothing implements Subject {
  hit(): void {}
}

/**
 * Each hit adds `stamps` stamps to the log of a key, newest first. All hits are within a day, in a process a year old.
 */
class ArenaLog implements Subject {
  readonly #arena: Arena
  readonly #step: number
  #now = 366 * DAY * TICKS_PER_MS

  constructor(
    keys: number,
    hits: number,
    readonly stamps: number
  ) {
    this.#arena = new Arena({ maxKeys: keys })
    this.#step = Math.floor((DAY * TICKS_PER_MS) / (keys * hits * stamps))
  }

  hit(key: string): void {
    const { stamps } = this
    const arena = this.#arena
    const known = arena.find(key, 1)
    const length = arena.length(known)
    const record = arena.resize(key, 1, known, length + stamps, true)
    arena.move(record, stamps, 0, length)
    this.#now += this.#step * stamps
    for (let i = 0; i < stamps; i++) arena.set(record, i, this.#now - i * this.#step)
    arena.touch(record, this.#now + DAY * TICKS_PER_MS)
    arena.expire(this.#now, 2)
  }
}

class Local implements Subject {
  readonly #store: LocalStore
  readonly #done = () => {}

  constructor(keys: number) {
    this.#store = new LocalStore(false, false, keys)
  }

  hit(key: string): void {
    this.#store.incr(key, this.#done, DAY, 10)
  }
}

class Flexible implements Subject {
  readonly #limiter = new RateLimiterMemory({ points: 10, duration: DAY / 1000 })

  hit(key: string): Promise<unknown> {
    return this.#limiter.consume(key)
  }
}

/** Each subject with how often each key comes. */
const subjects: Record<string, { hits: number; open(keys: number): Subject }> = {
  'no store': { hits: 1, open: () => new Nothing() },
  'arena, log of 1': { hits: 1, open: keys => new ArenaLog(keys, 1, 1) },
  'arena, log of 10 at once': { hits: 1, open: keys => new ArenaLog(keys, 1, 10) },
  'arena, log of 10 grown': { hits: 10, open: keys => new ArenaLog(keys, 10, 1) },
  '@fastify/rate-limit LocalStore': { hits: 1, open: keys => new Local(keys) },
  'rate-limiter-flexible Memory': { hits: 1, open: () => new Flexible() }
}

async function fill(
  store: Subject,
  keys: number,
  hits: number
): Promise<Pick<Figures, 'pause' | 'cpu' | 'mean'>> {
  let [pause, cpu, sum, lastCpu, last] = [0, 0, 0, cpuTime(), performance.now()]
  for (let i = 0; i < keys * hits; i++) {
    const key = hash('md5', String(i % keys), 'base64url')
    const start = performance.now()
    const pending = store.hit(key)
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
  return { pause, cpu: cpu / 1000, mean: (sum / keys / hits) * 1000 }
}

function used(): { bytes: number; rss: number } {
  for (let i = 0; i < 4; i++) globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage() // external includes arrayBuffers
  return { bytes: heapUsed + external, rss }
}

async function measure(name: string, keys: number): Promise<Figures> {
  const subject = subjects[name]
  if (!subject) throw new Error(name)
  // Makes Node compile what is measured. `warm` is kept, since Node drops some of the code with the last object of a
  // class.
  const warm = subject.open(WARM_KEYS)
  for (let i = 0; i < 2; i++) await fill(warm, WARM_KEYS / 2, subject.hits)
  const before = used()
  const store = subject.open(keys)
  const empty = used()
  const speed = await fill(store, keys, subject.hits)
  const after = used()
  for (const each of [warm, store]) await each.hit(hash('md5', '0', 'base64url')) // both must outlive the measuring
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
  for (; rounds < how.size.rounds && performance.now() < deadline; rounds++) {
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
    { name: 'most processor time in a row, ms', of: log('10 grown'), column: 'cpu', atMost: 5 },
    { name: 'longest pause ÷ no store', of: log('10 grown'), by: `${most} no store`, column: 'pause' },
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

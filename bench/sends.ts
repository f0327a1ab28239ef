// By how much does a process grow that has decided on 100,000 sends, each of somebody else, in memory?
// npm run bench -- sends [--quick] [--json file]
import { setTimeout } from 'node:timers/promises'
import { answer, asked, Child } from './lib/child.js'
import { closing } from './lib/closing.js'
import { pinning, SERVER_CORE } from './lib/cores.js'
import { fastifyRateLimit, flexible, type Limiter, ours } from './lib/limiters.js'
import { FIVE, sendOf } from './lib/policy.js'
import { commandLine, report } from './lib/report.js'
import { interleave, type Sample } from './lib/rounds.js'

const subjects: Record<string, () => unknown> = {
  'ours, 5 rules': () => ours(FIVE),
  'rate-limiter-flexible, 4': () => flexible(),
  '@fastify/rate-limit, 4': () => fastifyRateLimit()
}
const SENDS = 100_000
/** Sends before the measurement, by which Node compiles the code, so that it is not counted. */
const WARM_UP = 2_000
/**
 * V8's young generation has its full size from the start. It would double once, by 16 MiB, sooner or later, whatever
 * makes garbage.
 */
const FLAGS = ['--min-semi-space-size=16']
const MIB = 2 ** 20
/** How long each send is counted. */
const WINDOW_MS = 60_000
const HEAP = 'heap and buffers, MiB'
const RESIDENT = 'resident, MiB'

async function used() {
  // Several times, to collect also what is released in the next turns of the event loop.
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.()
    await setTimeout(50)
  }
  const { heapUsed, external, rss } = process.memoryUsage() // external includes arrayBuffers
  return { heap: (heapUsed + external) / MIB, rss: rss / MIB }
}

async function send(limiter: Limiter, from: number, count: number): Promise<void> {
  for (let i = from; i < from + count; i++) if (!(await limiter.decide(sendOf(i)))) throw new Error('refused')
}

/** A function of its own, so that nothing it used is held at the first reading of memory and gone at the second. */
async function warmUp(open: () => Promise<Limiter>): Promise<void> {
  const limiter = await open()
  await send(limiter, 0, WARM_UP)
  await limiter.close()
}

/** Answers a count when it has sent so many more, and 0 with the MiB that all sends have taken. */
async function child([name = '']: string[]): Promise<void> {
  const open = subjects[name] as () => Promise<Limiter>
  await warmUp(open)
  const before = await used()
  const limiter = await open()
  const start = performance.now()
  let next = WARM_UP
  answer(async (count: number): Promise<Sample | undefined> => {
    await send(limiter, next, count)
    next += count
    if (count > 0) return
    const after = await used()
    await limiter.decide(sendOf(next)) // it must outlive the measuring
    if (performance.now() - start > WINDOW_MS) throw new Error('too slow: the first sends have expired')
    return { [HEAP]: after.heap - before.heap, [RESIDENT]: after.rss - before.rss }
  })
}

async function measure(name: string, count: number): Promise<Sample> {
  let sample: Sample = {}
  await closing(async own => {
    const process = await Child.start(own, import.meta.url, [name], SERVER_CORE, { flags: FLAGS })
    for (let i = 0; i < 10; i++) await process.ask(count / 10)
    sample = await process.ask<Sample>(0)
  })
  return sample
}

async function main(): Promise<void> {
  const how = commandLine()
  const count = how.size.scale(SENDS, SENDS / 10)
  // `quick`, since each process warms up by itself: no round is needed for that.
  const size = { ...how.size, quick: true }
  const samples = await interleave(Object.keys(subjects), size, name => measure(name, count))
  const [of, by] = ['ours, 5 rules', 'rate-limiter-flexible, 4']
  report(how, `growth of a process by ${count} sends; ${pinning()}`, samples, [
    { name: `${count} sends, ${HEAP}`, of, column: HEAP, atMost: 25 },
    { name: `${count} sends, ${RESIDENT}`, of, column: RESIDENT, atMost: 25 },
    { name: `${of} ÷ ${by}, heap and buffers`, of, by, column: HEAP },
    { name: `${of} ÷ ${by}, resident`, of, by, column: RESIDENT }
  ])
}

const role = asked()
if (role) await child(role)
else await main()

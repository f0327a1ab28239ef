// For a concealed purpose, does the time of the answer tell a known recipient from a blocked one?
// npm run bench -- conceal [--quick] [--samples 1000]
import { randomBytes, randomInt } from 'node:crypto'
import { Agent, request } from 'node:http'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startRedis } from '../test/helper/redis.js'
import { equivalenceOf } from './conceal/equivalence.js'
import { type Server, startMailServer, startServer } from './conceal/server.js'
import { Closing } from './lib/closing.js'
import { machine } from './lib/machine.js'

/** How far apart the means may be, in milliseconds. */
const MARGIN = 5
/** So many that both stores together are done within two minutes. */
const SAMPLES = { all: 400, quick: 20 }
type Group = 'known' | 'suppressed'

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** Posts. @returns the milliseconds until the whole answer is here */
async function post({ url, headers }: Server, path: string, body: object, expected: number): Promise<number> {
  const text = JSON.stringify(body)
  const began = performance.now()
  const status = await new Promise<number>((resolve, reject) => {
    const sent = request(`${url}${path}`, { method: 'POST', agent, headers, timeout: 10_000 }, answer => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.on('timeout', () => sent.destroy(new Error('no answer'))).on('error', reject)
    sent.end(text)
  })
  const took = performance.now() - began
  if (status !== expected) throw new Error(`${path} was answered ${status}`)
  return took
}

/** As many of each group, in random order. */
function shuffled(each: number): Group[] {
  const groups = Array.from({ length: 2 * each }, (_, i): Group => (i < each ? 'known' : 'suppressed'))
  for (let i = groups.length - 1; i > 0; i--) {
    const j = randomInt(i + 1)
    ;[groups[i], groups[j]] = [groups[j] as Group, groups[i] as Group]
  }
  return groups
}

async function measure(server: Server, samples: number, warmUp: number): Promise<Record<Group, number[]>> {
  const times: Record<Group, number[]> = { known: [], suppressed: [] }
  // No recipient is used twice. All addresses are of one kind and length.
  const asked = [...shuffled(warmUp / 2), ...shuffled(samples)].map(group => ({
    group,
    email: `${randomBytes(8).toString('hex')}@example.com`
  }))
  for (const { group, email } of asked) {
    if (group === 'suppressed') await post(server, '/v1/admin/recipients/block', { email }, 200)
  }
  for (const [i, { group, email }] of asked.entries()) {
    // The message before may still be under way, which is equally likely for both groups.
    await sleep(randomInt(20, 60))
    const took = await post(server, '/v1/captcha', { email, purpose: 'reset-password' }, 202)
    if (i >= warmUp) times[group].push(took)
  }
  return times
}

function figures(values: readonly number[]) {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (part: number) => round(sorted[Math.round(part * (sorted.length - 1))] as number)
  return {
    n: values.length,
    mean: round(values.reduce((sum, each) => sum + each, 0) / values.length),
    median: at(0.5),
    p95: at(0.95)
  }
}

const round = (ms: number) => Number(ms.toFixed(3))

async function compare(store: string, samples: number, warmUp: number) {
  const all = new Closing()
  try {
    const env: NodeJS.ProcessEnv = { SMTP_URL: await startMailServer(all) }
    if (store === 'redis') env.REDIS_URL = (await startRedis(all)).url
    const times = await measure(await startServer(all, env), samples, warmUp)
    const { difference, interval, equivalent } = equivalenceOf(times.known, times.suppressed, MARGIN)
    return {
      store,
      known: figures(times.known),
      suppressed: figures(times.suppressed),
      difference: round(difference),
      interval: interval.map(round),
      equivalent
    }
  } finally {
    await all.close()
  }
}

const { values } = parseArgs({ options: { quick: { type: 'boolean' }, samples: { type: 'string' } } })
const samples = Number(values.samples ?? SAMPLES[values.quick ? 'quick' : 'all'])
const load = loadavg()[0]?.toFixed(1)
const results = []
for (const store of ['memory', 'redis']) results.push(await compare(store, samples, values.quick ? 20 : 100))
agent.destroy()

const about = { date: new Date().toISOString(), machine, node: process.version, load, marginMs: MARGIN }
console.log(`${about.date}, ${machine}, Node ${about.node}, load ${load}; POST /v1/captcha, ms`)
console.table(
  Object.fromEntries(
    results.flatMap(each =>
      (['known', 'suppressed'] as const).map(group => [`${each.store} ${group}`, each[group]])
    )
  )
)
for (const { store, difference, interval, equivalent } of results) {
  const verdict = equivalent ? 'equivalent' : 'not shown to be equivalent'
  console.log(
    `${store}: difference of the means ${difference} ms, 90 % interval ${interval.join(' to ')} ms: ${verdict} within ±${MARGIN} ms at 95 %`
  )
}
console.log(JSON.stringify({ ...about, results }))

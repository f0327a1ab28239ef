// How many requests a second does a server answer, and how fast, when it limits none, one or five rules?
// npm run bench -- http [--quick] [--json file]
import { Child } from './lib/child.js'
import { type Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pinning, SERVER_CORE } from './lib/cores.js'
import { FLOODED, type Load, type Loaded, type Scenario } from './lib/load.js'
import { openRedis } from './lib/redis.js'
import { type Comparison, commandLine, report } from './lib/report.js'
import { type Sample, type Samples, summarize } from './lib/rounds.js'
import { names } from './lib/server.js'

const CONNECTIONS = 32
/** After this many requests Node has compiled all that answers, including a Redis client. */
const COMPILED = 60_000
/** How many processes are measured of a subject with a target, since Node compiles each in its own way. */
const PROCESSES = 3
/** Long enough for any count of requests. */
const UNTIL_DONE_MS = 50_000
/** A subject and its floor take turns: how long each time, and how often in a round. The first time is to warm up. */
const SLICE_MS = 120
const SLICES = 5
/** Requests a second as a share of the floor's, in the same round. */
const SHARE = 'of its floor'
/** The subjects of a quick run. */
const QUICK = /^bare|ours, 5 rules, (memory|Redis)$/
const SCENARIOS: Scenario[] = ['admit-all', 'deny-flood', 'mixed']
const USUAL = { connections: CONNECTIONS, flood: 0, awake: false }
const module = (name: string) => new URL(`./lib/${name}.js`, import.meta.url).href

/** The scenarios that are meaningful for a subject. */
function scenariosOf(name: string): Scenario[] {
  if (name === 'bare 429' || /refusalCache$|its block$/.test(name)) return ['deny-flood']
  if (/^bare$|end of turn$|^EVALSHA|no limits$/.test(name)) return ['admit-all']
  return /, 1, /.test(name) ? ['admit-all', 'deny-flood'] : SCENARIOS
}

/** The floor in a scenario: a route without limits, which answers as a limited route does there. */
function floorOf(scenario: Scenario): string {
  return scenario === 'deny-flood' ? 'bare 429' : 'bare'
}

type Slice = Loaded & { cpu: number }
type Ask = (
  scenario: Scenario,
  ms: number,
  options?: Partial<Pick<Load, 'count' | 'flood' | 'awake'>>
) => Promise<Slice>

function sum(slices: readonly Slice[], of: keyof Slice): number {
  return slices.reduce((all, slice) => all + slice[of], 0)
}

/** Measures each subject in turn with its floor. The others do not run meanwhile, since an idle process gets slow. */
async function bench(all: Closing): Promise<void> {
  const how = commandLine()
  const { size } = how
  const redis = await openRedis(all, LOAD_CORE)
  const load = await Child.start(all, module('load'), [], LOAD_CORE)
  let from = 1_000

  async function start(own: Closing, name: string): Promise<Ask> {
    const child = await Child.start(own, module('server'), [name, redis.url], SERVER_CORE)
    const port = await child.ask<number>('port')
    const ask: Ask = async (scenario, ms, options) => {
      const before = await child.ask<number>('cpu')
      const work: Load = { ...USUAL, port, scenario, ms, from, ...options }
      const loaded = await load.ask<Loaded>(work)
      from = loaded.next
      return { ...loaded, cpu: (await child.ask<number>('cpu')) - before }
    }
    await ask('mixed', UNTIL_DONE_MS, { count: size.scale(COMPILED, 500) })
    return ask
  }

  async function measure(ask: Ask, floor: Ask, scenario: Scenario, awake: boolean): Promise<Sample> {
    await redis.client.flushdb()
    // Other sends than before, since a cache may still refuse those. Each send of the flood is admitted once.
    const flood = from
    from += FLOODED
    if (scenario !== 'admit-all') await ask('deny-flood', 10_000, { count: 2 * FLOODED, flood })
    const [least, own]: [Slice[], Slice[]] = [[], []]
    for (let slice = 0; slice < size.scale(SLICES, 2); slice++) {
      for (const [slices, each] of [
        [least, floor],
        [own, ask]
      ] as const) {
        const measured = await each(scenario, size.scale(SLICE_MS, 30), { flood, awake })
        if (slice > 0) slices.push(measured)
      }
    }
    const [requests, seconds] = [sum(own, 'requests'), sum(own, 'seconds')]
    return {
      'requests/s': requests / seconds,
      [SHARE]: requests / seconds / (sum(least, 'requests') / sum(least, 'seconds')),
      'p50, ms': summarize(own.map(({ p50 }) => p50)).median,
      'p99, ms': summarize(own.map(({ p99 }) => p99)).median,
      'server, µs a request': sum(own, 'cpu') / requests,
      'server busy, %': sum(own, 'cpu') / seconds / 10_000,
      'admitted, %': (sum(own, 'admitted') / requests) * 100
    }
  }

  const samples: Samples = new Map()
  const floors = new Map<string, Ask>()
  for (const name of ['bare', 'bare 429']) floors.set(name, await start(all, name))
  for (const name of names.filter(name => !size.quick || QUICK.test(name))) {
    const scenarios = scenariosOf(name)
    const aimed = scenarios.some(scenario => targetOf(`${scenario}: ${name}`))
    for (let process = 0; process < (aimed ? size.scale(PROCESSES, 1) : 1); process++)
      await closing(async own => {
        const ask = await start(own, name)
        for (const scenario of scenarios) {
          const floor = floors.get(floorOf(scenario)) as Ask
          const awake = !name.endsWith(', Redis')
          const cell = samples.get(`${scenario}: ${name}`) ?? []
          for (let round = 0; round < size.rounds; round++)
            cell.push(await measure(ask, floor, scenario, awake))
          samples.set(`${scenario}: ${name}`, cell)
        }
      })
  }
  report(how, `${CONNECTIONS} connections; ${pinning()}`, samples, comparisons([...samples.keys()]))
}

/** The target of each cell: its share of its floor. */
const targets: [string, number][] = [
  // Meant to be 1; 0.97 is as near as can be measured.
  ['admit-all: plugin registered, no limits', 0.97],
  ['admit-all: ours, 5 rules, memory', 0.8],
  ['admit-all: ours, 5 rules, Redis', 0.75],
  ['deny-flood: ours, 5 rules, Redis, refusalCache', 0.9],
  ['mixed: ours, 5 rules, memory', 0.8],
  ['mixed: ours, 5 rules, Redis', 0.65]
]

function targetOf(cell: string): number | undefined {
  return targets.find(([name]) => name === cell)?.[1]
}

function comparisons(cells: string[]): Comparison[] {
  return cells.map(cell => {
    const [scenario] = cell.split(': ') as [Scenario]
    const atLeast = targetOf(cell)
    const name = `${cell} ÷ ${floorOf(scenario)}`
    return { name, of: cell, column: SHARE, ...(atLeast && { atLeast }) }
  })
}

await closing(bench)

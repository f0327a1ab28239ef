// How many requests a second does a server answer, and how fast, when it limits none, one or five rules?
// npm run bench -- http [--quick] [--json file]
import { Child } from './lib/child.js'
import { type Closing, closing } from './lib/closing.js'
import { LOAD_CORE, pinning, SERVER_CORE } from './lib/cores.js'
import { FLOODED, type Load, type Loaded, type Scenario } from './lib/load.js'
import { openRedis } from './lib/redis.js'
import { type Comparison, commandLine, report } from './lib/report.js'
import { interleave } from './lib/rounds.js'
import { names as all } from './lib/server.js'

const CONNECTIONS = 32
/** What a quick run looks at. */
const QUICK = /^bare|ours, 5 rules, (memory|Redis)$/
const SCENARIOS: Scenario[] = ['admit-all', 'deny-flood', 'mixed']
const module = (name: string) => new URL(`./lib/${name}.js`, import.meta.url).href

/** Which scenarios say something about a subject. */
function scenariosOf(name: string): Scenario[] {
  if (name === 'bare 429' || name.endsWith('refusalCache')) return ['deny-flood']
  return /^bare$|^EVALSHA|no limits$/.test(name) ? ['admit-all'] : SCENARIOS
}

async function bench(closing: Closing): Promise<void> {
  const how = commandLine()
  const { size } = how
  const redis = await openRedis(closing, LOAD_CORE)
  const load = await Child.start(closing, module('load'), [], LOAD_CORE)
  const servers = new Map<string, { child: Child; port: number }>()
  const start = async (name: string) => {
    const child = await Child.start(closing, module('server'), [name, redis.url], SERVER_CORE)
    const port = await child.ask<number>('port')
    if (port > 0) servers.set(name, { child, port })
    else console.log(`skipped, the option is not there: ${name}`)
  }
  await Promise.all(all.filter(name => !size.quick || QUICK.test(name)).map(start))

  const cells = all
    .filter(name => servers.has(name))
    .flatMap(name => scenariosOf(name).map(scenario => ({ name, scenario, cell: `${scenario}: ${name}` })))
  let next = 1_000
  const ask = async (name: string, scenario: Scenario, ms: number, count?: number) => {
    const { child, port } = servers.get(name) as { child: Child; port: number }
    const before = await child.ask<number>('cpu')
    const work: Load = { port, scenario, connections: CONNECTIONS, ms, from: next, ...(count && { count }) }
    const loaded = await load.ask<Loaded>(work)
    next = loaded.next
    return { ...loaded, cpu: (await child.ask<number>('cpu')) - before }
  }
  const samples = await interleave(
    cells.map(each => each.cell),
    size,
    async cell => {
      const { name, scenario } = cells.find(each => each.cell === cell) as (typeof cells)[number]
      await redis.client.flushdb()
      // What floods was admitted once.
      if (scenario !== 'admit-all') await ask(name, 'deny-flood', 10_000, 2 * FLOODED)
      const { requests, seconds, admitted, p50, p99, cpu } = await ask(name, scenario, size.scale(250, 60))
      return {
        'requests/s': requests / seconds,
        'p50, ms': p50,
        'p99, ms': p99,
        'server, µs a request': cpu / requests,
        'server busy, %': cpu / seconds / 10_000,
        'admitted, %': (admitted / requests) * 100
      }
    }
  )
  report(how, `${CONNECTIONS} connections; ${pinning()}`, samples, comparisons(cells.map(each => each.cell)))
}

/** What the share of the bare route is to be, by the beginning of the cell's name. */
const targets: [string, number][] = [
  // No less, as near as can be measured.
  ['admit-all: plugin registered, no limits', 0.97],
  ['admit-all: ours, 5 rules, memory', 0.8],
  ['admit-all: ours, 5 rules, Redis', 0.75],
  ['deny-flood: ours, 5 rules, Redis, refusalCache', 0.9],
  ['mixed: ours, 5 rules, memory', 0.8],
  ['mixed: ours, 5 rules, Redis', 0.65]
]

function comparisons(cells: string[]): Comparison[] {
  return cells
    .filter(cell => !/: bare/.test(cell))
    .map(cell => {
      const by = cell.startsWith('deny') ? 'deny-flood: bare 429' : 'admit-all: bare'
      const atLeast = targets.find(([name]) => name === cell)?.[1]
      const name = `${cell} ÷ ${by.replace(/^.*: /, '')}`
      return { name, of: cell, by, column: 'requests/s', ...(atLeast && { atLeast }) }
    })
}

await closing(bench)

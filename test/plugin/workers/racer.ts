import Fastify from 'fastify'
import { Redis } from 'ioredis'
import limitPlugin, { type Rule } from '../../../plugin/index.js'
import { sharedOptions } from '../settlement/places.js'

/** One request of a race. */
export interface Entrant {
  path: string
  query: Record<string, string>
  /** What the handler answers, if it is reached. */
  status: number
}
/** Message to a worker: make these requests at once, or `go`, let the waiting handlers end. */
export type Order = { requests: Entrant[]; wait: boolean } | 'go'
/** Message from a worker: how many handlers wait and how many requests are answered, then all answers in order. */
export type Report = { waiting: number; answered: number } | { statuses: number[] }

/** One of several processes on one Redis. It makes its requests when it is ordered to. */
const [redisUrl = '', prefix = '', given = '{}'] = process.argv.slice(2)
const routes = JSON.parse(given) as Record<string, Rule[]>
const app = Fastify()
await app.register(limitPlugin, {
  ...sharedOptions(prefix),
  client: new Redis(redisUrl),
  rules: Object.values(routes).flat()
})

let wait = false
let waiting: (() => void)[] = []
let answered = 0
for (const [path, rules] of Object.entries(routes)) {
  const config = { limit: rules.map(rule => rule.name) }
  app.get<{ Querystring: { status: string } }>(path, { config }, async (request, reply) => {
    if (wait) {
      await new Promise<void>(resolve => {
        waiting.push(resolve)
        tell()
      })
    }
    return reply.code(Number(request.query.status)).send({})
  })
}
await app.ready()

function report(what: Report): void {
  process.send?.(what)
}

// One report for everything that happens in one turn.
let told = true
function tell(): void {
  if (!wait || !told) return
  told = false
  setImmediate(() => {
    told = true
    if (wait) report({ waiting: waiting.length, answered })
  })
}

async function race(requests: Entrant[]): Promise<void> {
  const statuses = requests.map(async ({ path, query, status }) => {
    const reply = await app.inject({ url: path, query: { ...query, status: `${status}` } })
    answered++
    tell()
    return reply.statusCode
  })
  const all = await Promise.all(statuses)
  wait = false
  report({ statuses: all })
}

process.on('message', (order: Order) => {
  if (order === 'go') {
    for (const go of waiting.splice(0)) go()
    return
  }
  wait = order.wait
  waiting = []
  answered = 0
  void race(order.requests)
})
// Without its parent the worker is of no use.
process.on('disconnect', () => process.exit())
report({ statuses: [] })

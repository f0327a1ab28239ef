import type { AddressInfo } from 'node:net'
import Fastify, { type FastifyInstance, LogController } from 'fastify'
import type { Redis } from 'ioredis'
import { cohort } from '../../plugin/cohort.js'
import limitPlugin, { type SendLimitOptions } from '../../plugin/index.js'
import { answer, asked, cpuTime } from './child.js'
import { Closing } from './closing.js'
import { FLOOR, floor } from './floors.js'
import { checksOf, flexible, STRICT } from './limiters.js'
import { FIVE, rules, type Send, textsOf } from './policy.js'
import { connect } from './redis.js'

/** A question to the server: its port, or the processor time that it has used, in µs. */
type Question = 'port' | 'cpu'

const WINDOWS = [0, 1, 2, 3]
const PROBLEM = {
  type: 'about:blank',
  title: 'Too many requests',
  status: 429,
  detail: 'limit reached: mobile'
}

function sendOf(request: { body: unknown; ip: string }): Send {
  return { ...(request.body as Omit<Send, 'ip'>), ip: request.ip }
}

/** Each adds `POST /send` to a bare app. Those that limit the route do so after the body is parsed. */
const subjects: Record<string, (app: FastifyInstance, client: Redis) => unknown> = {
  bare: app => route(app),
  // The floor of a limiter that decides at the end of the turn.
  'bare, end of turn': app => {
    app.addHook('preHandler', () => cohort())
    route(app)
  },
  'bare 429': app => {
    app.post('/send', async (_request, reply) =>
      reply
        .code(429)
        .type('application/problem+json')
        .header('retry-after', '60')
        .send(JSON.stringify(PROBLEM))
    )
  },
  // The floor of a limiter that asks Redis once.
  [`${FLOOR}, Redis`]: async (app, client) => {
    const limiter = await floor(client)
    app.addHook('preHandler', async request => {
      await limiter.decide(sendOf(request))
    })
    route(app)
  },
  'plugin registered, no limits': async app => {
    await app.register(limitPlugin, { rules })
    app.post('/limited', { config: { limit: FIVE } }, async () => 'sent')
    route(app)
  },
  'ours, 1 rule, memory': app => limited(app, ['mobile'], {}),
  'ours, 5 rules, memory': app => limited(app, FIVE, {}),
  'ours, 1 rule, Redis': (app, client) => limited(app, ['mobile'], { client }),
  'ours, 5 rules, Redis': (app, client) => limited(app, FIVE, { client }),
  'ours, 1 rule, Redis, refusalCache': (app, client) =>
    limited(app, ['mobile'], { client, refusalCache: '1s' }),
  'ours, 5 rules, Redis, refusalCache': (app, client) => limited(app, FIVE, { client, refusalCache: '1s' }),
  'rate-limiter-flexible, 4, memory': app => withFlexible(app),
  'rate-limiter-flexible, 4, Redis': (app, client) => withFlexible(app, client),
  'rate-limiter-flexible, 4, Redis, its block': (app, client) => withFlexible(app, client, true),
  '@fastify/rate-limit, 1, memory': app => withHook(app),
  '@fastify/rate-limit, 4, memory': app => withChecks(app),
  '@fastify/rate-limit, 1, Redis': (app, client) => withHook(app, client),
  '@fastify/rate-limit, 4, Redis': (app, client) => withChecks(app, client)
}

function route(app: FastifyInstance, options: object = {}): void {
  app.post('/send', options, async (_request, reply) => reply.code(202).send({ sent: true }))
}

async function limited(app: FastifyInstance, limit: string[], options: object): Promise<void> {
  await app.register(limitPlugin, { rules, ...STRICT, ...options } as SendLimitOptions)
  route(app, { config: { limit } })
}

/** In a hook, as in the guide of rate-limiter-flexible: refusals are 429 with Retry-After. */
function withFlexible(app: FastifyInstance, client?: Redis, blocks = false): void {
  const limiter = flexible(client, WINDOWS, blocks)
  app.addHook('preHandler', async (request, reply) => {
    if (!(await limiter.decide(sendOf(request))))
      return reply.code(429).header('retry-after', '60').send(PROBLEM)
  })
  route(app)
}

/** `@fastify/rate-limit` as it is meant to be used: with its own hook and headers. */
async function withHook(app: FastifyInstance, client?: Redis): Promise<void> {
  await app.register((await import('@fastify/rate-limit')).default, {
    hook: 'preHandler',
    max: 1,
    timeWindow: 60_000,
    cache: 1_000_000,
    keyGenerator: request => (request.body as Send).phone,
    ...(client && { redis: client })
  })
  route(app)
}

/**
 * `@fastify/rate-limit` with several windows: its hook runs once per request, so they are checked by hand, without
 * headers.
 */
async function withChecks(app: FastifyInstance, client?: Redis): Promise<void> {
  const checks = await checksOf(app, client)
  app.addHook('preHandler', async (request, reply) => {
    const asked = { texts: textsOf(sendOf(request)), routeOptions: request.routeOptions }
    const all = await Promise.all(checks.map(check => check(asked)))
    if (all.some(each => each.isExceeded)) return reply.code(429).header('retry-after', '60').send(PROBLEM)
  })
  route(app)
}

/** The server writes what the plugin logs, but does not log requests. */
async function serve(name: string, url: string): Promise<void> {
  const logger = { level: 'info', file: '/dev/null' }
  const logController = new LogController({ disableRequestLogging: true })
  const app = Fastify({ logger, logController, trustProxy: true, keepAliveTimeout: 60_000 })
  app.decorateRequest('account', null)
  app.addHook('onRequest', (request, _reply, done) => {
    Object.assign(request, { account: { id: String(request.headers['x-account']) } })
    done()
  })
  await subjects[name]?.(app, connect(new Closing(), url))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  answer((question: Question) => (question === 'port' ? port : cpuTime()))
}

const [name = '', url = ''] = asked() ?? []
if (asked()) await serve(name, url)

export const names = Object.keys(subjects)

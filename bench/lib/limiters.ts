import { createRequire } from 'node:module'
import Fastify, { type FastifyInstance } from 'fastify'
import type { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import limitPlugin, { type Rule, type SendLimitOptions } from '../../plugin/index.js'
import { keysOf, PEER_MAX, plainRules, rules, type Send, textsOf } from './policy.js'

/** Asks about one send. */
export type Ask<Answer = unknown> = () => Promise<Answer>

export interface Limiter<Answer = unknown> {
  /** Makes the limiter's input from a send. */
  prepare(send: Send): Ask<Answer>
  /** Whether the answer admits the send. A rejection with anything but an error is a refusal. */
  admits(answer: Answer): boolean
  /** `prepare`, the question and `admits` in one. */
  decide(send: Send): Promise<boolean>
  close(): unknown
}

/** @param prepare must return the limiter's own function: an async function around it would be measured, too */
export function limiter<Answer>(
  prepare: Limiter<Answer>['prepare'],
  admits: Limiter<Answer>['admits'],
  close: Limiter['close'] = () => {}
): Limiter {
  return {
    prepare,
    admits: admits as Limiter['admits'],
    async decide(send) {
      try {
        return admits(await prepare(send)())
      } catch (error) {
        if (error instanceof Error) throw error
        return false
      }
    },
    close
  }
}

const MINUTE = 60
/** A long `timeout`, so that on a slow machine the stand-in memory does not decide in place of Redis. */
export const STRICT = { secret: 'at least 16 characters', timeout: '1m' } as const

async function opened(rules: Rule[], options: object): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(limitPlugin, { rules, ...STRICT, ...options } as SendLimitOptions)
  await app.ready()
  return app
}

/** Ours, by `fastify.limit.reserve`: the whole decision, including its keys. */
export async function ours(
  names: readonly string[],
  options: object = {},
  all: Rule[] = rules
): Promise<Limiter> {
  const app = await opened(all, options)
  return asking(app, send => keysOf(names, send))
}

/** Ours, with the same four strings that other limiters get. */
export async function oursPlain(options: object = {}): Promise<Limiter> {
  return asking(await opened(plainRules, options), send => {
    const [content, ip, mobile, mail] = textsOf(send)
    return { content, ip, mobile, 'mail-minute': mail }
  })
}

function asking(app: FastifyInstance, keysOf: (send: Send) => Record<string, unknown>): Limiter {
  return limiter(
    send => {
      const keys = keysOf(send)
      return () => app.limit.reserve(keys)
    },
    ({ allowed }) => allowed,
    () => app.close()
  )
}

/** rate-limiter-flexible: four limiters at once, or only those of `windows`. */
export function flexible(client?: Redis, windows = [0, 1, 2, 3], blocks = false): Limiter {
  const limiters = windows.map(i => {
    const options = { points: PEER_MAX[i] as number, duration: MINUTE, keyPrefix: String(i) }
    if (!client) return new RateLimiterMemory(options)
    const block = blocks ? { inMemoryBlockOnConsumed: options.points } : {}
    return new RateLimiterRedis({ ...options, ...block, storeClient: client })
  })
  const only = limiters.length === 1 ? limiters[0] : undefined
  return limiter<unknown>(
    send => {
      const texts = textsOf(send)
      const keys = windows.map(i => texts[i] as string)
      return () =>
        only
          ? only.consume(keys[0] as string)
          : Promise.all(limiters.map((limiter, i) => limiter.consume(keys[i] as string)))
    },
    () => true
  )
}

interface Checked {
  isExceeded?: boolean
}
type Check = (request: object) => Promise<Checked>

/** The manual checks of \@fastify/rate-limit, one for each window, since its hooks run only once per request. */
export async function checksOf(app: FastifyInstance, client?: Redis): Promise<Check[]> {
  const rateLimit = createRequire(import.meta.url)('@fastify/rate-limit')
  await app.register(rateLimit, { global: false, cache: 1_000_000, ...(client && { redis: client }) })
  const create = (app as unknown as { createRateLimit(options: object): Check }).createRateLimit
  return PEER_MAX.map((max, i) =>
    create({
      max,
      timeWindow: MINUTE * 1000,
      cache: 1_000_000,
      keyGenerator: (request: { texts: string[] }) => `${i}${request.texts[i]}`
    })
  )
}

export async function fastifyRateLimit(client?: Redis): Promise<Limiter> {
  const app = Fastify()
  const checks = await checksOf(app, client)
  const routeOptions = { config: {} }
  return limiter(
    send => {
      const request = { texts: textsOf(send), routeOptions }
      return () => Promise.all(checks.map(check => check(request)))
    },
    all => !all.some(each => each.isExceeded),
    () => app.close()
  )
}

interface ExpressStore {
  init(options: { windowMs: number }): void
  increment(key: string): Promise<{ totalHits: number }>
}

/** The stores of rate-limit-redis, without Express around them. */
export async function rateLimitRedis(client: Redis): Promise<Limiter> {
  const { RedisStore } = await import('rate-limit-redis')
  const stores = PEER_MAX.map(
    (_, i) =>
      new RedisStore({
        prefix: `express${i}:`,
        sendCommand: (command: string, ...args: string[]) => client.call(command, ...args) as never
      }) as unknown as ExpressStore
  )
  for (const store of stores) store.init({ windowMs: MINUTE * 1000 })
  return limiter(
    send => {
      const texts = textsOf(send)
      return () => Promise.all(stores.map((store, i) => store.increment(texts[i] as string)))
    },
    all => all.every(({ totalHits }, i) => totalHits <= (PEER_MAX[i] as number))
  )
}

import { createRequire } from 'node:module'
import Fastify, { type FastifyInstance } from 'fastify'
import type { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import limitPlugin, { type Rule, type SendLimitOptions } from '../../plugin/index.js'
import { FIVE, FOUR, keysOf, PEER_MAX, plainRules, rules, type Send, textsOf } from './policy.js'

/** Decides on one send. @returns whether it may go */
export interface Limiter {
  decide(send: Send): Promise<boolean>
  close(): unknown
}

const MINUTE = 60
/** A slow machine must not make memory decide in place of Redis. */
export const STRICT = { secret: 'at least 16 characters', timeout: '1m', onStoreError: 'deny' } as const

async function opened(rules: Rule[], options: object): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(limitPlugin, { rules, ...STRICT, ...options } as SendLimitOptions)
  await app.ready()
  return app
}

/** Ours, asked as `fastify.limit.reserve`: decision, keys and all. */
export async function ours(
  names: readonly string[],
  options: object = {},
  all: Rule[] = rules
): Promise<Limiter> {
  const app = await opened(all, options)
  return {
    decide: async send => (await app.limit.reserve(keysOf(names, send))).allowed,
    close: () => app.close()
  }
}

/** Ours with the same four strings that the others get. */
export async function oursPlain(): Promise<Limiter> {
  const app = await opened(plainRules, {})
  return {
    async decide(send) {
      const [content, ip, mobile, mail] = textsOf(send)
      return (await app.limit.reserve({ content, ip, mobile, 'mail-minute': mail })).allowed
    },
    close: () => app.close()
  }
}

/** rate-limiter-flexible: four limiters at once, or the one of the phone. */
export function flexible(client?: Redis, windows = [0, 1, 2, 3], blocks = false): Limiter {
  const limiters = windows.map(i => {
    const options = { points: PEER_MAX[i] as number, duration: MINUTE, keyPrefix: String(i) }
    if (!client) return new RateLimiterMemory(options)
    const block = blocks ? { inMemoryBlockOnConsumed: options.points } : {}
    return new RateLimiterRedis({ ...options, ...block, storeClient: client })
  })
  const used: string[][] = []
  return {
    async decide(send) {
      const texts = textsOf(send)
      const keys = windows.map(i => texts[i] as string)
      if (!client) used.push(keys)
      try {
        await Promise.all(limiters.map((limiter, i) => limiter.consume(keys[i] as string)))
        return true
      } catch (error) {
        if (error instanceof Error) throw error
        return false
      }
    },
    // Each key has a timer of a minute.
    async close() {
      for (const keys of used)
        await Promise.all(limiters.map((limiter, i) => limiter.delete(keys[i] as string)))
    }
  }
}

interface Checked {
  isAllowed: boolean
  isExceeded?: boolean
}
export type Check = (request: object) => Promise<Checked>

/** The manual checks of \@fastify/rate-limit, one a window: its hooks run once a request. */
export async function checksOf(
  app: FastifyInstance,
  client?: Redis,
  windows = [0, 1, 2, 3]
): Promise<Check[]> {
  const rateLimit = createRequire(import.meta.url)('@fastify/rate-limit')
  await app.register(rateLimit, { global: false, cache: 1_000_000, ...(client && { redis: client }) })
  const create = (app as unknown as { createRateLimit(options: object): Check }).createRateLimit
  return windows.map(i =>
    create({
      max: PEER_MAX[i],
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
  return {
    async decide(send) {
      const request = { texts: textsOf(send), routeOptions }
      const all = await Promise.all(checks.map(check => check(request)))
      return !all.some(each => each.isExceeded)
    },
    close: () => app.close()
  }
}

interface ExpressStore {
  init(options: { windowMs: number }): void
  increment(key: string): Promise<{ totalHits: number }>
}

/** The stores of rate-limit-redis, without Express around them. Undefined where it is not installed. */
export async function rateLimitRedis(client: Redis): Promise<Limiter | undefined> {
  const module = await import('rate-limit-redis').catch(() => undefined)
  if (module === undefined) return undefined
  const stores = PEER_MAX.map(
    (_, i) =>
      new module.RedisStore({
        prefix: `express${i}:`,
        sendCommand: (command: string, ...args: string[]) => client.call(command, ...args) as never
      }) as unknown as ExpressStore
  )
  for (const store of stores) store.init({ windowMs: MINUTE * 1000 })
  return {
    async decide(send) {
      const texts = textsOf(send)
      const all = await Promise.all(stores.map((store, i) => store.increment(texts[i] as string)))
      return all.every(({ totalHits }, i) => totalHits <= (PEER_MAX[i] as number))
    },
    close() {}
  }
}

export { FIVE, FOUR }

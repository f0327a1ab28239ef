import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import Fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify'
import { Redis } from 'ioredis'
import limitPlugin, { type Keys, type Rule, type SendLimitOptions } from '../../../plugin/index.js'
import { open } from '../../helper/face.js'
import { startRedis } from '../../helper/redis.js'
import type { Teardown } from '../../helper/teardown.js'

export const DAY = 86_400_000
/** When these clocks begin. */
export const NOON = Date.UTC(2026, 2, 2, 12)

/** A store under a clock that stands still until it is moved. */
export interface Place {
  store: 'memory' | 'redis'
  /** Moves the clocks of the store, in milliseconds. */
  advance(ms: number): void
  /** An app with these rules on this store. */
  open(
    t: Teardown,
    rules: Rule[],
    options?: Partial<SendLimitOptions> & { fastify?: FastifyServerOptions }
  ): Promise<Opened>
}

/** An app that is not ready yet, and a way to read its store. */
export interface Opened {
  app: FastifyInstance
  /** How many each limit of these rules counts; on Redis through a connection of its own. */
  used(keys: Keys): Promise<number[]>
}

/** The stores that settlements are tested on. */
export async function places(t: Teardown): Promise<Place[]> {
  return [memory(), await redis(t)]
}

function memory(): Place {
  let passed = 0
  const clock = { monotonic: () => passed, wall: () => NOON + passed }
  return {
    store: 'memory',
    advance(ms) {
      passed += ms
    },
    async open(t, rules, { fastify, ...options } = {}) {
      const { app } = await open(t, { rules, clock, maxKeys: 1_000, ...options }, fastify)
      return { app, used: keys => usedOf(app, keys) }
    }
  }
}

/** A new Redis, and how apps join it. */
export async function redis(t: Teardown): Promise<Place & { url: string }> {
  const server = await startRedis(t, { clock: true, startMs: NOON })
  return {
    store: 'redis',
    url: server.url,
    advance: ms => server.clock.advance(ms),
    async open(t, rules, { fastify, ...options } = {}) {
      const shared = { rules, ...sharedOptions(randomBytes(6).toString('hex')), ...options }
      const join = async (app: FastifyInstance) => {
        const client = new Redis(server.url)
        t.teardown(async () => {
          await app.close()
          client.disconnect()
        })
        await app.register(limitPlugin, { ...shared, client })
        return app
      }
      const witness = await join(Fastify())
      return { app: await join(Fastify(fastify)), used: keys => usedOf(witness, keys) }
    }
  }
}

/** The options that apps on one Redis share. The time-out is long: a slow machine must not look like an outage. */
export function sharedOptions(prefix: string) {
  return {
    prefix: `${prefix}:`,
    secret: 'secret of the settlement tests',
    timeout: '20s',
    onStoreError: 'deny'
  } as const
}

async function usedOf(app: FastifyInstance, keys: Keys): Promise<number[]> {
  const { rules } = await app.limit.peek(keys)
  return rules.flatMap(rule => rule.limits.map(({ max, remaining }) => max - remaining))
}

/** Waits until the server knows that the client is gone. */
export async function gone(request: FastifyRequest): Promise<void> {
  if (!request.raw.socket.destroyed) await once(request.raw.socket, 'close')
  // Other listeners of that event run first.
  await new Promise(setImmediate)
}

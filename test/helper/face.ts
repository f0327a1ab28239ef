import Fastify, {
  type FastifyInstance,
  type FastifyServerOptions,
  type InjectOptions,
  type LightMyRequestResponse
} from 'fastify'
import { limitPlugin, type SendLimitOptions } from '../../plugin/index.js'
import type { Teardown } from './teardown.js'

interface Opened {
  app: FastifyInstance
  /** Moves both clocks of the memory store. */
  advance(ms: number): void
  /** A POST with this body. */
  post(url: string, payload?: unknown, options?: InjectOptions): Promise<LightMyRequestResponse>
}

/** An app that is closed when the test ends, followed by its Redis client. */
export function appOf(
  t: Teardown,
  server: FastifyServerOptions = {},
  client?: { disconnect(): void },
  make = Fastify
): FastifyInstance {
  const app = make(server) as unknown as FastifyInstance
  t.teardown(async () => {
    await app.close()
    client?.disconnect()
  })
  return app
}

/** An app with the plugin and a clock that stands still; not ready yet, so that routes may follow. */
export async function open(
  t: Teardown,
  options: SendLimitOptions = {},
  server: FastifyServerOptions = {},
  make = Fastify
): Promise<Opened> {
  const app = appOf(t, server, undefined, make)
  let now = Date.UTC(2026, 2, 1)
  await app.register(limitPlugin, { clock: { monotonic: () => now, wall: () => now }, ...options })
  return {
    app,
    advance: ms => {
      now += ms
    },
    post: (url, payload, more) => app.inject({ method: 'POST', url, payload: payload as string, ...more })
  }
}

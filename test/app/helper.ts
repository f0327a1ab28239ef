import { createHash } from 'node:crypto'
import type { InjectOptions } from 'fastify'
import type { Test } from 'tap'
import { type BuildOptions, build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import type { Standing } from '../../app/lists/lists.js'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import { startRedis } from '../helper/redis.js'
import { START_MS, stillClock } from './still-clock.js'

export type App = Awaited<ReturnType<typeof build>>
export const KEY = 'development-key'
export const ADMIN_KEY = 'the key of the operator of these tests'

/** A key as ACCOUNTS_FILE lists it. */
export const sha256 = (key: string) => createHash('sha256').update(key).digest('hex')

/** Where instances run that share a store, if it can be shared, and its time. */
export interface Place {
  advance(ms: number): void
  start(env?: NodeJS.ProcessEnv, options?: BuildOptions): Promise<App>
}

/** A policy with other members in some of its rules, by their names. */
export function withRules(changed: Record<string, object>, policy = loadPolicy()): Policy {
  return { ...policy, rules: policy.rules.map(rule => ({ ...rule, ...changed[rule.name] })) }
}

/** An app, closed in teardown; not ready yet, so that routes may follow. */
export async function buildApp(
  t: Test,
  env: NodeJS.ProcessEnv = {},
  options: BuildOptions = {}
): Promise<App> {
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent', ...env }), options)
  t.teardown(() => app.close())
  return app
}

/** An app that is ready, and closed in teardown. */
export async function startApp(t: Test, env: NodeJS.ProcessEnv, options: BuildOptions): Promise<App> {
  // Long, so that a busy machine does not look like a Redis that is down.
  const app = await buildApp(t, { STORE_TIMEOUT: '10000', ...env }, options)
  await app.ready()
  return app
}

async function memory(t: Test): Promise<Place> {
  const { clock, advance } = stillClock()
  return {
    advance,
    start: (env = {}, options = {}) => startApp(t, env, { clock, ...options })
  }
}

async function redis(t: Test): Promise<Place> {
  const server = await startRedis(t, { clock: true, startMs: START_MS })
  const shared = { REDIS_URL: server.url, LIMIT_SECRET: 'a secret of these tests' }
  const { clock, advance } = stillClock()
  return {
    advance(ms) {
      advance(ms)
      server.clock.advance(ms)
    },
    start: (env = {}, options = {}) => startApp(t, { ...shared, ...env }, { clock, ...options })
  }
}

/** Every kind of store, each under a clock that stands still until it is moved. */
export const places = { memory, redis }

export interface Answer {
  status: number
  // Each test knows the body that it reads.
  // biome-ignore lint/suspicious/noExplicitAny: bodies differ by route
  body: any
  headers: Record<string, unknown>
}

/** Asks with the development key, from an address of the test network. */
export async function inject(app: App, options: InjectOptions): Promise<Answer> {
  const headers = { 'x-api-key': KEY, ...options.headers }
  const response = await app.inject({ remoteAddress: '192.0.2.1', ...options, headers })
  const { statusCode: status, payload } = response
  return { status, body: payload === '' ? null : response.json(), headers: response.headers }
}

/** Posts JSON. */
export function post(app: App, url: string, payload: object, options: InjectOptions = {}): Promise<Answer> {
  return inject(app, { method: 'POST', url, payload, ...options })
}

export function reload(app: App): Promise<Answer> {
  return inject(app, { method: 'POST', url: '/v1/admin/reload', headers: { 'x-admin-key': ADMIN_KEY } })
}

/** The code in the newest message to a number. */
export function lastCode(app: App, to: string): string {
  const text = app.outbox?.messages.find(message => message.to === to)?.text ?? ''
  return /\d{6}/.exec(text)?.[0] ?? ''
}

/** Puts a recipient on a list, as an operator does. */
export async function putOnList(app: App, standing: Standing, identity: string): Promise<void> {
  await app.lists.put(app.recipientHash({ identity }), { standing })
}

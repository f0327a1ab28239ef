import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fastify, { type FastifyInstance, type InjectOptions } from 'fastify'
import type { Prices } from '../../app/audit/cost.js'
import type { AuditEvent } from '../../app/audit/event.js'
import { type Clock, systemClock } from '../../app/clock.js'
import { readConfig } from '../../app/config.js'
import accounts from '../../app/plugins/accounts.js'
import afterwards from '../../app/plugins/afterwards.js'
import audit from '../../app/plugins/audit.js'
import errors from '../../app/plugins/errors.js'
import lists from '../../app/plugins/lists.js'
import metrics from '../../app/plugins/metrics.js'
import redis from '../../app/plugins/redis.js'
import requests from '../../app/plugins/requests.js'
import { passAllowed } from '../../app/recipient-rules.js'
import admin from '../../app/routes/v1/admin/index.js'
import limitPlugin, { type Rule } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import type { Teardown } from '../helper/teardown.js'
import { ADMIN_KEY } from './helper.js'

const SECRET = 'a secret of these tests'
export const REGION = { region: 'CN' }

const ATTEMPTS: Rule = {
  name: 'admin-attempts',
  key: 'ip',
  counts: 'attempts',
  limits: [{ max: 60, window: '60s' }]
}

interface Options {
  env?: NodeJS.ProcessEnv
  rules?: Rule[]
  clock?: Clock
  prices?: Prices
  /** In milliseconds. */
  handlerTimeout?: number
  reload?: FastifyInstance['reload']
  /** Declares the routes of the test. */
  routes?: (app: FastifyInstance) => unknown
  log?: string[]
}

/** The part of the app that accounts, lists, audit trail and admin API need, and nothing else. */
export async function open(t: Teardown, options: Options = {}) {
  const { env = {}, rules = [], clock = systemClock, prices, log = [], handlerTimeout = 0 } = options
  const file = join(folderOf(t), 'audit.log')
  const config = readConfig({ NODE_ENV: 'test', AUDIT_LOG: file, LIMIT_SECRET: SECRET, ...env })
  const stream = { write: (line: string) => void log.push(line) }
  const app = fastify({
    logger: { level: 'info', stream },
    handlerTimeout,
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false } }
  })
  t.teardown(() => app.close())
  const common = { config, secret: SECRET, clock }
  await app.register(errors)
  await app.register(requests, { clock, ...REGION })
  await app.register(redis, { url: config.REDIS_URL })
  await app.register(metrics)
  await app.register(audit, { ...common, logStream: stream, prices: () => prices })
  await app.register(accounts, common)
  await app.register(lists, common)
  await app.register(limitPlugin, {
    rules: [ATTEMPTS, ...rules].map(passAllowed),
    filters: [app.blockList],
    store: config.REDIS_URL === undefined ? 'memory' : 'redis',
    secret: SECRET,
    clock,
    onStoreError: config.ON_STORE_ERROR,
    onDecision(event, request) {
      app.quotaGauges.note(event, request)
      app.softMark(event, request)
      app.auditRefusal(event, request)
    }
  })
  app.decorate('reload', options.reload ?? (() => ({ rules: 1, purposes: 1, accounts: 0 })))
  await app.register(afterwards, { patienceMs: 10_000 })
  await app.register(admin, { prefix: '/v1/admin', adminKey: ADMIN_KEY })
  await options.routes?.(app)
  await app.ready()
  return { app, file, events: () => linesOf(file).map(line => JSON.parse(line) as AuditEvent) }
}

export const linesOf = (file: string) => readFileSync(file, 'utf8').split('\n').slice(0, -1)

/** Makes a request, from an address of the test network. */
export async function ask(
  app: FastifyInstance,
  method: 'GET' | 'POST',
  url: string,
  options: InjectOptions = {}
) {
  const { statusCode, headers, body } = await app.inject({
    method,
    url,
    remoteAddress: '192.0.2.1',
    ...options
  })
  // biome-ignore lint/suspicious/noExplicitAny: bodies differ by route
  return { status: statusCode, headers, text: body, body: (body === '' ? null : JSON.parse(body)) as any }
}

import { randomBytes, randomUUID } from 'node:crypto'
import swaggerUi from '@fastify/swagger-ui'
import fastify from 'fastify'
import { answerBrokenRequest, isUnbounded, refuseUnbounded } from './broken-request.js'
import { type Clock, systemClock } from './clock.js'
import { handlerTimeoutOf } from './config.js'
import type { Config } from './config-schema.js'
import { documentOf, sendProblem } from './failure.js'
import { type LogStream, loggerOptions } from './logger.js'
import accounts from './plugins/accounts.js'
import afterwards from './plugins/afterwards.js'
import audit from './plugins/audit.js'
import captchas from './plugins/captchas.js'
import challenge from './plugins/challenge.js'
import closing from './plugins/closing.js'
import connections from './plugins/connections.js'
import errors from './plugins/errors.js'
import idempotency from './plugins/idempotency.js'
import limits from './plugins/limits.js'
import lists from './plugins/lists.js'
import locale from './plugins/locale.js'
import metrics from './plugins/metrics.js'
import redis from './plugins/redis.js'
import reload from './plugins/reload.js'
import requests from './plugins/requests.js'
import security from './plugins/security.js'
import senders from './plugins/senders.js'
import swagger from './plugins/swagger.js'
import { loadPolicy } from './policy.js'
import type { Policy } from './policy-schema.js'
import routes from './routes/index.js'
import type { Senders } from './senders/sender.js'
import { buildSerializer } from './serializers.js'
import { loadTemplates } from './templates/templates.js'

export interface BuildOptions {
  policy?: Policy
  /** Senders in place of those that the configuration names. */
  senders?: Partial<Senders>
  /** Shows a line to the developer. */
  print?: (line: string) => void
  /** The clock for all but what is kept in Redis. */
  clock?: Clock
  /** Where the log goes, and the audit trail with AUDIT_LOG=stdout; standard output by default. */
  logStream?: LogStream
}

const MAX_BODY_BYTES = 16_384
/** How long a request may take to arrive, in milliseconds. Node checks every thirty seconds. */
const REQUEST_TIMEOUT_MS = 10_000
/**
 * Works over plain HTTP, too, as within a network. Inline styles are allowed, since the page's own scripts set them.
 */
const DOCS_CSP = {
  'default-src': "'none'",
  'base-uri': "'none'",
  'connect-src': "'self'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
  'img-src': ["'self'", 'data:'],
  'script-src': "'self'",
  'style-src': ["'self'", "'unsafe-inline'"]
}

/** Builds the app, which does not listen yet. */
export async function build(config: Config, options: BuildOptions = {}) {
  const templates = loadTemplates(config.TEMPLATES_DIR, config.LOCALE)
  const {
    policy = loadPolicy(config.POLICY_FILE, templates),
    clock = systemClock,
    print = () => {},
    logStream = process.stdout
  } = options
  const secret = config.LIMIT_SECRET ?? randomBytes(32).toString('base64url')
  const recipientSecret = config.RECIPIENT_SECRET ?? secret
  const handlerTimeout = handlerTimeoutOf(config)
  // Longer than the proxy's own time: what closes a connection first may close it on a request that is on its way.
  const idleMs = handlerTimeout + config.PROXY_IDLE_TIMEOUT
  const app = fastify({
    logger: loggerOptions(config, logStream),
    genReqId: () => randomUUID(),
    trustProxy: config.TRUST_PROXY === 'false' ? false : config.TRUST_PROXY,
    bodyLimit: MAX_BODY_BYTES,
    connectionTimeout: idleMs,
    // Node adds a second.
    keepAliveTimeout: idleMs - 1_000,
    requestTimeout: REQUEST_TIMEOUT_MS,
    handlerTimeout,
    http: {
      // errors.ts checks Host: Node's answer to a missing one would be no problem document, and it would drop a second.
      requireHostHeader: false,
      joinDuplicateHeaders: true,
      // The default is longer than `requestTimeout`: Node would then take each for the other.
      headersTimeout: REQUEST_TIMEOUT_MS
    },
    // plugins/closing.ts answers instead.
    return503OnClosing: false,
    // No hook runs for a request that cannot be routed.
    frameworkErrors: (error, { raw }, reply) =>
      void (isUnbounded(raw) ? refuseUnbounded(reply) : sendProblem(reply, documentOf(error))),
    clientErrorHandler: answerBrokenRequest,
    // What a client sends is taken as it is or refused. Only a member with a default is added where it is missing.
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
    schemaController: { compilersFactory: { buildSerializer } }
  })
  await app.register(connections)
  await app.register(closing)
  await app.register(requests, { clock, region: config.REGION })
  await app.register(locale, { config })
  await app.register(errors)
  await app.register(security)
  await app.register(redis, {
    url: config.REDIS_URL,
    sentinel: config.REDIS_SENTINEL,
    sentinelPassword: config.REDIS_SENTINEL_PASSWORD,
    sharded: config.REDIS_SHARDED === 'on',
    timeoutMs: config.STORE_TIMEOUT
  })
  await app.register(swagger, { config })
  await app.register(metrics)
  await app.register(audit, {
    config,
    logStream,
    secret: recipientSecret,
    clock,
    prices: () => app.policy.prices
  })
  await app.register(accounts, { config, clock })
  await app.register(lists, { config, secret: recipientSecret, clock })
  await app.register(limits, { config, policy, secret, clock })
  // After the hook of the limits, so that a wrong LIMIT_SECRET is reported first.
  app.addHook('onReady', () => app.lists.verify())
  await app.register(senders, { config, print, clock, override: options.senders })
  await app.register(reload, { config, templates })
  await app.register(captchas, { config, secret, clock })
  await app.register(challenge, { config })
  await app.register(idempotency, {
    secret,
    clock,
    timeoutMs: config.STORE_TIMEOUT,
    leaseMs: 2 * handlerTimeout
  })
  await app.register(afterwards, { patienceMs: handlerTimeout })
  // After all plugins that decorate requests: the pages have contexts of their own, which inherit no later decorators.
  await app.register(swaggerUi, { routePrefix: '/docs', staticCSP: DOCS_CSP })
  await app.register(routes, { config })
  return app
}

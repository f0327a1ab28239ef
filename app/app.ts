import { randomBytes, randomUUID } from 'node:crypto'
import fastify from 'fastify'
import { type Clock, systemClock } from './clock.js'
import type { Config } from './config.js'
import { answerBrokenRequest, documentOf, sendProblem } from './failure.js'
import { loggerOptions } from './logger.js'
import accounts from './plugins/accounts.js'
import captchas from './plugins/captchas.js'
import closing from './plugins/closing.js'
import errors from './plugins/errors.js'
import limits from './plugins/limits.js'
import metrics from './plugins/metrics.js'
import redis from './plugins/redis.js'
import senders from './plugins/senders.js'
import swagger from './plugins/swagger.js'
import { loadPolicy, type Policy } from './policy.js'
import routes from './routes/index.js'
import type { Senders } from './senders/sender.js'

export interface BuildOptions {
  policy?: Policy
  /** What stands in for the senders that the configuration names. */
  senders?: Partial<Senders>
  /** Shows a line to the developer. */
  print?: (line: string) => void
  /** Time of everything that is kept in memory. */
  clock?: Clock
  /** Where the log goes; standard output by default. */
  logStream?: NodeJS.WritableStream
}

const MAX_BODY_BYTES = 16_384
/** On top of the sender's time, in milliseconds: the stores and the settlement. */
const HANDLER_SLACK = 5_000

/** Builds the app; it listens to nothing yet. */
export async function build(config: Config, options: BuildOptions = {}) {
  const { policy = loadPolicy(), clock = systemClock, print = () => {} } = options
  const secret = config.LIMIT_SECRET ?? randomBytes(32).toString('base64url')
  const app = fastify({
    logger: loggerOptions(config, options.logStream),
    genReqId: () => randomUUID(),
    trustProxy: config.TRUST_PROXY === 'false' ? false : config.TRUST_PROXY,
    bodyLimit: MAX_BODY_BYTES,
    connectionTimeout: 60_000,
    requestTimeout: 10_000,
    handlerTimeout: config.SEND_TIMEOUT + HANDLER_SLACK,
    forceCloseConnections: 'idle',
    frameworkErrors: (error, _request, reply) => void sendProblem(reply, documentOf(error)),
    clientErrorHandler: answerBrokenRequest,
    // What a client sends is taken as it is or refused, never changed.
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false } }
  })
  await app.register(closing)
  await app.register(errors)
  await app.register(redis, { url: config.REDIS_URL })
  await app.register(swagger)
  await app.register(metrics, { rules: policy.rules })
  await app.register(limits, { config, policy, secret, clock })
  await app.register(accounts, { config })
  await app.register(senders, { config, print, clock, override: options.senders })
  await app.register(captchas, { policy, secret, clock })
  await app.register(routes, { config, policy })
  return app
}

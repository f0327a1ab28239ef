import { hkdfSync, randomBytes } from 'node:crypto'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, preHandlerAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { type Clock, type Instant, instantIn } from '../clock.js'
import type { Begun, Slot } from '../idempotency/answers.js'
import { keyOf } from '../idempotency/header.js'
import { isKept, replay, textOf } from '../idempotency/kept.js'
import { MemoryAnswers } from '../idempotency/memory-answers.js'
import { namingOf } from '../idempotency/naming.js'
import { RedisAnswers } from '../idempotency/redis-answers.js'
import { problem } from '../problem.js'
import { withAnswerHeader, withHeader } from '../schemas/headers.js'
import { seal, unseal } from '../seal.js'

interface Holder {
  slot: Slot
  token: string
  /** When the lease ends, at the earliest. */
  until: Instant
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * A hook for the `preHandler` of a route: it answers repetitions of a request with an `Idempotency-Key`, which get
     * neither to hooks behind it nor to the handler.
     */
    idempotent: preHandlerAsyncHookHandler
  }
  interface FastifyRequest {
    /** The slot that this request has to finish or free; after the handler was cut off, the one that it had. */
    idempotency: Holder | null
  }
}

/** How long an answer is kept, in milliseconds. */
const KEEP_MS = 86_400_000
/** The most keys in the memory of one process. */
const MAX = 10_000

export interface IdempotencyOptions {
  secret: string
  clock: Clock
  /** How long Redis may take to answer, in milliseconds. */
  timeoutMs?: number
  /** How long a key stays in use if its request never ends, in milliseconds: longer than a handler may take. */
  leaseMs: number
  /** The most keys of one account or network. */
  perScope?: number
}

/** Answers a request that is repeated under its `Idempotency-Key` as the first time (docs/idempotency.md). */
const idempotency: FastifyPluginAsync<IdempotencyOptions> = async (fastify, options) => {
  const { secret, clock, timeoutMs, leaseMs, perScope = 1_000 } = options
  const bounds = { keepMs: KEEP_MS, perScope }
  const answers = fastify.hasDecorator('redis')
    ? new RedisAnswers(fastify.redis, bounds, timeoutMs)
    : new MemoryAnswers(clock, { ...bounds, max: MAX })
  const nameOf = namingOf(secret)
  const sealing = Buffer.from(hkdfSync('sha256', secret, '', 'idempotency answers', 32))

  async function begin(key: string, request: FastifyRequest, reply: FastifyReply) {
    const { slot, body } = nameOf(key, request)
    const token = randomBytes(16).toString('base64url')
    const holder = { slot, token, until: instantIn(leaseMs, clock) }
    const begun = await answers.begin(slot, body, token, leaseMs)
    if (begun.is === 'finished') return replay(reply, unseal(sealing, begun.answer, slot.key))
    if (begun.is !== 'begun') throw refusals[begun.is]()
    // A request that was answered meanwhile (by Fastify's handlerTimeout) does not reach its handler.
    if (reply.sent) free(holder, request)
    else request.idempotency = holder
  }

  async function end(
    { slot, token }: Holder,
    request: FastifyRequest,
    reply: FastifyReply,
    payload: unknown
  ) {
    const text = isKept(reply.statusCode) ? textOf(reply, payload) : undefined
    if (text === undefined) return answers.free(slot, token)
    const kept = await answers.finish(slot, token, seal(sealing, text, slot.key))
    if (!kept)
      request.log.warn('an answer is not kept: its Idempotency-Key is no longer in use, or no longer there')
  }

  function free({ slot, token }: Holder, { log }: FastifyRequest): void {
    answers
      .free(slot, token)
      .catch(error => log.debug({ err: error }, 'an Idempotency-Key waits for its lease'))
  }

  fastify.decorateRequest('idempotency', null)
  fastify.decorate('idempotent', async (request, reply) => {
    const key = keyOf(request.headers)
    if (key !== undefined) return begin(key, request, reply)
  })
  fastify.addHook('onRoute', route => {
    if (![route.preHandler].flat().includes(fastify.idempotent)) return
    const schema = withHeader(route.schema, 'idempotency-key', KEY)
    route.schema = withAnswerHeader(schema, [202, 422, 504], 'idempotency-replayed', REPLAYED)
  })
  // Before the answer leaves, so that an immediate repetition finds it.
  fastify.addHook('onSend', (request, reply, payload, done) => {
    const holder = request.idempotency
    // A handler that was cut off still runs: its key stays in use until the lease ends, and the handler needs to know it.
    if (holder === null || isCutOff(request.signal)) return done()
    request.idempotency = null
    return end(holder, request, reply, payload).catch(error => {
      request.log.warn(
        { err: error },
        'the end of an Idempotency-Key is not noted, unless a later try succeeds'
      )
    })
  })
}

const KEY =
  'A key of 1 to 64 visible characters for this message, such as a UUID. A request with the same key and body gets the first answer (2xx, 422 or 504) again, for up to 24 hours; after any other answer it is a new request, after `FST_ERR_HANDLER_TIMEOUT` only when the key is no longer in use (409).'
const REPLAYED =
  '`true` if this is the answer to an earlier request with the same `Idempotency-Key`; otherwise absent.'

const isCutOff = ({ reason }: AbortSignal) => reason?.code === 'FST_ERR_HANDLER_TIMEOUT'

const refusals: Record<Exclude<Begun['is'], 'begun' | 'finished'>, () => Error> = {
  running: () =>
    Object.assign(
      problem(409, 'IDEMPOTENCY_KEY_IN_USE', 'The first request with this Idempotency-Key is still running.'),
      { headers: { 'retry-after': '1' } }
    ),
  'other-body': () =>
    problem(422, 'IDEMPOTENCY_KEY_REUSED', 'This Idempotency-Key was used before with another body.'),
  full: () => problem(503, 'IDEMPOTENCY_FULL', 'No more Idempotency-Keys can be stored now.')
}

export default fp(idempotency, { name: 'idempotency', dependencies: ['redis'] })

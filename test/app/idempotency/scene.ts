import { Readable } from 'node:stream'
import fastify, { type FastifyRequest, type InjectOptions } from 'fastify'
import type { Test } from 'tap'
import type { Clock } from '../../../app/clock.js'
import type { Answers, Bounds } from '../../../app/idempotency/answers.js'
import { MemoryAnswers } from '../../../app/idempotency/memory-answers.js'
import { RedisAnswers } from '../../../app/idempotency/redis-answers.js'
import errors from '../../../app/plugins/errors.js'
import idempotency, { type IdempotencyOptions } from '../../../app/plugins/idempotency.js'
import redis from '../../../app/plugins/redis.js'
import { problem } from '../../../app/problem.js'
import limitPlugin from '../../../plugin/index.js'
import { gate } from '../../helper/gate.js'
import { startRedis } from '../../helper/redis.js'
import { START_MS, stillClock } from '../still-clock.js'

export const DAY = 86_400_000
export const LEASE = 20_000
const secret = 'a secret of these tests'

interface Place {
  clock: Clock
  url: string | undefined
  advance(ms: number): void
  answers(bounds: Bounds & { max: number }): Answers
}

export const places = {
  async memory(_t: Test): Promise<Place> {
    const { clock, advance } = stillClock()
    return { clock, advance, url: undefined, answers: bounds => new MemoryAnswers(clock, bounds) }
  },
  async redis(t: Test): Promise<Place> {
    const { url, clock, client } = await startRedis(t, { clock: true, startMs: START_MS })
    return {
      clock: { monotonic: () => clock.now(), wall: () => clock.now() },
      url,
      advance: ms => clock.advance(ms),
      answers: bounds => new RedisAnswers(client, bounds)
    }
  }
}

interface Body {
  to?: string
  answer?: number | 'full' | 'large' | 'empty' | 'stream'
  params?: object
}

/** What the handler of a test waits for, and how often it has run. */
export function scene() {
  return {
    runs: 0,
    wait: Promise.resolve() as Promise<void>,
    onward: gate(),
    begun: gate(),
    left: gate(),
    /** Gets the slot that the handler of `/cut-off` sees at its end. */
    ended: (_slot: FastifyRequest['idempotency']) => {}
  }
}
type Scene = ReturnType<typeof scene>

/** An answer of this many bytes as JSON, with characters of three bytes. */
function ofBytes(id: string, bytes: number) {
  const left = bytes - Buffer.byteLength(JSON.stringify({ id, text: '' }))
  return { id, text: '字'.repeat(Math.floor(left / 3)) + 'x'.repeat(left % 3) }
}

/** A small app with the plugins of limits and idempotency. */
export async function start(
  t: Test,
  place: Pick<Place, 'clock' | 'url'>,
  options: Partial<IdempotencyOptions> = {},
  seen: Scene = scene()
) {
  const { clock, url } = place
  const app = fastify()
  await app.register(errors)
  await app.register(redis, { url })
  const recipient = { name: 'recipient', key: { value: 'body.to' }, limits: [{ max: 1, window: '60s' }] }
  await app.register(limitPlugin, {
    rules: [
      { name: 'attempts', key: 'ip', counts: 'attempts', limits: [{ max: 4, window: '1h' }] },
      recipient
    ],
    store: url === undefined ? 'memory' : 'redis',
    secret,
    clock
  })
  app.decorateRequest('account', null)
  app.decorateRequest('caller', null)
  app.addHook('onRequest', async request => {
    const { 'x-account': id, 'x-caller': caller = 'key' } = request.headers
    if (typeof id === 'string') Object.assign(request, { account: { id }, caller })
  })
  await app.register(idempotency, { secret, clock, leaseMs: LEASE, ...options })
  const route = { preHandler: app.idempotent, onSend: async () => seen.left.open() }
  const handle = async (body: Body) => {
    seen.runs++
    const id = `message ${seen.runs}`
    seen.begun.open()
    await seen.wait
    const { answer = 202 } = body
    if (answer === 'full') return ofBytes(id, 16_384)
    if (answer === 'large') return ofBytes(id, 16_385)
    if (answer === 'empty') return undefined
    if (answer === 'stream') return Readable.from(['text'])
    if (answer >= 400) throw problem(answer, 'CODE', 'A detail.', { id })
    return { id }
  }
  for (const url of ['/free', '/other', '/free/:id']) {
    app.route<{ Body: Body }>({
      method: ['POST', 'PUT'],
      url,
      ...route,
      handler: async ({ body }, reply) => {
        const answer = await handle(body)
        const status = typeof body.answer === 'number' ? body.answer : 202
        return reply.code(status).header('content-language', 'zh').header('x-more', '1').send(answer)
      }
    })
  }
  app.post<{ Body: Body }>(
    '/limited',
    { ...route, config: { limit: ['attempts', 'recipient'] } },
    async ({ body }, reply) => reply.code(202).send(await handle(body))
  )
  app.post<{ Body: Body }>('/cut-off', { ...route, handlerTimeout: 1_500 }, async request => {
    const answer = await handle(request.body)
    seen.ended(request.idempotency)
    return answer
  })
  t.teardown(() => app.close())
  await app.ready()

  async function post(url: string, key: string | undefined, payload: object = {}, more: InjectOptions = {}) {
    const headers = { ...(key !== undefined && { 'idempotency-key': key }), ...more.headers }
    const remoteAddress = '192.0.2.1'
    const reply = await app.inject({ method: 'POST', url, payload, remoteAddress, ...more, headers })
    const { statusCode: status, headers: got } = reply
    return {
      status,
      replayed: got['idempotency-replayed'] === 'true',
      text: reply.body,
      body: got['content-type']?.toString().includes('json') ? reply.json() : {},
      headers: got
    }
  }
  return { app, post, seen }
}

import { AsyncLocalStorage } from 'node:async_hooks'
import type { FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import type { SendLimitOptions } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { startRedis } from '../helper/redis.js'
import type { Teardown } from '../helper/teardown.js'

const redis = await startRedis(t)
const limits = [{ max: 1, window: '1h' }]
const id = { value: 'headers.x-id' }

for (const store of ['memory', 'redis'] as const) {
  t.test(`each of several requests decided together keeps its own async context: ${store}`, async t => {
    const context = new AsyncLocalStorage<unknown>()
    const seen: Record<string, number> = {}
    const lost: string[] = []
    const look = (at: string, request: FastifyRequest) => {
      seen[at] = (seen[at] ?? 0) + 1
      if (context.getStore() !== request.id) lost.push(at)
    }
    const { app, post } = await open(t, {
      ...(store === 'redis' && redisOptions(t)),
      rules: [
        { name: 'attempts', key: id, counts: 'attempts', limits: [{ max: 2, window: '1h' }] },
        { name: 'sends', key: request => look('key', request) ?? String(request.headers['x-id']), limits },
        { name: 'lock', key: id, lock: '10s' }
      ],
      filters: [{ name: 'filter', check: request => look('filter', request) }],
      onDecision: (_event, request) => request && look('onDecision', request)
    })
    app.addHook('onRequest', (request, _reply, done) => context.run(request.id, done))
    app.setErrorHandler<{ statusCode?: number }>((error, request, reply) => {
      look('error handler', request)
      return reply.code(error.statusCode ?? 500).send()
    })
    app.post(
      '/x',
      {
        config: { limit: ['attempts', 'filter', 'sends', 'lock'] },
        preHandler: async request => look('preHandler', request),
        onSend: async request => look('onSend', request),
        onResponse: async request => look('onResponse', request)
      },
      async request => {
        look('handler', request)
        if (Number(request.headers['x-id']) % 2) throw new Error('the message did not go')
        return 'sent'
      }
    )
    for (let i = 0; i < 3; i++)
      await Promise.all(
        Array.from({ length: 10 }, (_, who) => post('/x', {}, { headers: { 'x-id': `${who}` } }))
      )
    t.same(lost, [])
    // First round: five send, five fail. Second: five are refused, five fail again. Third: all have tried too often.
    t.same(seen, {
      preHandler: 20,
      filter: 20,
      key: 20,
      onDecision: 50,
      handler: 15,
      'error handler': 25,
      onSend: 30,
      onResponse: 30
    })
  })
}

function redisOptions(t: Teardown): SendLimitOptions {
  const client = new Redis(redis.url)
  t.teardown(() => client.disconnect())
  return { store: 'redis', client, secret: 'a secret of the tests' }
}

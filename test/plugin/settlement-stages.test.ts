import type { FastifyReply, FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import { strays } from '../helper/strays.js'
import { turns } from '../helper/turns.js'
import { until } from '../helper/until.js'
import { DAY, places, redis } from './settlement/places.js'

const key = { value: 'query.id' }
const id = 'somebody'
// Stamps of one instant are some ticks apart: the last of them is still in the window after exactly 60 s.
const MINUTE = 60_001
const pick = (name: string): Pick<Rule, 'name' | 'key'> => ({ name, key })

// Opened before the first test: tap would end the file while nothing runs.
const stores = await places(t)

for (const place of stores) {
  t.test(
    `${place.store}: a handler that awaits its reply goes on once the reply has left, after the refund`,
    async t => {
      const { app } = await place.open(t, [{ ...pick('send'), limits: [{ max: 1, window: '60s' }] }])
      let resolve: (left: boolean) => void = () => {}
      const left = new Promise<boolean>(is => (resolve = is))
      app.get('/send', { config: { limit: 'send' } }, async (_request, reply) => {
        reply.code(502).send('failed')
        await reply
        resolve(reply.raw.headersSent)
      })
      t.equal((await app.inject(`/send?id=${id}`)).statusCode, 502)
      t.ok(await left)
    }
  )

  t.test(`${place.store}: attempts are counted however their request ends`, async t => {
    const rules: Rule[] = [
      { ...pick('guard'), limits: [{ max: 5, window: '60s' }], counts: 'attempts' },
      { ...pick('send'), limits: [{ max: 1, window: '60s' }] }
    ]
    const { app, used } = await place.open(t, rules)
    const endings: Record<string, number> = { throw: 500, settle: 202 }
    app.post('/send', {
      config: { limit: ['guard', 'send'] },
      schema: { body: { type: 'object', required: ['end'] } },
      async handler(request, reply) {
        const { end } = request.body as { end: string }
        if (end === 'throw') throw new Error('broken')
        await reply.limit?.refund()
        return reply.code(endings[end] ?? 202).send({})
      }
    })
    const post = async (payload: object) =>
      (await app.inject({ method: 'POST', url: `/send?id=${id}`, payload })).statusCode
    t.equal(await post({}), 400, 'the body is not valid')
    t.same(await used({ guard: id, send: id }), [1, 0])
    t.equal(await post({ end: 'throw' }), 500)
    t.same(await used({ guard: id, send: id }), [2, 0])
    t.equal(await post({ end: 'settle' }), 202, 'a refund does not reach attempts')
    t.same(await used({ guard: id, send: id }), [3, 0])
    ;(await app.limit.reserve({ send: id })).keep()
    t.equal(await post({ end: 'settle' }), 429, 'refused by the rule on sends')
    t.same(await used({ guard: id, send: id }), [4, 1])
    t.equal((await app.inject({ method: 'POST', url: `/send?id=${id}`, payload: 'no json' })).statusCode, 415)
    t.same(await used({ guard: id, send: id }), [5, 1])
    place.advance(30_000)
    t.equal(await post({ end: 'settle' }), 429, 'refused by the rule on attempts')
    t.same(await used({ guard: id, send: id }), [5, 1], 'a refused attempt is not counted')
    place.advance(MINUTE)
    t.same(await used({ guard: id, send: id }), [0, 0])
  })

  t.test(`${place.store}: a rule on failures counts 4xx, neither successes nor 5xx`, async t => {
    const { app, used } = await place.open(t, [
      { ...pick('wrong'), limits: [{ max: 2, window: '60s' }], counts: 'failures' }
    ])
    app.get<{ Querystring: { end: string } }>(
      '/verify',
      { config: { limit: 'wrong' } },
      async (request, reply) => {
        const status = Number(request.query.end)
        if (status === 500) throw new Error('broken')
        return reply.code(status).send({})
      }
    )
    const get = async (end: number) => (await app.inject(`/verify?id=${id}&end=${end}`)).statusCode
    for (const end of [200, 302, 200, 500, 502, 500]) t.equal(await get(end), end)
    t.same(await used({ wrong: id }), [0], 'neither a success nor a 5xx counts')
    t.equal(await get(422), 422)
    t.equal(await get(200), 200)
    t.equal(await get(404), 404)
    t.same(await used({ wrong: id }), [2])
    t.equal(await get(200), 429, 'now a right code is refused as well')
    t.same(await used({ wrong: id }), [2])
    place.advance(MINUTE)
    t.equal(await get(200), 200)
    t.same(await used({ wrong: id }), [0])
  })

  t.test(`${place.store}: HEAD shares the inline rule of its GET`, async t => {
    const { app } = await place.open(t, [])
    const limit = { name: 'inline', key, limits: [{ max: 2, window: '60s' }] }
    app.get('/send', { config: { limit } }, async (_, reply) => reply.code(202).send({}))
    app.get('/other', { config: { limit } }, async (_, reply) => reply.code(202).send({}))
    const ask = async (method: 'GET' | 'HEAD', path: string) =>
      (await app.inject({ method, url: `${path}?id=${id}` })).statusCode
    t.equal(await ask('GET', '/send'), 202)
    t.equal(await ask('HEAD', '/send'), 202)
    t.equal(await ask('HEAD', '/send'), 429)
    t.equal(await ask('GET', '/send'), 429)
    t.equal(await ask('HEAD', '/other'), 202, 'it does not share the rule of another route')
    t.equal(await ask('GET', '/other'), 202)
    t.equal(await ask('GET', '/other'), 429)
  })

  t.test(`${place.store}: a refund gives back its own slot and no other`, async t => {
    const { app, used } = await place.open(t, [
      {
        ...pick('log'),
        limits: [
          { max: 3, window: '60s' },
          { max: 5, window: '48h' }
        ]
      },
      { ...pick('day'), limits: [{ max: 3, per: 'day' }] }
    ])
    const keys = { log: id, day: id }
    const first = await app.limit.reserve(keys)
    const second = await app.limit.reserve(keys)
    const third = await app.limit.reserve(keys)
    t.ok(first.allowed && second.allowed && third.allowed)
    t.notOk((await app.limit.reserve(keys)).allowed)
    await second.refund()
    t.same(await used(keys), [2, 2, 2])
    await second.refund()
    second.keep()
    await Promise.all([second.refund(), second.refund()])
    t.same(await used(keys), [2, 2, 2], 'further settlements change nothing')
    const fourth = await app.limit.reserve(keys)
    t.ok(fourth.allowed, 'exactly one slot was free')
    t.notOk((await app.limit.reserve(keys)).allowed)
    await second.refund()
    t.same(await used(keys), [3, 3, 3], 'the slot of the send that came instead stays')
    await Promise.all([first.refund(), third.refund()])
    t.same(await used(keys), [1, 1, 1])
    await fourth.refund()
    t.same(await used(keys), [0, 0, 0])
  })

  t.test(
    `${place.store}: a late refund changes only the windows and periods that still count the send`,
    async t => {
      const { app, used } = await place.open(t, [
        {
          ...pick('log'),
          limits: [
            { max: 3, window: '60s' },
            { max: 9, window: '7d' }
          ]
        },
        { ...pick('day'), limits: [{ max: 3, per: 'day' }] },
        { ...pick('month'), limits: [{ max: 3, per: 'month' }] }
      ])
      const keys = { log: id, day: id, month: id }
      const early = await app.limit.reserve(keys)
      const twin = await app.limit.reserve(keys)
      twin.keep()
      place.advance(DAY)
      t.same(await used(keys), [0, 2, 0, 2])
      const late = await app.limit.reserve(keys)
      late.keep()
      t.same(await used(keys), [1, 3, 1, 3])
      await early.refund()
      t.same(await used(keys), [1, 2, 1, 2], 'refunded where it still counts, and nowhere else')
      await early.refund()
      t.same(await used(keys), [1, 2, 1, 2])
      place.advance(60 * DAY)
      const last = await app.limit.reserve(keys)
      await early.refund()
      await twin.refund()
      t.same(await used(keys), [1, 1, 1, 1])
      await last.refund()
      t.same(await used(keys), [0, 0, 0, 0])
    }
  )
}

for (const place of stores) {
  const send = { ...pick('send'), limits: [{ max: 1, window: '60s' }] }
  // A handler that sends what cannot be serialized, and does not return the reply.
  const promised = async ({ url }: FastifyRequest, reply: FastifyReply) => {
    reply.code(502).type('text/plain').send({})
    if (url.includes('later')) await new Promise(setImmediate)
    if (url.includes('throws')) throw new Error('another one')
    if (url.includes('value')) return 'a value'
  }
  const handler = (request: FastifyRequest, reply: FastifyReply) => {
    if (!request.url.includes('no-promise')) return promised(request, reply)
    reply.code(502).type('text/plain').send({})
    return 'a value'
  }
  const ids = ['nothing', 'a-value', 'throws', 'throws-later', 'no-promise']

  t.test(
    `${place.store}: an async error handler answers in place of a reply that cannot be serialized`,
    async t => {
      const { app, used } = await place.open(t, [send])
      app.setErrorHandler(async (_error, _request, reply) => {
        await new Promise(setImmediate)
        return reply.code(503).send('page')
      })
      app.get('/send', { config: { limit: 'send' } }, handler)
      for (const id of ids) {
        const { statusCode, body } = await app.inject(`/send?id=${id}`)
        t.same([statusCode, body], [503, 'page'], id)
        t.same(await used({ send: id }), [0], id)
      }
    }
  )

  t.test(
    `${place.store}: an async onError hook leaves no unhandled error of a reply that cannot be serialized`,
    async t => {
      const stray = strays(t)
      const { app, used } = await place.open(t, [send])
      app.addHook('onError', async () => {
        await new Promise(setImmediate)
      })
      app.get('/send', { config: { limit: 'send' } }, handler)
      for (const id of ids) {
        const { body } = await app.inject(`/send?id=${id}`)
        t.match(body, /FST_ERR_REP_INVALID_PAYLOAD_TYPE/, id)
        t.same(await used({ send: id }), [0], id)
      }
      t.same(stray, [])
    }
  )
}

t.test('redis: the reply waits for the refund', async t => {
  const place = await redis(t)
  const control = new Redis(place.url)
  t.teardown(() => control.disconnect())
  const held = async () => /blocked_clients:[1-9]/.test(await control.info('clients'))
  for (const way of [
    '502',
    'a throw',
    'refund(), not waited for',
    'refund(), not waited for, then 502',
    'refund() in a callback, not waited for',
    'a throw in run'
  ]) {
    t.test(way, async t => {
      const { app } = await place.open(t, [{ ...pick('send'), limits: [{ max: 1, window: '60s' }] }])
      app.get('/send', { config: { limit: 'send' } }, async (_, reply) => {
        // From here on Redis holds back scripts.
        await control.client('PAUSE', 600_000, 'WRITE')
        if (way === '502') return reply.code(502).send({})
        if (way === 'a throw') throw new Error('broken')
        void reply.limit?.refund()
        return reply.code(way.endsWith('then 502') ? 502 : 200).send({})
      })
      app.get('/callback', { config: { limit: 'send' } }, (_, reply) => {
        void control.client('PAUSE', 600_000, 'WRITE').then(() => {
          void reply.limit?.refund()
          reply.code(200).send({})
        })
      })
      app.get('/run', () =>
        app.limit.run({ send: id }, async () => {
          await control.client('PAUSE', 600_000, 'WRITE')
          throw new Error('broken')
        })
      )
      let replied = false
      const url = way.includes('callback') ? '/callback' : way.endsWith('run') ? '/run' : '/send'
      const reply = app.inject(`${url}?id=${id}`).then(({ statusCode }) => {
        replied = true
        return statusCode
      })
      await until(held, 'a refund under way')
      // Enough for a reply that does not wait.
      await turns()
      t.notOk(replied, 'no reply yet')
      await control.client('UNPAUSE')
      t.equal(await reply, way.endsWith('502') ? 502 : way.startsWith('a throw') ? 500 : 200)
      t.ok((await app.limit.reserve({ send: id })).allowed)
    })
  }
})

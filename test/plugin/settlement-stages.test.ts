import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import { strays } from '../helper/strays.js'
import { until } from '../helper/until.js'
import { DAY, places, redis } from './settlement/places.js'

const key = { value: 'query.id' }
const id = 'somebody'
// Stamps of one instant stand some ticks apart: the last of them is still in the window after 60 s sharp.
const MINUTE = 60_001
const pick = (name: string): Pick<Rule, 'name' | 'key'> => ({ name, key })

for (const place of await places(t)) {
  t.test(
    `${place.store}: who waits for a reply that waits for its refund goes on when it has left`,
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

  t.test(`${place.store}: attempts are counted whatever becomes of them`, async t => {
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
    t.equal(await post({}), 400, 'not valid')
    t.same(await used({ guard: id, send: id }), [1, 0])
    t.equal(await post({ end: 'throw' }), 500)
    t.same(await used({ guard: id, send: id }), [2, 0])
    t.equal(await post({ end: 'settle' }), 202, 'a refund does not reach attempts')
    t.same(await used({ guard: id, send: id }), [3, 0])
    ;(await app.limit.reserve({ send: id })).keep()
    t.equal(await post({ end: 'settle' }), 429, 'refused by the other stage')
    t.same(await used({ guard: id, send: id }), [4, 1])
    t.equal((await app.inject({ method: 'POST', url: `/send?id=${id}`, payload: 'no json' })).statusCode, 415)
    t.same(await used({ guard: id, send: id }), [5, 1])
    place.advance(30_000)
    t.equal(await post({ end: 'settle' }), 429, 'refused by its own stage')
    t.same(await used({ guard: id, send: id }), [5, 1], 'what is refused is not counted')
    place.advance(MINUTE)
    t.same(await used({ guard: id, send: id }), [0, 0])
  })

  t.test(`${place.store}: failures count what goes wrong`, async t => {
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
    t.same(await used({ wrong: id }), [0], 'no success, no breakage')
    t.equal(await get(422), 422)
    t.equal(await get(200), 200)
    t.equal(await get(404), 404)
    t.same(await used({ wrong: id }), [2])
    t.equal(await get(200), 429, 'now even the right one must wait')
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
    t.equal(await ask('HEAD', '/other'), 202, 'but not that of another route')
    t.equal(await ask('GET', '/other'), 202)
    t.equal(await ask('GET', '/other'), 429)
  })

  t.test(`${place.store}: a refund frees its own slot and nobody else's`, async t => {
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
    t.same(await used(keys), [2, 2, 2], 'again: nothing')
    const fourth = await app.limit.reserve(keys)
    t.ok(fourth.allowed, 'one slot, and only one, was free')
    t.notOk((await app.limit.reserve(keys)).allowed)
    await second.refund()
    t.same(await used(keys), [3, 3, 3], 'not the slot of the one that came instead')
    await Promise.all([first.refund(), third.refund()])
    t.same(await used(keys), [1, 1, 1])
    await fourth.refund()
    t.same(await used(keys), [0, 0, 0])
  })

  t.test(`${place.store}: a refund that comes after the window, or in another period`, async t => {
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
    t.same(await used(keys), [1, 2, 1, 2], 'gone from what still counts it, and from nothing else')
    await early.refund()
    t.same(await used(keys), [1, 2, 1, 2])
    place.advance(60 * DAY)
    const last = await app.limit.reserve(keys)
    await early.refund()
    await twin.refund()
    t.same(await used(keys), [1, 1, 1, 1])
    await last.refund()
    t.same(await used(keys), [0, 0, 0, 0])
  })
}

for (const place of await places(t)) {
  const send = { ...pick('send'), limits: [{ max: 1, window: '60s' }] }
  // It sends what cannot leave, and does not return the reply.
  const handler = async ({ url }: FastifyRequest, reply: FastifyReply) => {
    reply.code(502).type('text/plain').send({})
    if (url.includes('later')) await new Promise(setImmediate)
    if (url.includes('throws')) throw new Error('another one')
    if (url.includes('value')) return 'a value'
  }
  const ids = ['nothing', 'a-value', 'throws', 'throws-later']

  t.test(`${place.store}: an async error handler answers in place of what cannot leave`, async t => {
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
  })

  t.test(
    `${place.store}: an async onError hears of what cannot leave, and nothing goes uncaught`,
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
        // From here on Redis answers no script.
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
      // Time enough for a reply that did not wait, were there one.
      for (let i = 0; i < 20; i++) await sleep(1)
      t.notOk(replied, 'no reply yet')
      await control.client('UNPAUSE')
      t.equal(await reply, way.endsWith('502') ? 502 : way.startsWith('a throw') ? 500 : 200)
      t.ok((await app.limit.reserve({ send: id })).allowed)
    })
  }
})

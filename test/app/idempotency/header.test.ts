import { once } from 'node:events'
import { request } from 'node:http'
import swagger from '@fastify/swagger'
import fastify from 'fastify'
import t from 'tap'
import { systemClock } from '../../../app/clock.js'
import idempotency from '../../../app/plugins/idempotency.js'
import redis from '../../../app/plugins/redis.js'
import { listen } from '../../helper/listen.js'
import { places, start } from './scene.js'

t.test('the header may be bare or quoted; one that is malformed or repeated is refused', async t => {
  const place = await places.memory(t)
  const { app, post } = await start(t, place)
  const same = [
    ['8e03978e-40d5', '"8e03978e-40d5"'],
    ['a\\b', '"a\\\\b"'],
    ["!#'()*+-./:;<=>?@[]^_`{|}~", `"!#'()*+-./:;<=>?@[]^_\`{|}~"`],
    [`${'x'.repeat(64)}`, `"${'x'.repeat(64)}"`]
  ] as const
  for (const [bare, quoted] of same) {
    t.match(await post('/free', bare), { status: 202, replayed: false })
    t.match(await post('/free', quoted), { status: 202, replayed: true })
  }
  for (const quoted of ['"a,b"', '"a;b"', '"a\\"b"'])
    t.equal((await post('/free', quoted)).status, 202, quoted)
  const wrong = [
    '',
    '""',
    '"',
    '"a',
    'a"',
    'a b',
    '"a b"',
    'a,b',
    '"a","b"',
    '"a", "b"',
    '"a";p=1',
    '"\\a"',
    'a\x7f',
    '"a\x7f"',
    'ä',
    '"ä"'
  ]
  for (const key of [...wrong, 'x'.repeat(65), `"${'x'.repeat(65)}"`, 'a\tb']) {
    t.match(await post('/free', key), { status: 400, body: { code: 'IDEMPOTENCY_KEY_INVALID' } }, key)
  }
  const port = await listen(app)
  for (const twice of [
    ['a', 'a'],
    ['"a"', '"a"'],
    ['"a', 'b"'],
    ['', 'a']
  ]) {
    const headers = { 'idempotency-key': twice, 'content-type': 'application/json' }
    const asked = request({ port, method: 'POST', path: '/free', headers, agent: false }).end('{}')
    const [reply] = await once(asked, 'response')
    reply.resume()
    t.equal(reply.statusCode, 400, twice.join(' and '))
  }
})

t.test('routes that take the header document it, beside their own ones', async t => {
  const app = fastify()
  t.teardown(() => app.close())
  await app.register(redis, { url: undefined })
  await app.register(swagger)
  await app.register(idempotency, { secret: 'a secret of these tests', clock: systemClock, leaseMs: 1_000 })
  const headers = { type: 'object', properties: { 'x-own': { type: 'string' } } }
  app.post('/one', { preHandler: [async () => {}, app.idempotent], schema: { headers } }, async () => '')
  app.post('/two', { preHandler: app.idempotent }, async () => '')
  app.post('/three', async () => '')
  await app.ready()
  const named = Object.values(app.swagger().paths ?? {}).map(path =>
    ((path as { post: { parameters?: { in: string; name: string }[] } }).post.parameters ?? []).map(
      ({ name }) => name
    )
  )
  t.same(named, [['x-own', 'idempotency-key'], ['idempotency-key'], []])
})

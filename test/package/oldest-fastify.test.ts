import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type newest from 'fastify'
import oldestFastify from 'fastify-5.0'
import t from 'tap'
import type { Rule, SendLimitOptions } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { until } from '../helper/until.js'

// To TypeScript its types are those of another package.
const oldest = oldestFastify as unknown as typeof newest
const send: Rule = { name: 'send', key: { phone: 'body.phone' }, limits: [{ max: 1, window: '60s' }] }
const flood: Rule = { name: 'flood', key: 'ip', limits: [{ max: 3, window: '60s' }], counts: 'attempts' }
const phone = '13800138000'
type Reply = { code(status: number): { send(): unknown } }
const start = (test: Parameters<typeof open>[0], options: SendLimitOptions) => open(test, options, {}, oldest)

t.test('this Fastify is the oldest one that the package allows', async t => {
  const { peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
  const { app } = await start(t, {})
  t.equal(peerDependencies.fastify, `^${app.version}`)
})

t.test('a send counts, the same in another spelling is refused, a failed one is given back', async t => {
  const { app, post, advance } = await start(t, { rules: [send] })
  const config = { limit: 'send' }
  const endings = {
    '/thrown': async () => Promise.reject(new Error('provider down')),
    '/answered': async (_request: unknown, reply: Reply) => reply.code(502).send(),
    '/sent': (_request: unknown, reply: Reply) => {
      setImmediate(() => reply.code(502).send())
    }
  }
  for (const [url, handler] of Object.entries(endings)) app.post(url, { config }, handler as never)
  app.post('/send', { config }, async () => 'sent')
  for (const url of Object.keys(endings)) t.ok((await post(url, { phone })).statusCode >= 500, url)
  // In the instant of a slot that was given back the next slot is a tick later.
  advance(1)
  t.equal((await post('/send', { phone })).statusCode, 200)
  const refused = await post('/send', { phone: '+86 138-0013-8000' })
  t.match(refused.json(), { status: 429, 'violated-policies': ['send'], retryAfterMs: 60_000 })
  t.match(refused.headers, { 'retry-after': '60', 'content-type': /^application\/problem\+json/ })
  advance(60_000)
  t.equal((await post('/send', { phone })).statusCode, 200)
})

t.test('attempts count before the body is read; refusals reach the error handler of the app', async t => {
  const { app, post } = await start(t, { rules: [flood] })
  app.setErrorHandler(async (error: { statusCode: number }, _request, reply) =>
    reply.send(`${error.statusCode}`)
  )
  app.post('/send', { config: { limit: 'flood' } }, async () => 'sent')
  const json = { headers: { 'content-type': 'application/json' } }
  for (let i = 0; i < 3; i++) t.equal((await post('/send', '{', json)).body, '400')
  t.equal((await post('/send', '{', json)).body, '429')
})

t.test('a lock holds while the handler runs, also after the client has hung up', async t => {
  const lock: Rule = { name: 'lock', key: 'ip', lock: '30s' }
  const { app } = await start(t, { rules: [lock] })
  let end = () => {}
  app.get('/send', { config: { limit: 'lock' } }, async () => new Promise<void>(resolve => (end = resolve)))
  const free = async () => (await app.limit.peek({ lock: '127.0.0.1' })).allowed
  const base = await app.listen({ host: '127.0.0.1', port: 0 })
  const gone = new AbortController()
  const closed = once(app.server, 'connection').then(([socket]) => once(socket, 'close'))
  const held = fetch(`${base}/send`, { signal: gone.signal }).catch(() => {})
  await until(async () => !(await free()), 'a lock')
  t.equal((await app.inject('/send')).statusCode, 409)
  gone.abort()
  await Promise.all([held, closed])
  t.notOk(await free())
  end()
  await until(free, 'its release')
})

t.test('HEAD shares the count of GET; a route declared before the plugin ends the start', async t => {
  const { app } = await start(t, { rules: [flood] })
  app.get('/x', { config: { limit: { ...flood, name: 'x' } } }, async () => '')
  const asked = async (method: 'GET' | 'HEAD') => (await app.inject({ method, url: '/x' })).statusCode
  t.same(
    [await asked('GET'), await asked('HEAD'), await asked('GET'), await asked('HEAD')],
    [200, 200, 200, 429]
  )
  const early = oldest()
  t.teardown(() => early.close())
  early.get('/early', { config: { limit: 'flood' } }, async () => '')
  const { limitPlugin } = await import('../../plugin/index.js')
  await t.rejects(async () => await early.register(limitPlugin, { rules: [flood] }), {
    code: 'FST_SEND_LIMIT_ROUTE_TOO_EARLY'
  })
})

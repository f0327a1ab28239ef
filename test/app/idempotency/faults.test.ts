import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { gate } from '../../helper/gate.js'
import { listen } from '../../helper/listen.js'
import { startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'
import { START_MS, stillClock } from '../still-clock.js'
import { DAY, LEASE, places, start } from './scene.js'

const { clock } = stillClock()

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a request that is not heard of again loses its key when its lease ends', async t => {
      const place = await open(t)
      const { post, seen } = await start(t, place)
      seen.wait = seen.onward.opened
      const lost = post('/free', 'a-key')
      await seen.begun.opened
      seen.wait = Promise.resolve()
      place.advance(LEASE - 1)
      t.equal((await post('/free', 'a-key')).status, 409)
      place.advance(1)
      t.match(await post('/free', 'a-key'), { status: 202, replayed: false, body: { id: 'message 2' } })
      seen.onward.open()
      t.match(await lost, { status: 202, body: { id: 'message 1' } })
      t.match(await post('/free', 'a-key'), { replayed: true, body: { id: 'message 2' } })
    })

    await t.test('a client that hangs up finds the answer when it comes back', async t => {
      const { app, post, seen } = await start(t, await open(t))
      seen.wait = seen.onward.opened
      const port = await listen(app)
      const headers = { 'idempotency-key': 'a-key', 'content-type': 'application/json' }
      const lost = request({ port, method: 'POST', path: '/free', headers })
      lost.on('error', () => {})
      lost.end('{}')
      const [socket] = await Promise.all([once(app.server, 'connection'), seen.begun.opened])
      lost.destroy()
      await once(socket[0], 'close')
      t.equal((await post('/free', 'a-key', {}, { remoteAddress: '127.0.0.1' })).status, 409)
      seen.left = gate()
      seen.onward.open()
      await seen.left.opened
      const again = await post('/free', 'a-key', {}, { remoteAddress: '127.0.0.1' })
      t.match(again, { status: 202, replayed: true, body: { id: 'message 1' } })
    })

    await t.test('a handler that was cut off runs on: its key stays in use', async t => {
      const place = await open(t)
      const { post, seen } = await start(t, place)
      seen.wait = seen.onward.opened
      t.equal((await post('/cut-off', 'a-key')).status, 503)
      t.equal((await post('/cut-off', 'a-key')).status, 409)
      const ended = new Promise(resolve => (seen.ended = resolve))
      seen.onward.open()
      t.match(
        await ended,
        { slot: {}, until: {} },
        'the handler can still find out whether it has lost the key'
      )
      place.advance(LEASE)
      t.match(await post('/cut-off', 'a-key'), { status: 200, replayed: false })
    })
  })
}

t.test('without Redis a request with a key is 503, one without and one that runs are answered', async t => {
  const server = await startRedis(t)
  const place = { url: server.url, clock }
  const { post, seen } = await start(t, place)
  seen.wait = seen.onward.opened
  const running = post('/free', 'a-key')
  await seen.begun.opened
  await server.kill()
  seen.onward.open()
  t.match(await running, { status: 202, replayed: false })
  const refused = await post('/free', 'a-key')
  t.match(refused, { status: 503, body: { code: 'IDEMPOTENCY_UNAVAILABLE' } })
  t.equal((await post('/free', undefined)).status, 202)
  t.equal(seen.runs, 2)
})

t.test('an answer is kept soon although the connection broke before', async t => {
  const server = await startRedis(t)
  const place = { url: server.url, clock }
  for (const answer of [202, 503]) {
    const { app, post, seen } = await start(t, place, { timeoutMs: 300, leaseMs: DAY })
    const key = `key-${answer}`
    seen.wait = seen.onward.opened
    const running = post('/free', key, { answer })
    await seen.begun.opened
    await server.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await until(async () => app.redis.status !== 'ready', 'the loss')
    seen.onward.open()
    t.match(await running, { status: answer, replayed: false })
    const kept = answer === 202
    const again = async () => {
      const { replayed } = await post('/free', key, { answer })
      return kept ? replayed : seen.runs === 2
    }
    await until(again, 'an end of its use')
    t.equal(seen.runs, kept ? 1 : 2)
  }
})

t.test('an answer is kept although Redis takes no writes for nearly three time-outs', async t => {
  const timeoutMs = 600
  const server = await startRedis(t)
  const place = { url: server.url, clock }
  const { post, seen } = await start(t, place, { timeoutMs })
  seen.wait = seen.onward.opened
  const running = post('/free', 'a-key')
  await seen.begun.opened
  await server.client.config('SET', 'min-replicas-to-write', '1')
  seen.onward.open()
  t.match(await running, { status: 202, replayed: false })
  const refused = await post('/free', 'another-key')
  t.match(refused, { status: 503, body: { code: 'IDEMPOTENCY_UNAVAILABLE' } })
  await sleep(2.5 * timeoutMs)
  await server.client.config('SET', 'min-replicas-to-write', '0')
  await until(async () => (await post('/free', 'a-key')).status === 202, 'the answer')
  t.equal(seen.runs, 1)
})

t.test('a Redis that takes no writes repeats a kept answer, also when another has ended', async t => {
  const { url, client, clock: time } = await startRedis(t, { clock: true, startMs: START_MS })
  const { post, seen } = await start(t, { url, clock })
  await post('/free', 'ended')
  time.advance(DAY - 1)
  await post('/free', 'a-key')
  time.advance(1)
  await client.config('SET', 'min-replicas-to-write', '1')
  t.match(await post('/free', 'a-key'), { status: 202, replayed: true, body: { id: 'message 2' } })
  t.match(await post('/free', 'a-key', { to: 'b' }), { body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
  t.match(await post('/free', 'ended'), { status: 503, body: { code: 'IDEMPOTENCY_UNAVAILABLE' } })
  await client.config('SET', 'min-replicas-to-write', '0')
  t.match(await post('/free', 'ended'), { status: 202, replayed: false })
  t.equal(seen.runs, 3)
})

t.test('a Redis that is full begins no request, and keeps the answer of one that runs', async t => {
  const server = await startRedis(t)
  const { post, seen } = await start(t, { url: server.url, clock })
  seen.wait = seen.onward.opened
  const running = post('/free', 'a-key')
  await seen.begun.opened
  await server.client.config('SET', 'maxmemory', '1')
  seen.onward.open()
  t.match(await running, { status: 202, replayed: false })
  t.match(await post('/free', 'a-key'), { status: 202, replayed: true })
  const refused = await post('/free', 'another-key')
  t.match(refused, { status: 503, body: { code: 'IDEMPOTENCY_UNAVAILABLE' } })
  for (const key of await server.client.keys('idempotency:*'))
    t.ok((await server.client.pttl(key)) > DAY - 60_000, key)
})

t.test('a key that Redis takes after its request was refused is given back', async t => {
  const server = await startRedis(t)
  const place = { url: server.url, clock }
  const { post } = await start(t, place)
  process.kill(server.pid, 'SIGSTOP')
  const refused = await post('/free', 'a-key')
  process.kill(server.pid, 'SIGCONT')
  t.match(refused, { status: 503, body: { code: 'IDEMPOTENCY_UNAVAILABLE' } })
  t.match(await post('/free', 'a-key'), { status: 202, replayed: false })
})

t.test('a request that was answered while Redis hung keeps no key in use', async t => {
  const server = await startRedis(t)
  const place = { url: server.url, clock }
  // Redis may take longer than the handler.
  const { post, seen } = await start(t, place, { leaseMs: DAY, timeoutMs: 10_000 })
  process.kill(server.pid, 'SIGSTOP')
  t.match(await post('/cut-off', 'a-key'), { status: 503, body: { code: 'FST_ERR_HANDLER_TIMEOUT' } })
  process.kill(server.pid, 'SIGCONT')
  await until(async () => (await post('/cut-off', 'a-key')).status === 200, 'a key that is free')
  t.equal(seen.runs, 1)
})

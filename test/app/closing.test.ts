import { once } from 'node:events'
import { request, type Server } from 'node:http'
import { connect } from 'node:net'
import fastify from 'fastify'
import type { Redis } from 'ioredis'
import t from 'tap'
import { build } from '../../app/app.js'
import { instantIn, systemClock } from '../../app/clock.js'
import { readConfig } from '../../app/config.js'
import { dispatch } from '../../app/dispatch.js'
import afterwards from '../../app/plugins/afterwards.js'
import metrics from '../../app/plugins/metrics.js'
import { clientOf } from '../../app/redis-client.js'
import { quit } from '../../app/redis-connection.js'
import { SendError } from '../../app/senders/sender.js'
import { heardOn } from '../helper/channel.js'
import { startCluster } from '../helper/cluster.js'
import { gate } from '../helper/gate.js'
import { listen } from '../helper/listen.js'
import { startRedis } from '../helper/redis.js'
import { turns } from '../helper/turns.js'
import { until } from '../helper/until.js'
import { ask, PHONE } from './captcha.js'
import { KEY, startApp } from './helper.js'
import { provider } from './provider.js'
import { stillClock } from './still-clock.js'

const HELD = 'GET /held HTTP/1.1\r\nhost: a\r\n\r\n'
const HEALTHZ = 'GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n'
const EXPECT = 'GET /healthz HTTP/1.1\r\nhost: a\r\nexpect: a miracle\r\n\r\n'
const HALF = 'POST /v1/captcha HTTP/1.1\r\nhost: a\r\n'

t.test('closing does not wait for idle connections, and answers the requests under way', async t => {
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' }))
  t.teardown(() => app.server.closeAllConnections())
  // No connection ends by itself.
  Object.assign(app.server, { keepAliveTimeout: 0, timeout: 0 })
  const held = gate()
  let arrived = 0
  app.get('/held', async () => {
    arrived++
    await held.opened
    return 'done'
  })
  const port = await listen(app)
  const open = async (text: string) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    let got = ''
    socket.on('data', chunk => (got += chunk))
    const closed = once(socket, 'close')
    await once(socket, 'connect')
    socket.write(text)
    return { socket, closed, got: () => got }
  }
  const answered = async (text: string) => {
    const opened = await open(text)
    await once(opened.socket, 'data')
    return opened
  }

  const waiting = await open(HELD)
  // The first answer has left, the second is under way.
  const pipelined = await answered(HEALTHZ + HELD)
  const several = await open(HELD + HELD + HELD)
  // The second answer is made already, and waits for the first.
  const made = await open(HELD + HEALTHZ)
  const expecting = await open(HELD + EXPECT)
  const idle = [await open(''), await open(HALF), await answered(HEALTHZ), await answered(HEALTHZ + HALF)]
  // These are answered after them, so the server has read what they wrote.
  while (arrived < 7) await answered(HEALTHZ)
  await answered(HEALTHZ)

  const closed = app.close()
  for (const one of idle) await one.closed
  held.open()
  await closed
  for (const one of [waiting, pipelined]) {
    await one.closed
    // A connection that is kept alive would delay the end.
    t.match(one.got(), /\r\nconnection: close\r\n[\s\S]*\r\n\r\ndone$/)
  }
  await several.closed
  t.match(several.got(), /^(HTTP\/1.1 200 [\s\S]*done){3}$/)
  await expecting.closed
  t.match(expecting.got(), /^HTTP\/1.1 200 [\s\S]*doneHTTP\/1.1 417 [\s\S]*}$/)
  await made.closed
  t.match(made.got(), /^HTTP\/1.1 200 [\s\S]*doneHTTP\/1.1 200 [\s\S]*}$/)
})

t.test('a message that surely was not sent is refunded though its client has hung up', async t => {
  const server = await startRedis(t)
  const env = { REDIS_URL: server.url, LIMIT_SECRET: 'a secret of these tests' }
  const sms = provider()
  let fail = () => {}
  const sending = new Promise<void>(begun => {
    sms.does(
      () =>
        new Promise((_, reject) => {
          begun()
          fail = () => reject(new SendError('failed', { code: 'X' }))
        })
    )
  })
  const one = await startApp(t, env, { senders: { sms } })
  const two = await startApp(t, env, {})
  const port = await listen(one)
  const headers = { 'content-type': 'application/json', 'x-api-key': KEY, 'idempotency-key': 'one' }
  const lost = request({ port, method: 'POST', path: '/v1/captcha', headers }).on('error', () => {})
  lost.end(JSON.stringify({ phone: PHONE, purpose: 'register' }))
  await sending
  lost.destroy()
  await until(async () => (await connections(one)) === 0, 'the hang-up')

  const closed = one.close()
  // The HTTP server itself has no request to wait for.
  await once(one.server, 'close')
  await turns()
  await server.client.ping()
  fail()
  await closed
  t.same(await server.client.keys('captcha:*'), [])
  const again = await ask(two, {}, { headers: { 'idempotency-key': 'one' }, remoteAddress: '127.0.0.1' })
  t.match(again, { status: 202 })
})

t.test('a message that is sent counts and is audited though its client has hung up', async t => {
  const server = await startRedis(t)
  const env = { REDIS_URL: server.url, LIMIT_SECRET: 'a secret of these tests', STORE_TIMEOUT: '10000' }
  const sms = provider()
  const app = await startApp(t, env, { senders: { sms } })
  const told = heardOn(t, 'verification-api:audit')
  const port = await listen(app)
  const headers = { 'content-type': 'application/json', 'x-api-key': KEY }
  const { stream } = app.redis as Redis
  const heard = stream.bytesRead
  const lost = request({ port, method: 'POST', path: '/v1/sms', headers }).on('error', () => {})
  lost.write(' ')
  // After the attempt is counted, Redis hangs.
  await until(() => stream.bytesRead > heard, 'the answer to the attempt')
  const before = stream.bytesWritten
  process.kill(server.pid, 'SIGSTOP')
  lost.end(JSON.stringify({ phone: PHONE, template: 'order-shipped', params: { order: 'A-17' } }))
  await until(() => stream.bytesWritten > before, 'its command')
  lost.destroy()
  await until(async () => (await connections(app)) === 0, 'the hang-up')
  process.kill(server.pid, 'SIGCONT')

  await app.close()
  t.equal(sms.messages.length, 1)
  t.match(told, [{ event: 'send', outcome: 'sent' }])
  t.equal(told.length, 1)
  t.equal((await server.client.keys('sl:*:mobile')).length, 1)
})

t.test('closing waits for a Redis that hangs no longer than it is told', async t => {
  const single = await startRedis(t)
  const { nodes } = await startCluster(t)
  const pids = [single, ...nodes].map(({ pid }) => pid)
  for (const url of [single.url, nodes.map(({ url }) => url).join()]) {
    // Without the pings of the app, which would end the connection later.
    const client = clientOf({ url })
    await client.connect()
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    await quit(client, 50)
    for (const pid of pids) process.kill(pid, 'SIGCONT')
  }
})

/** The part of the app that sends, and nothing else. */
async function dispatching(
  patienceMs: number,
  { clock = systemClock, deliver = async () => ({ sender: 'told' }), told = [] as unknown[] } = {}
) {
  const app = fastify()
  app.decorate('clock', clock)
  app.decorate('audit', fact => void told.push(fact))
  app.decorate('deliver', deliver)
  await app.register(metrics)
  await app.register(afterwards, { patienceMs })
  return app
}

t.test('the outcome of a message is audited with its template and how long its sender took', async t => {
  let now = 0
  const clock = { ...systemClock, monotonic: () => (now += 10.4) }
  const undelivered = { outcome: 'refused', sender: 'told', code: 'X', ofMessage: true }
  const refuse = () => Promise.reject(Object.assign(new Error('refused'), { undelivered }))
  const about = { message: { template: 'a', segments: 2 }, standing: null, purpose: null }
  const what = { event: 'send', template: 'a', segments: 2, sender: 'told', latencyMs: 10 }
  const told: unknown[] = []
  const send = async (options: object) =>
    dispatch({ ...about, server: await dispatching(0, { clock, told, ...options }) } as never, null)
  await send({})
  await t.rejects(send({ deliver: refuse }), { message: 'refused' })
  t.same(told, [
    { ...what, outcome: 'sent' },
    { ...what, outcome: 'refused', code: 'X' }
  ])
})

t.test('nothing is sent for a request whose Idempotency-Key was lost while it stood still', async t => {
  const about = { message: { channel: 'sms', template: 'a' }, standing: null, purpose: null }
  const told: unknown[] = []
  for (const stopped of ['monotonic', 'wall']) {
    const { clock: moving, advance } = stillClock()
    const clock = { ...moving, [stopped]: () => 0 }
    const idempotency = { until: instantIn(1_000, clock) }
    const server = await dispatching(0, { clock, told })
    const send = () => dispatch({ ...about, idempotency, server } as never, null)
    advance(999)
    await send()
    advance(1)
    await t.rejects(send(), { statusCode: 503, code: 'IDEMPOTENCY_KEY_LOST' })
    t.match(told.splice(0), [{ outcome: 'sent' }, { outcome: 'failed', code: 'IDEMPOTENCY_KEY_LOST' }])
    const counted = await server.metrics.registry.getSingleMetric('sends_total')?.get()
    t.match(counted?.values, [{ labels: { sender: 'none', outcome: 'failed' }, value: 1 }])
  }
})

t.test('closing does not wait for requests that are answered', async t => {
  // Longer than any test may take.
  const app = await dispatching(1_000_000)
  app.get('/', async request => {
    await dispatch(Object.assign(request, { message: {} as never }), null)
    return 'done'
  })
  app.get('/nowhere', (_request, reply) => reply.callNotFound())
  t.equal((await app.inject('/')).body, 'done')
  t.equal((await app.inject('/nowhere')).statusCode, 404)
  await app.close()
})

t.test('closing waits for no answer of a request whose message was sent after its answer', async t => {
  const told: unknown[] = []
  const app = await dispatching(1_000_000, { told })
  const sent = new Promise<void>(resolve => {
    app.addHook('onResponse', async request => {
      await dispatch(Object.assign(request, { message: {} as never }), null)
      resolve()
    })
  })
  app.get('/', async () => 'done')
  t.equal((await app.inject('/')).body, 'done')
  await sent
  t.match(told, [{ sender: 'told', outcome: 'sent' }])
  await app.close()
})

t.test('work after the answers is finished, with the work that it begins', async t => {
  const app = await dispatching(1_000_000)
  const done: string[] = []
  const turn = () => new Promise(resolve => setImmediate(resolve))
  const second = async () => {
    await turn()
    done.push('second')
  }
  const first = async () => {
    await turn()
    done.push('first')
    void app.afterwards(second())
  }
  void app.afterwards(first())
  await app.unfinished()
  t.same(done, ['first', 'second'])
  await app.close()
})

t.test('closing waits for an answer no longer than a handler may take', async () => {
  const app = await dispatching(50)
  const sent = new Promise<void>(resolve => {
    app.get('/', async request => {
      await dispatch(Object.assign(request, { message: {} as never }), null)
      resolve()
      await new Promise(() => {})
    })
  })
  const port = await listen(app)
  const lost = request({ port }).on('error', () => {})
  lost.end()
  await sent
  lost.destroy()
  await app.close()
})

const connections = ({ server }: { server: Server }) =>
  new Promise<number>((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))
  )

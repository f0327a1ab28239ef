import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { mock } from 'node:test'
import type { InjectOptions } from 'fastify'
import type { Cluster, Redis } from 'ioredis'
import t from 'tap'
import { STORE_WAITS } from '../../app/config.js'
import { SendError } from '../../app/senders/sender.js'
import { MAX_UNANSWERED_PINGS, withTimeout } from '../../app/with-timeout.js'
import { tapWire } from '../contract/wire.js'
import { busier } from '../helper/busy.js'
import { startCluster } from '../helper/cluster.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { holding, way } from '../helper/way.js'
import { ask, cancel, E164, PHONE, resend, status, verify, wrong } from './captcha.js'
import { type Answer, inject, post, putOnList, startApp } from './helper.js'
import { provider } from './provider.js'
import { unanswered } from './unanswered.js'

const LIMIT_SECRET = 'a secret of these tests'

/** Whether Redis answers within a second. */
const answers = (command: Promise<unknown>) =>
  withTimeout(command, 1_000, () => new Error('no answer')).then(
    () => true,
    () => false
  )

t.test('no request waits for Redis more often than its time-out allows for', async t => {
  const redis = await startRedis(t, { clock: true })
  const wire = await tapWire(t, redis.port, 30)
  const sms = provider()
  const env = { REDIS_URL: `redis://127.0.0.1:${wire.port}`, LIMIT_SECRET }
  const app = await startApp(t, env, { senders: { sms } })
  const waits = async (asking: (options: InjectOptions) => Promise<Answer>) => {
    redis.clock.advance(61_000)
    wire.waits = 0
    const answer = await asking({ headers: { 'idempotency-key': randomUUID() } })
    return { status: answer.status, id: answer.body.id, waits: wire.waits }
  }
  const round = async () => {
    sms.work()
    const sent = await waits(options => ask(app, {}, options))
    sms.fail('failed')
    const resent = await waits(options => resend(app, sent.id, options))
    return [sent, resent]
  }
  // The first round sends the scripts, too.
  await round()
  // One more than counted, since each of the two filters waits half as long.
  t.match(await round(), [{ status: 202 }, { status: 502, waits: STORE_WAITS + 1 }])
})

t.test('a REDIS_URL with a database that Redis does not have ends the start', async t => {
  const { port } = await startRedis(t)
  const env = { LIMIT_SECRET, REDIS_URL: `redis://127.0.0.1:${port}/99` }
  await t.rejects(startApp(t, env, {}), {
    name: 'ConfigError',
    message: 'REDIS_URL names a database that Redis refuses: ERR DB index is out of range.'
  })
  const app = await startApp(t, { ...env, REDIS_URL: `redis://127.0.0.1:${port}/1` }, {})
  t.match(await ask(app), { status: 202 })
})

t.test('if Redis comes later and lacks the database, nothing is written to another one', async t => {
  const former = await startRedis(t)
  const { port } = former
  former.client.on('error', () => {})
  await former.kill()
  const { lines, stream } = logStream()
  const refusals = () => lines.filter(line => line.includes('DB index is out of range'))
  const env = { LOG_LEVEL: 'warn', LIMIT_SECRET, REDIS_URL: `redis://127.0.0.1:${port}/99` }
  const app = await startApp(t, env, { logStream: stream })
  const { client } = await startRedis(t, { port })
  await until(async () => {
    await answers(app.redis.set('a key', ''))
    return refusals().length > 4
  }, 'its refusals, again and again')
  t.equal(await client.dbsize(), 0)
})

t.test('what Redis reserves for a request that was refused meanwhile is given back', async t => {
  const redis = await startRedis(t)
  const { url, release } = await holding(t, redis.port, ':in-flight')
  const env = { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '300', ON_STORE_ERROR: 'deny' }
  const app = await startApp(t, env, {})
  t.match(await ask(app), { status: 503, body: { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' } })
  const locks = () => redis.client.keys('*:in-flight:lock')
  await until(async () => (await locks()).length > 0, 'the lock')
  release()
  await until(async () => (await locks()).length === 0, 'its release')
  await until(async () => (await ask(app)).status === 202, 'a code')
})

t.test('on a Redis that is full, codes that were sent can be verified and cancelled', async t => {
  const { client, url } = await startRedis(t)
  const sms = provider()
  const options = { senders: { sms } }
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, options)
  const backend = '198.51.100.7'
  const denying = { REDIS_URL: url, LIMIT_SECRET, ON_STORE_ERROR: 'deny', BACKENDS: backend }
  const strict = await startApp(t, denying, options)
  const { id } = (await ask(app)).body
  const code = sms.lastCode()
  const last = (await ask(app, { phone: '13600136000' })).body.id
  sms.does(async () => void (await client.config('SET', 'maxmemory', '1')))
  const other = (await ask(app, { phone: '13900139000' })).body.id
  t.match(await status(app, other), { body: { delivery: 'accepted' } }, 'the sender of its message is noted')
  t.match(await ask(app, { phone: '13700137000' }), { status: 503, body: { code: 'CODES_UNAVAILABLE' } })
  t.match(await verify(app, id, wrong(code)), { status: 422, body: { triesLeft: 4 } })
  t.match(await verify(strict, id, code), {
    status: 503,
    body: { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' }
  })
  t.equal((await verify(app, id, code)).status, 200)
  t.equal((await verify(app, id, code)).status, 422, 'a code verifies once')
  t.equal((await cancel(strict, other)).status, 503)
  t.equal(
    (await cancel(strict, other, { remoteAddress: backend })).status,
    204,
    'attempts of a backend do not count'
  )
  t.match(await status(app, other), { body: { status: 'cancelled' } })
  t.equal((await cancel(app, last)).status, 204)
})

t.test('if the connection breaks while a first message fails, its code is taken back soon', async t => {
  const { client, url } = await startRedis(t)
  const sms = provider()
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '300' }, { senders: { sms } })
  sms.does(async () => {
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await until(async () => app.redis.status !== 'ready', 'the loss')
    throw new SendError('failed')
  })
  t.match(await ask(app), { status: 502, body: { code: 'SEND_FAILED' } })
  await until(async () => (await client.keys('captcha:*')).length === 0, 'the end of its record')
})

t.test('a request waits for Redis as long as STORE_TIMEOUT says, whatever it asks for first', async t => {
  const { url, pid } = await startRedis(t)
  // Attempts of a backend do not count, so counts are not what its requests ask for first.
  const from = { remoteAddress: '198.51.100.7' }
  const own = { STORE_TIMEOUT: '10000', ON_STORE_ERROR: 'deny', BACKENDS: from.remoteAddress }
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, ...own }, {})
  const { id } = (await ask(app)).body
  const send = (phone: string, more: InjectOptions = {}) =>
    post(app, '/v1/sms', { phone, template: 'password-changed' }, more)
  process.kill(pid, 'SIGSTOP')
  // Longer than by default.
  setTimeout(() => process.kill(pid, 'SIGCONT'), 1_500)
  const answers = {
    counts: send('13800138001'),
    lists: send('13800138002', from),
    keys: send('13800138003', { ...from, headers: { 'idempotency-key': 'a-key' } }),
    codes: status(app, id, from)
  }
  for (const [what, answer] of Object.entries(answers))
    t.equal((await answer).status, what === 'codes' ? 200 : 202, what)
})

t.test('the API leaves a Redis that has become a replica for the one in its place', async t => {
  const [former, next] = [await startRedis(t), await startRedis(t)]
  let { port } = former
  const { url } = await way(t, () => port)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, {})
  const { id } = (await ask(app)).body
  await former.client.replicaof('127.0.0.1', next.port)
  port = next.port
  await until(() => answers(app.redis.set('a key', '')), 'a write')
  t.equal((await ask(app, { phone: '13900139000' })).status, 202)
  t.equal((await status(app, id)).status, 404, 'the Redis in its place has no such code')
})

t.test('the API leaves a replica without its master, which answers nothing, for the next one', async t => {
  const [former, next] = [await startRedis(t), await startRedis(t)]
  let { port } = former
  const { url } = await way(t, () => port)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, {})
  const { id } = (await ask(app)).body
  await former.client.config('SET', 'replica-serve-stale-data', 'no')
  // Nothing listens there.
  await former.client.replicaof('127.0.0.1', 1)
  port = next.port
  await until(() => answers(app.limit.peek({ 'api-attempts': '192.0.2.1' })), 'a look at the limits')
  await until(() => answers(app.captchas.find(id, 'development')), 'a look at the codes')
  t.equal((await ask(app, { phone: '13900139000' })).status, 202)
  t.equal((await status(app, id)).status, 404, 'the Redis in its place has no such code')
})

t.test('a Redis that has become a replica is still read if no other is in its place', async t => {
  const { client, url } = await startRedis(t)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, {})
  await putOnList(app, 'blocked', E164)
  const { stream } = app.redis as Redis
  // Nothing listens there.
  await client.replicaof('127.0.0.1', 1)
  for (let i = 0; i < 3; i++) {
    await t.rejects(app.redis.set('a key', ''), /READONLY/)
    t.match(await post(app, '/v1/sms', { phone: PHONE, template: 'password-changed' }), { status: 403 })
  }
  t.equal((app.redis as Redis).stream, stream)
})

t.test('however many writes a replica refuses, one look for the master is made, and ended', async t => {
  const { client, url } = await startRedis(t)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, {})
  // Nothing listens there.
  await client.replicaof('127.0.0.1', 1)
  const told = async (name: string) => Number(new RegExp(`${name}:(\\d+)`).exec(await client.info())?.[1])
  const received = await told('total_connections_received')
  const connected = await told('connected_clients')
  await Promise.all(Array.from({ length: 20 }, () => t.rejects(app.redis.set('a key', ''), /READONLY/)))
  await until(async () => (await told('total_connections_received')) > received, 'a look')
  await until(async () => (await told('connected_clients')) === connected, 'its end')
  t.equal(await told('total_connections_received'), received + 1)
})

t.test('the API leaves a replica for the next one though a look at another has hung', async t => {
  const [former, hung, next] = [await startRedis(t), await startRedis(t), await startRedis(t)]
  let { port } = former
  const { url, ends } = await way(t, () => port)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, {})
  await former.client.replicaof('127.0.0.1', next.port)
  process.kill(hung.pid, 'SIGSTOP')
  port = hung.port
  const { length } = ends
  await t.rejects(app.redis.set('a key', ''), /READONLY/)
  await until(() => ends.length > length, 'the look')
  port = next.port
  await until(() => answers(app.redis.set('a key', '')), 'a write')
})

t.test('a connection that has fallen silent is given up', async t => {
  const [former, next] = [await startRedis(t), await startRedis(t)]
  let { port } = former
  const { url, ends } = await way(t, () => port)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '100' }, {})
  // As when a machine or the network is lost: nobody ends the connection.
  for (const [client, server] of ends) client.unpipe(server)
  port = next.port
  await until(() => answers(app.redis.set('a key', '')), 'an answer')
  t.ok(await next.client.exists('a key'))
})

t.test(
  'if the connection falls silent while a message is sent, its answer is kept over the next one',
  async t => {
    const { port } = await startRedis(t)
    const { url, ends } = await way(t, () => port)
    const sms = provider()
    sms.does(async () => {
      for (const [client, server] of ends) {
        client.unpipe(server)
        server.unpipe(client)
      }
      sms.work()
    })
    const app = await startApp(
      t,
      { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '100' },
      { senders: { sms } }
    )
    const send = () => {
      const options = { headers: { 'idempotency-key': 'one-message' } }
      return post(app, '/v1/sms', { phone: PHONE, template: 'password-changed' }, options)
    }
    t.match(await send(), { status: 202 })
    const isReplayed = async () => (await send()).headers['idempotency-replayed'] === 'true'
    await until(isReplayed, 'the answer')
    t.equal(sms.messages.length, 1)
  }
)

t.test('a connection whose user may not ping is kept', async t => {
  const { client, url } = await startRedis(t)
  await client.acl('SETUSER', 'default', '-ping')
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '100' }, {})
  const { stream } = app.redis as Redis
  const refused = async () =>
    /cmdstat_ping:.*rejected_calls=(\d+)/.exec(await client.info('commandstats'))?.[1]
  await until(
    async () => Number(await refused()) > MAX_UNANSWERED_PINGS + 1,
    'more pings than may stay unanswered'
  )
  t.equal((app.redis as Redis).stream, stream)
})

t.test('a connection with answers to read is kept, however long the process was busy', async t => {
  const { port, url } = await startRedis(t)
  const busy = await busier(t, port)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '100' }, {})
  const asked = answers(app.redis.exists('a key'))
  busy(1_500)
  t.ok(await asked)
})

t.test('a connection that is silent from the beginning is given up', async t => {
  const { port, client } = await startRedis(t)
  const silent = createServer(socket => {
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
  }).listen(0, '127.0.0.1')
  t.teardown(() => silent.close())
  await once(silent, 'listening')
  let at = (silent.address() as AddressInfo).port
  const { url } = await way(t, () => at)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '100' }, {})
  at = port
  await until(() => answers(app.redis.set('a key', '')), 'an answer')
  t.ok(await client.exists('a key'))
})

t.test('a process that was busy reads what Redis has answered before it gives up', async t => {
  const { port, url } = await startRedis(t)
  const busy = await busier(t, port)
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET, STORE_TIMEOUT: '1000' }, {})
  const { id } = (await ask(app)).body
  const [sealed, looked] = [app.captchas.find(id, 'development'), inject(app, { url: '/readyz' })]
  busy(2_000)
  t.ok(await sealed)
  t.match(await looked, { status: 200 })
})

t.test('an answer that is read just as its time-out ends is not late', async t => {
  const timers: (() => void)[] = []
  const mocked = mock.method(globalThis, 'setTimeout', (then: () => void) => void timers.push(then))
  t.teardown(() => mocked.mock.restore())
  let answer = () => {}
  const asked = answers(
    new Promise<void>(resolve => {
      answer = resolve
    })
  )
  timers.shift()?.()
  timers.shift()?.()
  await new Promise<void>(resolve => process.nextTick(resolve))
  answer()
  t.ok(await asked)
})

t.test('every node of a cluster is asked with the user and the password of the first', async t => {
  const { nodes } = await startCluster(t)
  for (const { client } of nodes) {
    await client.acl('SETUSER', 'shop@a', 'on', '>p@ss%word', '~*', '&*', '+@all')
    await client.acl('SETUSER', 'default', 'resetpass')
  }
  const [first, ...others] = nodes.map(({ port }) => `127.0.0.1:${port}`)
  const urls = [`shop%40a:p%40ss%25word@${first}`, ...others].map(each => `redis://${each}`)
  const app = await startApp(t, { REDIS_URL: urls.join(), LIMIT_SECRET }, {})
  // Their keys are on three nodes, whichever node named the others.
  for (const phone of [PHONE, '13900139000', '13700137000'])
    t.match(await ask(app, { phone }), { status: 202 })
  for (const { client } of nodes) t.ok(await client.dbsize())
})

t.test('nodes of a cluster that hang are waited for no longer than STORE_TIMEOUT', async t => {
  const { nodes } = await startCluster(t)
  const env = { REDIS_URL: nodes.map(({ url }) => url).join(), LIMIT_SECRET, STORE_TIMEOUT: '500' }
  const app = await startApp(t, env, {})
  for (const { pid } of nodes) process.kill(pid, 'SIGSTOP')
  t.match(await status(app, 'a'.repeat(22)), { status: 503, body: { code: 'CODES_UNAVAILABLE' } })
  for (const { pid } of nodes) process.kill(pid, 'SIGCONT')
})

t.test('a connection to a node of a cluster that has fallen silent is given up', async t => {
  const { nodes } = await startCluster(t)
  const env = { REDIS_URL: nodes.map(({ url }) => url).join(), LIMIT_SECRET, STORE_TIMEOUT: '100' }
  const app = await startApp(t, env, {})
  const [silent] = nodes
  const streams = () =>
    (app.redis as unknown as Cluster)
      .nodes('master')
      .filter(({ options }) => options.port === silent?.port)
      .map(node => (node as Redis & { stream: Socket }).stream)
  const [former] = streams()
  process.kill(silent?.pid as number, 'SIGSTOP')
  await until(() => former?.destroyed === true, 'the end of the connection')
  process.kill(silent?.pid as number, 'SIGCONT')
})

t.test('on a cluster a request whose answer was lost is not counted twice', async t => {
  const cluster = await startCluster(t)
  const env = { REDIS_URL: cluster.nodes.map(({ url }) => url).join(', '), LIMIT_SECRET }
  const app = await startApp(t, env, {})
  const send = () => post(app, '/v1/sms', { phone: PHONE, template: 'password-changed' })
  const key = { 'api-attempts': '192.0.2.1' }
  const used = async () => {
    const { max = 0, remaining = 0 } = (await app.limit.peek(key)).rules[0]?.limits[0] ?? {}
    return max - remaining
  }
  await send()
  t.equal(await used(), 1)

  const connections = (app.redis as unknown as Cluster)
    .nodes('master')
    .map(node => (node as Redis & { stream: Socket }).stream)
  const before = connections.map(each => each.bytesWritten)
  const asked = () => connections.filter((each, i) => each.bytesWritten > (before[i] as number))
  for (const { pid } of cluster.nodes) process.kill(pid, 'SIGSTOP')
  const sent = send()
  await until(() => asked().length > 0, 'its command')
  for (const connection of asked()) connection.destroy()
  for (const { pid } of cluster.nodes) process.kill(pid, 'SIGCONT')
  t.equal((await sent).status, 202)
  await until(async () => (await used().catch(() => 0)) >= 2, 'its count')
  t.equal(await used(), 2)
})

t.test('a command that was carried out, but whose answer was lost, is taken back', async t => {
  const { port } = await startRedis(t)
  let lose = false
  const { url } = await way(
    t,
    () => port,
    (client, server) =>
      server.on('data', () => {
        if (lose) client.destroy()
        lose = false
      })
  )
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET }, {})
  const client = app.redis as Redis
  const { calls, takenBack } = await unanswered(client, 200)
  for (const [call, code] of calls) {
    await until(async () => client.status === 'ready', 'the connection')
    lose = true
    await t.rejects(call(), { code })
  }
  await until(async () => client.status === 'ready', 'the connection')
  await takenBack()
})

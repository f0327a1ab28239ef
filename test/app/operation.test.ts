import { rmSync } from 'node:fs'
import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { BuildOptions } from '../../app/app.js'
import type { AuditEvent } from '../../app/audit/event.js'
import { read } from '../docs/blocks.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { answersTo, listen } from '../helper/listen.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { way } from '../helper/way.js'
import { resend, verify, wrong } from './captcha.js'
import { type App, buildApp, places, post, withRules } from './helper.js'
import { provider } from './provider.js'

const ask = (app: App, phone = '13800138000') => post(app, '/v1/captcha', { phone, purpose: 'login' })

async function onRedis(t: Test, url: string, more: object = {}, options: BuildOptions = {}): Promise<App> {
  const shared = { REDIS_URL: url, LIMIT_SECRET: 'a secret of these tests' }
  const app = await buildApp(t, { ...shared, ...more }, options)
  await app.ready()
  return app
}

/** Asserts that metrics have each of these lines. */
function showsAll(t: Test, metrics: string, lines: readonly string[]): void {
  const shown = metrics.split('\n')
  for (const line of lines) t.ok(shown.includes(line), line)
}

t.test('without Redis the API is up and ready', async t => {
  const app = await (await places.memory(t)).start()
  t.same((await app.inject('/healthz')).json(), { status: 'up' })
  t.same((await app.inject('/readyz')).json(), { status: 'ready' })
})

t.test('requests for health and metrics that succeed are logged at debug alone', async t => {
  for (const [level, told] of [
    ['info', []],
    ['debug', ['/healthz', '/readyz', '/metrics']]
  ] as const) {
    const { stream, lines } = logStream()
    const app = await (await places.memory(t)).start({ LOG_LEVEL: level }, { logStream: stream })
    for (const url of ['/healthz', '/readyz', '/metrics', '/nothing']) await app.inject(url)
    const completed = lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'request completed')
    t.same(
      completed.map(({ res }) => res.route),
      [...told, null],
      level
    )
  }
})

t.test('when Redis is lost the API is up but not ready, and sends no codes', async t => {
  const redis = await startRedis(t)
  const { stream, lines } = logStream()
  const app = await onRedis(t, redis.url, { LOG_LEVEL: 'info' }, { logStream: stream })
  t.equal((await app.inject('/readyz')).statusCode, 200)
  redis.client.on('error', () => {})
  await redis.kill()
  const unready = await app.inject('/readyz')
  t.equal(unready.statusCode, 503)
  t.equal(unready.headers['content-type'], 'application/problem+json')
  t.match(lines.at(-1), /"code":"REDIS_UNAVAILABLE"/)
  t.equal((await app.inject('/healthz')).statusCode, 200)
  t.match(await ask(app), { status: 503, body: { code: 'CODES_UNAVAILABLE' } })
  t.match(
    await ask(app),
    { status: 503 },
    'what the failed request had reserved is given back, so this is no 429'
  )
  const sms = { phone: '13800138000', template: 'password-changed' }
  t.equal(
    (await post(app, '/v1/sms', sms)).status,
    202,
    'a message without a code is sent, under the limits of this process'
  )
})

t.test('an API that starts without Redis is ready once Redis has come', async t => {
  const first = await startRedis(t)
  const { port, url } = first
  first.client.on('error', () => {})
  await first.kill()
  const app = await onRedis(t, url)
  t.equal((await app.inject('/readyz')).statusCode, 503)
  await startRedis(t, { port })
  await until(async () => (await app.inject('/readyz')).statusCode === 200, 'ready')
})

t.test('the API is not ready on a Redis that is a replica, until it is a master', async t => {
  const [master, replica] = [await startRedis(t), await startRedis(t)]
  await replica.client.replicaof('127.0.0.1', master.port)
  const { stream, lines } = logStream()
  const app = await onRedis(t, replica.url, { LOG_LEVEL: 'warn' }, { logStream: stream })
  t.match((await app.inject('/readyz')).json(), { code: 'REDIS_UNAVAILABLE' })
  t.match(lines.at(-1), 'READONLY', 'the log says why')
  await replica.client.replicaof('NO', 'ONE')
  await until(async () => (await app.inject('/readyz')).statusCode === 200, 'ready')
})

t.test('the API is not ready on a Redis that lacks the replicas that it must have', async t => {
  const { client, port, url } = await startRedis(t, { args: ['--min-replicas-to-write', '1'] })
  const app = await onRedis(t, url)
  await t.rejects(client.set('a', 'b'), /NOREPLICAS/)
  t.match((await app.inject('/readyz')).json(), { code: 'REDIS_UNAVAILABLE' })
  const replica = await startRedis(t)
  await client.config('SET', 'repl-diskless-sync-delay', '0')
  await replica.client.replicaof('127.0.0.1', port)
  await until(async () => (await app.inject('/readyz')).statusCode === 200, 'ready')
})

t.test('the API is not ready on a Redis that refuses writes since it cannot save', async t => {
  const dir = folderOf(t)
  const { client, url } = await startRedis(t, { args: ['--save', '3600 1', '--dir', dir] })
  const app = await onRedis(t, url)
  const status = async () => (await app.inject('/readyz')).statusCode
  t.equal(await status(), 200)
  rmSync(dir, { recursive: true })
  await client.bgsave()
  await until(async () => (await status()) === 503, 'the failure')
  t.match((await app.inject('/readyz')).json(), { code: 'REDIS_UNAVAILABLE' })
  await client.config('SET', 'stop-writes-on-bgsave-error', 'no')
  t.equal(await status(), 200)
})

t.test('the API is not ready on a Redis whose user may not write, or whose writes are paused', async t => {
  const { client, port } = await startRedis(t)
  await client.acl('SETUSER', 'api', 'on', '>password', '~*', '+@all')
  const app = await onRedis(t, `redis://api:password@127.0.0.1:${port}`, { STORE_TIMEOUT: '500' })
  const status = async () => (await app.inject('/readyz')).statusCode
  await client.acl('SETUSER', 'api', '-@write')
  t.equal(await status(), 503)
  await client.acl('SETUSER', 'api', '+@write')
  t.equal(await status(), 200)
  await client.call('CLIENT', 'PAUSE', 60_000, 'WRITE')
  const { stream } = app.redis as Redis
  t.match((await app.inject('/readyz')).json(), { code: 'REDIS_UNAVAILABLE' })
  t.notOk(stream.destroyed, 'it does not wait until the connection is given up')
  await client.call('CLIENT', 'UNPAUSE')
  await until(async () => (await status()) === 200, 'ready')
})

t.test(
  'with no request but /readyz, the API finds the new master in the place of the former one',
  async t => {
    const [former, next] = [await startRedis(t), await startRedis(t)]
    let { port } = former
    const { url } = await way(t, () => port)
    const app = await onRedis(t, url)
    await former.client.replicaof('127.0.0.1', next.port)
    port = next.port
    await until(async () => (await app.inject('/readyz')).statusCode === 200, 'ready')
  }
)

t.test('an instance that started without Redis is not ready if others have another secret', async t => {
  for (const secret of ['LIMIT_SECRET', 'RECIPIENT_SECRET']) {
    const { pid, url } = await startRedis(t)
    // Else the lists alone would tell of a change of either secret.
    const own = { RECIPIENT_SECRET: 'a secret of the lists of these tests' }
    const other = await onRedis(t, url, own)
    process.kill(pid, 'SIGSTOP')
    const changed = { ...own, [secret]: 'another secret of these tests' }
    const app = await onRedis(t, url, { ...changed, STORE_TIMEOUT: '100' })
    t.match((await app.inject('/readyz')).json(), { code: 'REDIS_UNAVAILABLE' })
    process.kill(pid, 'SIGCONT')
    await until(async () => (await app.inject('/readyz')).json().code === 'SECRET_MISMATCH', secret)
    t.equal((await other.inject('/readyz')).statusCode, 200, 'the other instance stays ready')
  }
})

t.test('metrics count decisions, refusals by rule, and duplicates', async t => {
  const app = await (await places.memory(t)).start()
  await ask(app)
  await ask(app)
  for (let i = 0; i < 4; i++)
    await post(app, '/v1/sms', { phone: '13800138000', template: 'password-changed' })
  await app.limit.reserve({ mobile: '+8613900139000' })
  const { body, headers } = await app.inject('/metrics')
  t.match(headers['content-type'], 'text/plain; version=0.0.4')
  showsAll(t, body, [
    'limit_decisions_total{route="POST /v1/captcha",stage="sends",store="memory",decision="allowed"} 1',
    'limit_decisions_total{route="POST /v1/captcha",stage="sends",store="memory",decision="refused"} 1',
    'limit_decisions_total{route="none",stage="sends",store="memory",decision="allowed"} 1',
    'limit_refusals_total{route="POST /v1/captcha",rule="recipient"} 1',
    'limit_refusals_total{route="POST /v1/sms",rule="same-content"} 2',
    'limit_duplicates_total{route="POST /v1/sms"} 2',
    'sends_total{channel="sms",sender="outbox",outcome="sent"} 3'
  ])
})

t.test('a rule that refuses by several of its limits counts as one refusal', async t => {
  const limits = ['60s', '1h'].map(window => ({ max: 1, window }))
  const app = await (await places.memory(t)).start({}, { policy: withRules({ recipient: { limits } }) })
  await ask(app)
  t.match(await ask(app), { status: 429, body: { 'violated-policies': ['recipient-60s', 'recipient-1h'] } })
  showsAll(t, (await app.inject('/metrics')).body, [
    'limit_refusals_total{route="POST /v1/captcha",rule="recipient"} 1'
  ])
})

t.test('metrics tell how long requests take to answer, by route and status', async t => {
  const place = await places.memory(t)
  const app = await place.start()
  await ask(app)
  await ask(app)
  await app.inject('/v1/captcha/AAAAAAAAAAAAAAAAAAAAAA')
  await app.inject('/nothing')
  const { body } = await app.inject('/metrics')
  showsAll(t, body, [
    'http_request_duration_seconds_count{route="POST /v1/captcha",status="202"} 1',
    'http_request_duration_seconds_count{route="POST /v1/captcha",status="429"} 1',
    'http_request_duration_seconds_bucket{le="30",route="POST /v1/captcha",status="202"} 1',
    'http_request_duration_seconds_count{route="GET /v1/captcha/:id",status="404"} 1',
    'http_request_duration_seconds_count{route="none",status="404"} 1'
  ])
  t.match(body, /^process_cpu_seconds_total [\d.]+$/m)
  t.match(body, /^nodejs_eventloop_lag_p99_seconds [\d.]+$/m)
})

t.test('metrics tell how long sending takes, and how many codes of a purpose are verified', async t => {
  const place = await places.memory(t)
  const sms = provider()
  sms.does(async () => place.advance(300))
  const app = await place.start({}, { senders: { sms } })
  const { id } = (await ask(app)).body
  const code = sms.lastCode()
  await verify(app, id, wrong(code))
  await verify(app, id, code)
  await verify(app, 'A'.repeat(22), code)
  t.equal((await post(app, '/v1/sms', { phone: '13800138000', template: 'password-changed' })).status, 202)
  sms.fail('failed', { code: 'BREAKER_OPEN' })
  t.equal((await ask(app, '13900139000')).status, 503)
  const { body } = await app.inject('/metrics')
  t.equal(body.match(/^codes_sent_total/gm)?.length, 1, 'a message by template is no code')
  showsAll(t, body, [
    'codes_sent_total{channel="sms",purpose="login",sender="told",country="CN"} 1',
    'verifications_total{channel="sms",purpose="login",sender="told",country="CN",outcome="wrong"} 1',
    'verifications_total{channel="sms",purpose="login",sender="told",country="CN",outcome="verified"} 1',
    'verifications_total{channel="none",purpose="none",sender="none",country="none",outcome="ended"} 1',
    'sends_total{channel="sms",sender="told",outcome="sent"} 2',
    'sends_total{channel="sms",sender="told",outcome="skipped"} 1',
    'send_duration_seconds_bucket{le="0.25",channel="sms",sender="told"} 0',
    'send_duration_seconds_bucket{le="0.5",channel="sms",sender="told"} 2',
    'send_duration_seconds_count{channel="sms",sender="told"} 2'
  ])
})

t.test(
  'a try counts for the sender that took the last message of the code, also of a concealed purpose',
  async t => {
    const place = await places.memory(t)
    const sms = provider()
    let by = 'first'
    const send: typeof sms.send = async (...asked) => ({ ...(await sms.send(...asked)), sender: by })
    const app = await place.start({}, { senders: { sms: { ...sms, send } } })
    const told = heardOn<AuditEvent>(t, 'verification-api:audit')
    const tried = async (id: string, code: string) => {
      await verify(app, id, code)
      return told.at(-1)
    }
    const { id } = (await ask(app)).body
    by = 'second'
    place.advance(60_000)
    await resend(app, id)
    t.match(await tried(id, sms.lastCode()), { outcome: 'verified', sender: 'second', country: 'CN' })
    const concealed = (await post(app, '/v1/captcha', { phone: '13900139000', purpose: 'reset-password' }))
      .body
    await app.unfinished()
    t.match(await tried(concealed.id, sms.lastCode()), { outcome: 'verified', sender: 'second' })
    await post(app, '/v1/captcha', { email: 'jane@example.com', purpose: 'login' })
    sms.fail('unknown')
    const unknown = (await ask(app, '13700137000')).body
    t.notOk(
      'sender' in ((await tried(unknown.id, '000000')) as object),
      'no sender is known to have taken the message'
    )
    const { body } = await app.inject('/metrics')
    showsAll(t, body, [
      'codes_sent_total{channel="sms",purpose="login",sender="first",country="CN"} 1',
      'codes_sent_total{channel="sms",purpose="login",sender="second",country="CN"} 1',
      'codes_sent_total{channel="mail",purpose="login",sender="outbox",country="none"} 1',
      'verifications_total{channel="sms",purpose="login",sender="second",country="CN",outcome="verified"} 1',
      'verifications_total{channel="sms",purpose="login",sender="none",country="CN",outcome="wrong"} 1'
    ])
  }
)

t.test('docs/operation.md names every metric and its labels, and no other', async t => {
  const app = await (await places.memory(t)).start()
  const [, section = ''] = read('docs/operation.md').split('\n## Metrics\n')
  const [table = ''] = section.split('\n## ')
  const rows = [...table.matchAll(/^\| `(\w+)` \| ([^|]*) \|/gm)]
  const named = rows.map(([, name, labels = '']) => [name, [...labels.matchAll(/\w+/g)].map(String)])
  const metrics = app.metrics.registry.getMetricsAsArray() as unknown as {
    name: string
    labelNames: string[]
  }[]
  t.strictSame(
    new Map(named as [string, string[]][]),
    new Map(metrics.map(({ name, labelNames }) => [name, labelNames]))
  )
})

t.test(
  'metrics count what a failing provider passes on; the log tells it until the breaker is open',
  async t => {
    const env = {
      SMS_SENDERS: 'webhook,outbox',
      // Nothing listens there.
      WEBHOOK_URL: 'http://127.0.0.1:1/',
      WEBHOOK_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}`,
      LOG_LEVEL: 'warn'
    }
    const { lines, stream } = logStream()
    const app = await (await places.memory(t)).start(env, { logStream: stream })
    for (let i = 0; i < 8; i++) {
      const payload = { phone: `1380013800${i}`, template: 'order-shipped', params: { order: `A-${i}` } }
      t.match(await post(app, '/v1/sms', payload), { status: 202 })
    }
    const { body } = await app.inject('/metrics')
    t.match(body, /^sends_passed_on_total\{channel="sms",sender="webhook",outcome="failed"\} 5$/m)
    t.match(body, /^sends_passed_on_total\{channel="sms",sender="webhook",outcome="skipped"\} 3$/m)
    t.match(body, /^sends_total\{channel="sms",sender="outbox",outcome="sent"\} 8$/m)
    const told = lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'passed on')
    t.match(told, [{ send: { channel: 'sms', sender: 'webhook', outcome: 'failed', code: 'ECONNREFUSED' } }])
    t.equal(told.length, 5, 'nothing is logged once the breaker is open')
  }
)

t.test('the audit trail names a message by the id of its answer', async t => {
  const app = await (await places.memory(t)).start()
  const told = heardOn<AuditEvent>(t, 'verification-api:audit')
  const template = 'password-changed'
  const sms = await post(app, '/v1/sms', { phone: '13800138000', template })
  const mail = await post(app, '/v1/mail', { to: 'jane@example.com', template })
  t.same(
    told.map(({ event, requestId }) => [event, requestId]),
    [
      ['send', sms.body.id],
      ['send', mail.body.id]
    ]
  )
  t.match([sms.status, mail.status], [202, 202])
})

t.test('two apps in one process have metrics of their own', async t => {
  const one = await (await places.memory(t)).start()
  const two = await (await places.memory(t)).start()
  await ask(one)
  t.notMatch((await two.inject('/metrics')).body, 'decision="allowed"')
})

t.test('an unknown path is answered 404, a method that a path lacks 405 with those it has', async t => {
  const app = await (await places.memory(t)).start()
  const problem = { 'content-type': 'application/problem+json' }
  t.match(await app.inject('/nothing'), { statusCode: 404, headers: problem })
  t.match(await app.inject('/v1/sms?x=1'), { statusCode: 405, headers: { ...problem, allow: 'POST' } })
  const read = await app.inject({ method: 'DELETE', url: '/healthz' })
  t.match(read, { statusCode: 405, headers: { allow: 'GET, HEAD' } })
  t.match(await app.inject('/%zz'), { statusCode: 400, headers: problem })

  const id = 'A'.repeat(22)
  for (const [url, allow] of [
    [`/v1/captcha/${id}`, 'DELETE, GET, HEAD'],
    [`/v1/captcha/${id}/resend`, 'POST'],
    ['/v1/captcha/verify', 'POST'],
    // The same path, encoded.
    ['/v1/captcha/verif%79', 'POST'],
    ['/v1/captcha/', undefined],
    ['/v1/captcha//resend', undefined],
    ['/docs/', 'GET, HEAD'],
    ['/docs/static/nothing', undefined]
  ] as const) {
    const { statusCode, headers } = await app.inject({ method: 'PUT', url })
    t.same([statusCode, headers.allow], [allow === undefined ? 404 : 405, allow], url)
  }
  // The route of a code would take any text in this place for an id.
  for (const [method, url, status, allow] of [
    ['GET', '/v1/captcha/verify', 405, 'POST'],
    ['DELETE', '/v1/captcha/verify', 405, 'POST'],
    ['GET', '/v1/captcha/', 404, undefined],
    ['POST', '/v1/captcha//resend', 404, undefined],
    ['GET', '/v1/captcha/short', 422, undefined]
  ] as const) {
    const { statusCode, headers } = await app.inject({ method, url })
    t.same([statusCode, headers.allow], [status, allow], `${method} ${url}`)
  }
})

t.test('where no route takes a body, it is not read: 404 or 405, whatever the body', async t => {
  const app = await (await places.memory(t)).start()
  const json = { 'content-type': 'application/json' }
  for (const [method, headers, payload] of [
    ['PUT', json, '{'],
    ['PUT', json, ''],
    ['PUT', json, ' '.repeat(20_000)],
    ['PUT', { 'content-type': '///' }, 'x'],
    ['PUT', { ...json, 'content-encoding': 'gzip' }, 'x'],
    ['QUERY', {}, undefined],
    ['OPTIONS', json, '{']
  ] as const) {
    const ask = (url: string) => app.inject({ method: method as 'PUT', url, headers, payload })
    const said = `${method} ${payload?.slice(0, 9)}`
    for (const url of ['/v1/sms', '/v1/captcha'])
      t.match(await ask(url), { statusCode: 405, headers: { allow: 'POST' } }, `${said} ${url}`)
    t.match(await ask('/nothing'), { statusCode: 404 }, said)
  }
})

t.test('an internal error is answered 500, and nothing of it is shown', async t => {
  const app = await buildApp(t)
  app.get('/broken', async () => {
    throw new Error('the password is secret')
  })
  const { statusCode, body } = await app.inject('/broken')
  t.equal(statusCode, 500)
  t.notMatch(body, /password|secret|at /)
  t.match(JSON.parse(body), { status: 500, code: 'INTERNAL' })
})

t.test('what is no HTTP is answered 400, a request with too large a head 431', async t => {
  const app = await (await places.memory(t)).start()
  const port = await listen(app)
  t.match(
    await answersTo(port, 'nonsense\r\n\r\n'),
    /^HTTP\/1\.1 400 [\s\S]*application\/problem\+json[\s\S]*"status":400/
  )
  const flood = Array.from({ length: 500 }, (_, i) => `x-${i}: ${'y'.repeat(64)}`).join('\r\n')
  t.match(
    await answersTo(port, `GET /healthz HTTP/1.1\r\nhost: a\r\n${flood}\r\n\r\n`),
    /^HTTP\/1\.1 431 [\s\S]*"status":431/
  )
  t.equal((await app.inject('/healthz')).statusCode, 200)
})

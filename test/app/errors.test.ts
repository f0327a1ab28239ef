import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { mock } from 'node:test'
import t from 'tap'
import { build } from '../../app/app.js'
import { handlerTimeoutOf, readConfig } from '../../app/config.js'
import { problem } from '../../app/problem.js'
import { answersTo, listen } from '../helper/listen.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { buildApp, post, withRules } from './helper.js'

const POST = 'POST /v1/captcha HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'

t.test('a body that comes too slowly is 408 and not logged, a handler that is too slow is 503', async t => {
  const { lines, stream } = logStream()
  const env = { NODE_ENV: 'test', LOG_LEVEL: 'warn' }
  const app = await buildApp(t, env, { logStream: stream })
  t.match(app.server, { requestTimeout: 10_000, headersTimeout: 10_000, timeout: 79_000 })
  app.get('/slow', () => new Promise(() => {}))
  await app.listen({ host: '127.0.0.1', port: 0 })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())

  const answerTo = async (text: string) => {
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    const arrived = once(app.server, 'request')
    socket.write(text)
    await arrived
    mock.timers.tick(handlerTimeoutOf(readConfig(env)))
    return { socket, text: String((await once(socket, 'data'))[0]) }
  }
  const slow = await answerTo(`${POST}content-length: 100\r\n\r\n{`)
  t.match(slow.text, /^HTTP\/1\.1 408 [\s\S]*\r\nconnection: close\r\n[\s\S]*"code":"REQUEST_TIMEOUT"/)
  await once(slow.socket, 'close')
  t.same(lines, [])
  const { text } = await answerTo('GET /slow HTTP/1.1\r\nhost: a\r\n\r\n')
  t.match(text, /^HTTP\/1\.1 503 [\s\S]*"code":"FST_ERR_HANDLER_TIMEOUT"/)
  t.equal(lines.length, 1)
  const injected = app.inject('/slow')
  await new Promise(resolve => setImmediate(resolve))
  mock.timers.tick(handlerTimeoutOf(readConfig(env)))
  t.equal((await injected).statusCode, 503, 'an injected request to a slow handler is 503, too')
})

t.test('a request without a valid host, or that cannot be read, is answered by a problem', async t => {
  const app = await buildApp(t)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const answerTo = async (text: string, then = (_server: Socket) => {}) => {
    const connected = once(app.server, 'connection')
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    const answer = once(socket, 'data')
    socket.write(text)
    then((await connected)[0])
    return String((await answer)[0])
  }
  for (const path of ['/healthz', '/nothing'])
    t.match(await answerTo(`GET ${path} HTTP/1.1\r\n\r\n`), /^HTTP\/1\.1 400 [\s\S]*"code":"HOST_MISSING"/)
  t.match(await answerTo('GET /healthz HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 /, 'HTTP/1.0 needs no host')
  for (const hosts of [
    'host: a\r\nhost: a',
    'host: a\r\nhost:',
    'host: a b',
    'host: a/b',
    'host: u@a',
    'host: a:b'
  ]) {
    const told = await answerTo(`GET /healthz HTTP/1.1\r\n${hosts}\r\n\r\n`)
    t.match(told, /^HTTP\/1\.1 400 [\s\S]*"code":"HOST_INVALID"/, hosts)
  }
  for (const host of ['', 'a.example', 'a%C3%a9', 'a_b:80', '127.0.0.1:', '[::1]:3000', 'xn--nxasmq6b']) {
    t.match(await answerTo(`GET /healthz HTTP/1.1\r\nhost: ${host}\r\n\r\n`), /^HTTP\/1\.1 200 /, host)
  }
  t.match(await answerTo('what?\r\n\r\n'), /^HTTP\/1\.1 400 [\s\S]*"code":"BROKEN_REQUEST"/)
  const large = `GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`
  t.match(await answerTo(large), /^HTTP\/1\.1 431 [\s\S]*"code":"HEADERS_TOO_LARGE"/)
  const far = await answerTo(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nhost: a\r\n\r\n`)
  t.match(
    far,
    /^HTTP\/1\.1 431 [\s\S]*"detail":"[^"]*address[^"]*"/,
    'it may be the address that is too long'
  )
  // As Node does when its time is up.
  const late = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  const slow = await answerTo('GET /', socket => app.server.emit('clientError', late, socket))
  t.match(slow, /^HTTP\/1\.1 408 [\s\S]*"code":"REQUEST_TIMEOUT"/)
  for (const told of [await answerTo('what?\r\n\r\n'), await answerTo(large), slow])
    t.match(
      told,
      /\r\ndate: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\r\n/i,
      'the answer has a date'
    )
})

t.test('answers may be neither stored nor shown as a page, but read across origins', async t => {
  const env = { NODE_ENV: 'test', LOG_LEVEL: 'silent', ADMIN_KEY: 'the key of the operator of these tests' }
  const app = await buildApp(t, env)
  for (const url of ['/healthz', '/v1/dev/outbox', '/v1/admin/recipients', '/nothing']) {
    const { headers } = await app.inject({ url, headers: { 'x-admin-key': env.ADMIN_KEY } })
    t.match(headers, {
      'cache-control': 'no-store',
      'content-security-policy': /^default-src 'none';frame-ancestors 'none'$/,
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff'
    })
  }
  // Files of the page are large: a browser may keep them, and asks whether they have changed.
  const file = await app.inject('/docs/static/swagger-ui.css')
  t.match([file.statusCode, file.headers], [200, { 'cache-control': 'public, max-age=0', etag: String }])
  for (const [url, status] of [
    ['/%ff', 400],
    [`/v1/captcha/${'a'.repeat(101)}`, 414]
  ] as const) {
    const { statusCode, headers } = await app.inject(url)
    t.match([statusCode, headers['cache-control']], [status, 'no-store'], url)
  }
})

t.test('answers show neither internal errors nor the messages of libraries', async t => {
  const app = await buildApp(t)
  app.get('/broken', (_request, reply) => reply.type('text/plain').send({}))
  app.get<{ Params: { status: string } }>('/refused/:status', async ({ params }) => {
    throw Object.assign(new Error('its words'), { statusCode: Number(params.status), code: 'TEAPOT' })
  })
  const broken = await app.inject('/broken')
  t.match([broken.statusCode, broken.json()], [500, { code: 'INTERNAL' }])
  for (const [status, answered, code] of [
    [400, 400, 'REFUSED'],
    [418, 418, 'REFUSED'],
    [499, 499, 'REFUSED'],
    [500, 500, 'INTERNAL'],
    [503, 500, 'INTERNAL']
  ] as const) {
    const refused = await app.inject(`/refused/${status}`)
    t.match([refused.statusCode, refused.json()], [answered, { code }], `${status}`)
    t.notMatch(refused.body, 'its words')
  }
  const { statusCode, body } = await app.inject('/docs/static/%00')
  t.match([statusCode, JSON.parse(body)], [403, { code: 'REFUSED', detail: 'The request was refused.' }])
})

t.test('an internal error is logged with its stack, an error of Redis or a sender in a line', async t => {
  const { lines, stream } = logStream()
  const redis = await startRedis(t)
  const given = { REDIS_URL: redis.url, LIMIT_SECRET: 'a secret of these tests', ON_STORE_ERROR: 'deny' }
  const app = await buildApp(t, { LOG_LEVEL: 'warn', ...given }, { logStream: stream })
  app.get('/broken', () => Promise.reject(new Error('broken')))
  app.get('/unsent', () => Promise.reject(problem(502, 'SEND_FAILED', 'The message could not be sent.')))
  const slow = { name: 'slow', check: () => new Promise<undefined>(() => {}) }
  app.get('/slow', { config: { limit: slow } }, async () => 'sent')
  await app.ready()
  redis.client.on('error', () => {})
  await redis.kill()
  t.equal((await app.inject('/broken')).statusCode, 500)
  const { status, body } = await post(app, '/v1/sms', { phone: '13800138000', template: 'password-changed' })
  t.match([status, body], [503, { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' }])
  t.notOk('key' in body, 'the problem names no key')
  t.equal((await app.inject('/slow')).statusCode, 503)
  t.equal((await app.inject('/readyz')).statusCode, 503)
  t.equal((await app.inject('/unsent')).statusCode, 502)
  t.match(
    lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'failed'),
    [
      { level: 50, err: { message: 'broken', stack: /errors\.test/ } },
      { level: 40, status: 503, code: body.code, err: undefined },
      { level: 40, code: 'FST_SEND_LIMIT_TIMEOUT', cause: /the filter slow took longer than/ },
      { level: 40, code: 'REDIS_UNAVAILABLE', cause: /Stream isn't writeable|Connection is closed/ },
      { level: 40, code: 'SEND_FAILED', cause: undefined }
    ]
  )
})

t.test('a problem names its request by the id that the log has, another for each request', async t => {
  const { lines, stream } = logStream()
  const config = readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'debug' })
  const app = await build(config, { logStream: stream })
  t.teardown(() => app.close())
  app.get('/broken', () => Promise.reject(new Error('broken')))
  const named = new Set<string>()
  for (const [url, status] of [
    ['/broken', 500],
    ['/v1/captcha/x/status', 404],
    ['/nowhere', 404],
    ['/%ff', 400]
  ] as const) {
    lines.length = 0
    const answer = await app.inject(url)
    t.equal(answer.statusCode, status, url)
    const { instance } = answer.json()
    named.add(instance)
    t.match(instance, /^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, url)
    const logged = new Set(lines.map(line => JSON.parse(line).reqId as string | undefined))
    t.same(
      [...logged].map(id => `urn:uuid:${id}`),
      [instance],
      url
    )
  }
  t.equal(named.size, 4)
})

t.test('a problem about the missing key of a rule names that key', async t => {
  const key = { value: 'headers.x-tenant' }
  const policy = withRules({ 'ip-attempts': { key } })
  const config = readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' })
  const app = await build(config, { policy })
  t.teardown(() => app.close())
  const { statusCode, body } = await app.inject(`/v1/captcha/${'A'.repeat(22)}`)
  const problem = JSON.parse(body)
  t.match([statusCode, problem], [400, { code: 'FST_SEND_LIMIT_KEY_MISSING' }])
  t.equal(problem.key, key.value)
  t.equal(problem.detail, `${key.value} is missing, or is not a single value.`)
})

t.test('a body with a content-encoding is 415, and the answer says how to send it', async t => {
  const app = await buildApp(t)
  const send = (coding: string) => {
    const headers = { 'content-type': 'application/json', 'content-encoding': coding }
    return app.inject({ method: 'POST', url: '/v1/captcha', headers, payload: '{}' })
  }
  for (const coding of ['gzip', 'br, gzip', 'aes128gcm']) {
    const { statusCode, headers, body } = await send(coding)
    t.match([statusCode, JSON.parse(body)], [415, { code: 'CONTENT_ENCODED' }], coding)
    t.equal(headers['accept-encoding'], 'identity', coding)
  }
  for (const coding of ['', 'Identity']) t.match((await send(coding)).json(), { code: /^INVALID$/ }, coding)
})

t.test('a transfer-encoding other than chunked, or by HTTP/1.0, is 400 and ends the connection', async t => {
  const app = await buildApp(t)
  const port = await listen(app)
  const tell = async (version: string, coding: string, url = '/v1/captcha') => {
    const head = `POST ${url} HTTP/${version}\r\nhost: a\r\nconnection: keep-alive\r\ncontent-type: application/json\r\n`
    const next = 'GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'
    const text = `${head}transfer-encoding: ${coding}\r\n\r\n2\r\n{}\r\n0\r\n\r\n${next}`
    return (await answersTo(port, text)).match(/(?<=HTTP\/1\.1 )\d+|BROKEN_REQUEST/g)
  }
  t.same(await tell('1.1', 'Chunked'), ['422', '200'])
  for (const [version, coding] of [
    ['1.0', 'chunked'],
    ['1.1', 'gzip, chunked'],
    ['1.1', 'gzip\r\ntransfer-encoding: chunked'],
    ['1.1', 'identity'],
    ['1.1', 'chunked;q=1']
  ] as const) {
    for (const url of ['/v1/captcha', '/nothing', '/%zz', `/v1/captcha/${'x'.repeat(200)}`])
      t.same(await tell(version, coding, url), ['400', 'BROKEN_REQUEST'], `${version} ${coding} ${url}`)
  }
})

t.test('a request after an answer that ends the connection is not handled', async t => {
  const app = await buildApp(t)
  const port = await listen(app)
  let number = 13_800_138_000
  const ask = (body: string) => `${POST}content-length: ${body.length}\r\n\r\n${body}`
  const send = () => ask(JSON.stringify({ phone: String(number++), purpose: 'register' }))
  const statuses = async (pipeline: string) => (await answersTo(port, pipeline)).match(/(?<=HTTP\/1\.1 )\d+/g)
  const last = 'GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'
  for (const [body, status] of [
    ['{x}', '400'],
    ['x'.repeat(16_385), '413']
  ] as const)
    t.same(
      await statuses(ask(body) + send() + last),
      [status, '202', '200'],
      'a refused body that came whole does not end the connection'
    )
  const unsafe = `${POST}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`
  const expecting = 'GET /healthz HTTP/1.1\r\nhost: a\r\nexpect: wonders\r\n\r\n'
  for (const [ending, status] of [
    [unsafe, '400'],
    [expecting, '417']
  ] as const) {
    t.match(await answersTo(port, ending), /\r\nconnection: close\r\n/i, status)
    const before = app.outbox?.messages.length ?? 0
    t.same(await statuses(ending + send()), [status])
    t.same(await statuses(ending + send() + ending), [status])
    t.equal(app.outbox?.messages.length, before, status)
    t.same(await statuses(send() + ending), ['202', status], 'a request before it is handled')
  }
})

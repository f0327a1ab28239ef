import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { gate } from '../helper/gate.js'
import { listen } from '../helper/listen.js'
import { until } from '../helper/until.js'
import { E164, PHONE } from './captcha.js'
import { buildApp, KEY } from './helper.js'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`

/** @returns a function that returns what has arrived so far */
function gotBy(socket: Socket): () => string {
  let text = ''
  socket.on('data', chunk => (text += chunk))
  return () => text
}

/** An app with a route that answers when it is told to. */
async function holding(t: Test, env?: NodeJS.ProcessEnv) {
  const app = await buildApp(t, env)
  let arrived = 0
  const { open: release, opened: released } = gate()
  app.get('/held', async () => {
    arrived++
    await released
    return 'done'
  })
  t.teardown(release)
  /** Connects to the app, which listens from the first call on. @returns both ends, the client's first */
  const open = async (allowHalfOpen = false) => {
    const port = await (app.server.listening ? (app.server.address() as AddressInfo).port : listen(app))
    const connected = once(app.server, 'connection')
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen }).on('error', () => {})
    t.teardown(() => client.destroy())
    return [client, (await connected)[0]] as const
  }
  /** Writes what is no valid request, and waits until Node has noticed. */
  const breakBy = async (socket: Socket, text: string) => {
    const broken = once(app.server, 'clientError')
    socket.write(text)
    await broken
  }
  return { app, open, breakBy, release, arrived: () => arrived }
}

t.test('ten requests at once on one connection are answered, with more it is closed', async t => {
  const { app, open, arrived } = await holding(t)
  const [socket] = await open()
  for (let round = 0; round < 3; round++) {
    socket.write(get('/healthz').repeat(10))
    for (let text = ''; text.split('HTTP/1.1 200').length <= 10; ) text += (await once(socket, 'data'))[0]
  }
  const [many] = await open()
  many.resume().write(get('/held').repeat(1_000))
  await once(many, 'close')
  t.equal(arrived(), 10)
  const closed: boolean[] = []
  app.server.on('checkExpectation', ({ socket }) => closed.push(socket.destroyed))
  const [expecting] = await open()
  const expectation = 'GET / HTTP/1.1\r\nhost: a\r\nexpect: a miracle\r\n\r\n'
  expecting.resume().write(`${get('/held')}${expectation.repeat(10)}`)
  await once(expecting, 'close')
  t.same(closed, [...Array(9).fill(false), true], 'requests with an unknown expectation count, too')
})

t.test('when a client hangs up, its answers that wait for an earlier one end, too', async t => {
  const { app, open, release } = await holding(t)
  const early = new Readable({ read() {} })
  const late = new Readable({ read() {} })
  const [asked, hungUp] = [gate(), gate()]
  app.get('/early', async () => early)
  app.get('/late', async () => {
    asked.open()
    await hungUp.opened
    return late
  })
  const [client, socket] = await open()
  const body = JSON.stringify({ phone: PHONE, purpose: 'reset-password' })
  const head = [
    'POST /v1/captcha HTTP/1.1',
    'host: a',
    `x-api-key: ${KEY}`,
    'content-type: application/json',
    `content-length: ${body.length}`
  ]
  client.write(`${get('/held')}${get('/early')}${head.join('\r\n')}\r\n\r\n${body}${get('/late')}`)
  await asked.opened
  client.destroy()
  await once(socket, 'close')
  hungUp.open()
  await Promise.all([early, late].map(stream => stream.closed || once(stream, 'close')))
  release()
  await app.close()
  t.match(app.outbox?.messages, [{ to: E164 }], 'the message that follows its answer is sent')
})

t.test('what is no valid request is answered after the requests before it', async t => {
  const { app, open, breakBy, release } = await holding(t)
  const [socket] = await open()
  const got = gotBy(socket)
  const waits = () =>
    [...app.connections.values()].flatMap(all => [...all].map(each => each.listenerCount('close')))
  await breakBy(socket, `${get('/held')}${get('/healthz')}what?\r\n\r\n`)
  const before = waits()
  await breakBy(socket, 'and more')
  t.same(waits(), before, 'however much comes, one answer waits')
  const closed = once(socket, 'close')
  release()
  await closed
  t.match(got(), /^HTTP\/1.1 200 [\s\S]*doneHTTP\/1.1 200 [\s\S]*}HTTP\/1.1 400 [\s\S]*"BROKEN_REQUEST"}$/)
})

t.test('a request that breaks off after its own answer gets no second one', async t => {
  const { open } = await holding(t)
  const [socket] = await open()
  const got = gotBy(socket)
  socket.write('POST /v1/sms HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n')
  await once(socket, 'data')
  const closed = once(socket, 'close')
  socket.write('no chunk\r\n')
  await closed
  t.same(got().match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 401'])
})

t.test('a request that breaks off while its answer waits for another gets no second one', async t => {
  const { app, open, breakBy, release } = await holding(t)
  const [socket] = await open()
  const got = gotBy(socket)
  socket.write(`${get('/held')}POST /v1/sms HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n`)
  const made = () => [...app.connections.values()].some(each => [...each].some(answer => answer.headersSent))
  await until(made, 'its answer')
  await breakBy(socket, 'no chunk\r\n')
  const closed = once(socket, 'close')
  release()
  await closed
  t.same(got().match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 401'])
})

t.test('what is no valid request is answered after an answer that is still on its way', async t => {
  const { app, open, breakBy } = await holding(t)
  const stream = new Readable({ read() {} })
  app.get('/stream', async () => stream)
  const [socket] = await open()
  const got = gotBy(socket)
  socket.write(get('/stream'))
  stream.push('a part')
  await until(() => got().includes('a part'), 'the beginning')
  await breakBy(socket, 'what?\r\n\r\n')
  const closed = once(socket, 'close')
  stream.push(null)
  await closed
  t.match(got(), /^HTTP\/1.1 200 [\s\S]*\r\n0\r\n\r\nHTTP\/1.1 400 [\s\S]*"BROKEN_REQUEST"}$/)
})

t.test('a request that was answered 408 is not handled when the rest of it arrives', async t => {
  const { app, open, arrived } = await holding(t)
  const [client, socket] = await open()
  const got = gotBy(client)
  client.write(`${get('/healthz')}GET /he`)
  await once(client, 'data')
  const tooLate = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  app.server.emit('clientError', tooLate, socket)
  client.write(`ld HTTP/1.1\r\nhost: a\r\n\r\n${get('/held')}`)
  await once(client, 'close')
  t.match(got(), /^HTTP\/1.1 200 [\s\S]*}HTTP\/1.1 408 [\s\S]*}$/)
  t.equal(arrived(), 0)
  await until(() => app.connections.size === 0, 'the end of the connection')
})

t.test('an idle connection outlasts that of the proxy, and no longer if it has asked before', async t => {
  for (const [env, kept] of [
    [{}, 79_000],
    [{ PROXY_IDLE_TIMEOUT: '600000' }, 619_000]
  ] as const) {
    const { app, open } = await holding(t, env)
    const [client, socket] = await open()
    t.equal(socket.timeout, kept)
    client.write(get('/healthz'))
    await once(client, 'data')
    await until(() => app.connections.get(socket)?.size === 0, 'the end of the answer')
    t.equal(socket.timeout, kept, 'Node adds a second to keepAliveTimeout')
  }
})

t.test('a 408 is sent after the answers before it, also if no valid request follows', async t => {
  const { app, open, breakBy, release } = await holding(t)
  const [late, answer] = [gate(), gate()]
  app.get('/late', async () => {
    late.open()
    await answer.opened
    return 'late'
  })
  const [client, socket] = await open()
  const got = gotBy(client)
  const asked = once(app.server, 'request')
  client.write(`${get('/held')}GET /la`)
  await asked
  // As Node does for late requests, which it looks for twice a minute.
  const tooLate = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  app.server.emit('clientError', tooLate, socket)
  client.write('te HTTP/1.1\r\nhost: a\r\n\r\n')
  await late.opened
  const first = once(client, 'data')
  release()
  await first
  await breakBy(client, 'what?\r\n\r\n')
  const closed = once(client, 'close')
  answer.open()
  await closed
  t.match(got(), /^HTTP\/1.1 200 [\s\S]*doneHTTP\/1.1 200 [\s\S]*lateHTTP\/1.1 408 [\s\S]*}$/)
})

t.test('a client that sends thousands of headers does not push out what a proxy adds', async t => {
  const { app, open } = await holding(t, { TRUST_PROXY: '127.0.0.1' })
  app.get('/ip', async request => request.ip)
  const [socket] = await open()
  const headers = `${'a:\r\n'.repeat(3_000)}x-forwarded-for: 203.0.113.1\r\n`
  socket.write(`GET /ip HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${headers}\r\n`)
  const [answer] = await once(socket, 'data')
  t.match(String(answer), /\r\n\r\n203.0.113.1$/)
})

t.test('of a long X-Forwarded-For the end is read, which proxies have added', async t => {
  const { app } = await holding(t, { TRUST_PROXY: '127.0.0.1,10.0.0.0/8' })
  app.get('/ip', async ({ ip, headers }) => [ip, headers['x-forwarded-for']?.length])
  const added = '203.0.113.1, 10.0.0.1, 10.0.0.2'
  const claimed = '10.1.1.1, 192.0.2.1, '.repeat(700)
  const headers = { 'x-forwarded-for': `${claimed}${added}` }
  const [ip, length] = (await app.inject({ url: '/ip', headers })).json()
  t.equal(ip, '203.0.113.1')
  t.ok(length < 1_000)
  const proxies = Array.from({ length: 20 }, (_, i) => `10.255.255.1${i}`)
  const way = ['203.0.113.1', ...proxies].join(', ')
  const whole = await app.inject({ url: '/ip', headers: { 'x-forwarded-for': way } })
  t.same(whole.json(), ['203.0.113.1', way.length], 'one by twenty proxies is read to its beginning')
})

t.test(
  'a connection that is refused is read until the client ends it: no reset overtakes the answer',
  async t => {
    const { open } = await holding(t)
    // The time to read that is not over before the client has written all, however slow it is.
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const endOf = async (text: string) => {
      const [socket] = await open()
      const failed: Error[] = []
      socket.on('error', error => failed.push(error))
      const got = gotBy(socket)
      socket.write(text)
      await once(socket, 'close')
      t.same(failed, [])
      return got()
    }
    const large = 'x'.repeat(10_000_000)
    const post = `POST /v1/captcha HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\ncontent-type: application/json\r\n`
    for (let round = 0; round < 10; round++) {
      const tooLarge = `${get('/healthz')}${post}content-length: ${large.length}\r\n\r\n${large}`
      t.match(await endOf(tooLarge), /^HTTP\/1.1 200 [\s\S]*}HTTP\/1.1 413 [\s\S]*}$/)
      const broken = `${get('/healthz')}what?\r\n\r\n${large}`
      t.match(await endOf(broken), /^HTTP\/1.1 200 [\s\S]*}HTTP\/1.1 400 [\s\S]*"BROKEN_REQUEST"}$/)
    }
  }
)

t.test('a refused connection that the client does not end is closed after two seconds', async t => {
  const { open } = await holding(t)
  const [socket, own] = await open(true)
  socket.resume()
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  socket.write('what?\r\n\r\n')
  await once(socket, 'end')
  mock.timers.tick(1_999)
  t.notOk(own.destroyed)
  mock.timers.tick(1)
  t.ok(own.destroyed)
})

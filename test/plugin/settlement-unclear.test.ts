import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, request as http } from 'node:http'
import { createServer as createHttp2, connect as http2, type ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, connect, type LookupFunction } from 'node:net'
import { text } from 'node:stream/consumers'
import { runInNewContext } from 'node:vm'
import axios from 'axios'
import { createTransport } from 'nodemailer'
import t, { type Test } from 'tap'
import { limitPlugin, type Rule } from '../../plugin/index.js'
import { startMail } from '../app/smtp.js'
import { appOf } from '../helper/face.js'
import { freePort } from '../helper/redis.js'
import { until } from '../helper/until.js'

/**
 * What the provider does once it has read the message: it hangs, breaks off before or in its answer, answers what is no
 * HTTP, answers in plain text, or fails. Or it refuses the connection.
 */
type Fate = 'hang' | 'break' | 'cut' | 'garble' | 'thank' | 'fail' | 'refuse'
type Send = (url: string, ms: number) => Promise<unknown>

const body = 'your code is 123456'
/** How long a sender waits for a provider that hangs, and for one that does not, even on a busy machine. */
const [BRIEF_MS, LONG_MS] = [50, 30_000]

const clients: Record<string, Send> = {
  fetch: async (url, ms) =>
    (await fetch(url, { method: 'POST', body, signal: AbortSignal.timeout(ms) })).text(),
  'node:http': async (url, ms) => {
    const signal = AbortSignal.timeout(ms)
    const [response] = await once(http(url, { method: 'POST', signal }).end(body), 'response')
    return text(response)
  },
  'axios with a timeout': (url, ms) => axios.post(url, body, { timeout: ms }),
  'axios with a signal': (url, ms) => axios.post(url, body, { signal: AbortSignal.timeout(ms) }),
  'axios by fetch': (url, ms) => axios.post(url, body, { timeout: ms, adapter: 'fetch' }),
  nodemailer: (url, ms) => {
    const mail = createTransport({ url, socketTimeout: ms })
    return mail.sendMail({ from: 'shop@example.com', to: 'jane@example.com', text: body })
  }
}

async function startProvider(t: Test, fate: Fate, onRead = () => {}): Promise<string> {
  const provider = createServer((request, reply) => {
    request.resume().on('end', () => {
      onRead()
      if (fate === 'break') reply.socket?.resetAndDestroy()
      if (fate === 'garble') reply.socket?.end('thanks\r\n\r\n')
      if (fate === 'thank') reply.writeHead(202).end('thanks')
      if (fate === 'fail') reply.writeHead(502).end()
      if (fate === 'cut')
        reply.writeHead(202, { 'content-length': 100 }).write('{', () => reply.socket?.destroy())
    })
  }).listen(0, '127.0.0.1')
  await once(provider, 'listening')
  t.teardown(() => {
    provider.closeAllConnections()
    provider.close()
  })
  return `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
}

async function startSmtp(t: Test, fate: Fate): Promise<string> {
  const server = await startMail(t)
  if (fate === 'hang' || fate === 'break') server.mode = fate
  return server.url
}

/** Whether a send still counts after its handler has ended with this. Asserts that the lock is free. */
async function isCounted(t: Test, send: () => Promise<unknown>): Promise<boolean> {
  const app = appOf(t)
  const key = { value: 'query.id' }
  const limited: Rule = { name: 'send', key, limits: [{ max: 1, window: '60s' }] }
  await app.register(limitPlugin, { rules: [limited, { name: 'flight', key, lock: '30s' }] })
  app.get('/send', { config: { limit: ['send', 'flight'] } }, async () => {
    await send()
  })
  t.ok((await app.inject('/send?id=a')).statusCode >= 500)
  t.ok((await app.limit.peek({ flight: 'a' })).allowed)
  return !(await app.limit.peek({ send: 'a' })).allowed
}

for (const [name, send] of Object.entries(clients)) {
  for (const fate of ['hang', 'break', 'cut', 'garble', 'refuse'] as const) {
    if (name === 'nodemailer' && (fate === 'cut' || fate === 'garble')) continue
    t.test(`${name}, ${fate}`, async t => {
      const url = new URL(await (name === 'nodemailer' ? startSmtp : startProvider)(t, fate))
      const hosts = ['127.0.0.1']
      if (fate === 'refuse') {
        url.port = String(await freePort())
        // A name with several addresses, each of which is tried.
        hosts.push('localhost')
      }
      for (const host of hosts) {
        url.hostname = host
        const sent = await isCounted(t, () => send(url.href, fate === 'hang' ? BRIEF_MS : LONG_MS))
        t.equal(sent, fate !== 'refuse', host)
      }
    })
  }
}

t.test('a send is kept when the answer is not the expected JSON', async t => {
  const url = await startProvider(t, 'thank')
  t.ok(await isCounted(t, async () => (await fetch(url, { method: 'POST', body })).json()), 'fetch')
  const transitional = { silentJSONParsing: false }
  t.ok(await isCounted(t, () => axios.post(url, body, { responseType: 'json', transitional })), 'axios')
  // Like an error in what the client has sent.
  const read = async () => {
    throw Object.assign(new SyntaxError('no JSON'), { statusCode: 500 })
  }
  t.notOk(await isCounted(t, read), 'a status set by the app is clear')
})

t.test('a send is refunded after a 5xx, for which axios has the code of a broken answer', async t => {
  const url = await startProvider(t, 'fail')
  t.notOk(await isCounted(t, () => axios.post(url, body)))
})

t.test('a send is kept when the HTTP/2 stream is reset or its session fails after the message', async t => {
  const breaks: ((stream: ServerHttp2Stream) => void)[] = [
    stream => stream.close(2),
    ({ session }) => session?.goaway(2)
  ]
  for (const breakOff of breaks) {
    const provider = createHttp2().listen(0, '127.0.0.1')
    provider.on('sessionError', () => {})
    provider.on('stream', stream =>
      stream
        .on('error', () => {})
        .on('end', () => breakOff(stream))
        .resume()
    )
    await once(provider, 'listening')
    const session = http2(`http://127.0.0.1:${(provider.address() as AddressInfo).port}`).on(
      'error',
      () => {}
    )
    t.teardown(() => {
      session.destroy()
      provider.close()
    })
    t.ok(await isCounted(t, () => once(session.request({ ':method': 'POST' }).end(body), 'response')))
  }
})

t.test('a send is kept when the app destroys its undici connections while it waits', async t => {
  // Node does not export undici, but keeps its agent once it has fetched.
  await fetch('data:,')
  const symbol = Object.getOwnPropertySymbols(globalThis).find(({ description = '' }) =>
    description.startsWith('undici.globalDispatcher')
  )
  const own = Reflect.get(globalThis, symbol as symbol) as { constructor: new () => { destroy(): void } }
  const dispatcher = new own.constructor()
  const url = await startProvider(t, 'hang', () => dispatcher.destroy())
  t.ok(await isCounted(t, () => fetch(url, { method: 'POST', body, dispatcher } as RequestInit)))
})

t.test('an unclear error is recognized as the cause of another, up to four levels deep', async t => {
  const wrapped = (depth: number, cause: object): object =>
    depth === 0 ? cause : new Error('not sent', { cause: wrapped(depth - 1, cause) })
  const isKept = (depth: number, cause: object) => isCounted(t, () => Promise.reject(wrapped(depth, cause)))
  for (const depth of [1, 4]) {
    t.ok(await isKept(depth, { code: 'ETIMEDOUT', syscall: 'read' }))
    t.ok(await isKept(depth, { name: 'AbortError' }))
    t.notOk(await isKept(depth, { code: 'ETIMEDOUT', syscall: 'connect' }))
    t.notOk(await isKept(depth, { code: 'ECONNREFUSED', syscall: 'connect' }))
    t.notOk(await isKept(depth, { statusCode: 502 }))
  }
  t.notOk(await isKept(5, { name: 'AbortError' }))
  const thrown = (cause: object, more: object) => () =>
    Promise.reject(Object.assign(new Error('not sent', { cause }), { statusCode: 500, ...more }))
  const cause = { code: 'ECONNRESET' }
  t.notOk(await isCounted(t, thrown(cause, {})), 'a status set by the app is clear')
  const replyFrom = { code: 'FST_REPLY_FROM_INTERNAL_SERVER_ERROR' }
  t.ok(await isCounted(t, thrown(cause, replyFrom)), 'the status of @fastify/reply-from is not clear')
  t.notOk(await isCounted(t, thrown({ ...cause, syscall: 'connect' }, replyFrom)))
  const reset = new Error('premature close')
  t.ok(await isCounted(t, thrown(reset, replyFrom)), 'an HTTP/2 stream that its upstream has reset')
})

t.test('every code that docs/settlement.md names keeps the send, unless nothing can have left', async t => {
  const page = readFileSync(new URL('../../docs/settlement.md', import.meta.url), 'utf8')
  const [named = ''] = /whose `code` is one of these.*?But the end is not unclear/s.exec(page) ?? []
  const codes = [...named.matchAll(/`([A-Z\d_]{5,})`/g)].flatMap(([, code]) => code ?? [])
  t.equal(codes.length, 22)
  for (const code of codes) {
    const failing = (more: object) => () =>
      Promise.reject(Object.assign(new Error('failed'), { code, ...more }))
    t.ok(await isCounted(t, failing({ syscall: 'read' })), code)
    const surely = /RESPONSE$|RETRY$/.test(code) ? { statusCode: 502 } : { syscall: 'connect' }
    t.notOk(await isCounted(t, failing(surely)), code)
  }
})

t.test('errors of another context, as those of Node and fetch under Jest, are recognized', async t => {
  const thrown = (code: string) => () => Promise.reject(runInNewContext(code))
  for (const [code, counted] of [
    ["Object.assign(new Error('failed'), { name: 'TimeoutError' })", true],
    ["Object.assign(new Error('failed'), { code: 'ECONNRESET' })", true],
    ["new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'ECONNRESET' }) })", true],
    ["Object.assign(new AggregateError([]), { code: 'ETIMEDOUT' })", false],
    ["new Error('failed')", false]
  ] as const)
    t.equal(await isCounted(t, thrown(code)), counted, code)
})

t.test('what a client tells beside the code of an error counts as well', async t => {
  for (const [error, counted] of [
    [{ name: 'HTTPParserError' }, true],
    [{ code: 'ERR_BAD_RESPONSE', response: { status: 202 } }, true],
    [{ code: 'ERR_BAD_RESPONSE', response: { status: 502 } }, false],
    [{ code: 'ETIMEDOUT', cause: { syscall: 'read' } }, true],
    [{ code: 'ETIMEDOUT', cause: { syscall: 'connect' } }, false],
    [{ code: 'ETIMEDOUT', cause: new AggregateError([]) }, false]
  ] as const) {
    const thrown = Object.assign(new Error('failed'), error)
    t.equal(await isCounted(t, () => Promise.reject(thrown)), counted, JSON.stringify(error))
  }
})

t.test('errors of node-fetch 2, which have a type in place of a code, are recognized', async t => {
  for (const [type, counted] of [
    ['request-timeout', true],
    ['body-timeout', true],
    ['max-size', true],
    ['invalid-json', true],
    ['no-redirect', false]
  ] as const) {
    const thrown = Object.assign(new Error('failed'), { name: 'FetchError', type })
    t.equal(await isCounted(t, () => Promise.reject(thrown)), counted, type)
  }
})

/** A port where a connection waits for ever, since its queue is full. */
async function silent(t: Test): Promise<number> {
  const script = `
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.2', backlog: 1 }, () => {
      require('node:fs').writeSync(1, String(server.address().port))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`
  const child = spawn(process.execPath, ['-e', script])
  t.teardown(() => child.kill('SIGKILL'))
  const [port] = await once(child.stdout, 'data')
  const filling = Array.from({ length: 4 }, () => connect(Number(port), '127.0.0.2').on('error', () => {}))
  t.teardown(() => filling.map(socket => socket.destroy()))
  await until(() => filling.filter(({ connecting }) => connecting).length <= 2, 'a full queue')
  return Number(port)
}

t.test('a send is refunded when no connection was ever made', async t => {
  const port = await silent(t)
  await t.test('one address of a name does not answer, the other refuses', async t => {
    const addresses = ['127.0.0.2', '127.0.0.3'].map(address => ({ address, family: 4 as const }))
    const lookup = (_name: string, _options: object, done: (error: null, found: typeof addresses) => void) =>
      done(null, addresses)
    const options = { host: 'provider.test', port, lookup: lookup as LookupFunction, method: 'POST' }
    t.notOk(await isCounted(t, () => once(http(options).end(body), 'response')), 'node:http')
    const url = `http://provider.test:${port}`
    t.notOk(await isCounted(t, () => axios.post(url, body, { lookup: lookup as never })), 'axios')
  })
  await t.test('a mail server does not answer', async t => {
    const mail = createTransport({ host: '127.0.0.2', port, connectionTimeout: BRIEF_MS })
    const send = () => mail.sendMail({ from: 'shop@example.com', to: 'jane@example.com', text: body })
    t.notOk(await isCounted(t, send))
  })
})

t.test('odd errors, circular or without readable fields, are refunded', async t => {
  const circle = new TypeError('a circle')
  circle.cause = circle
  for (const error of [
    circle,
    new TypeError('two', { cause: new TypeError('one', { cause: circle }) }),
    new Error('a text', { cause: 'ECONNRESET' }),
    new Error('nothing', { cause: null }),
    Object.assign(new Error('a symbol'), { code: Symbol('code') }),
    Object.assign(new Error('no text'), { code: Object.create(null) }),
    null
  ])
    t.notOk(await isCounted(t, () => Promise.reject(error)))
})

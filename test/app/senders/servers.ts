import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { readConfig } from '../../../app/config.js'
import type { Config } from '../../../app/config-schema.js'
import { type Message, SendError, type Sender } from '../../../app/senders/sender.js'
import { gate } from '../../helper/gate.js'

export const START_MS = Date.UTC(2026, 2, 1, 3)
/** A clock that stands still at 11 o'clock in China: 13 hours are left of the day. */
export const clock = { monotonic: () => 0, wall: () => START_MS }
export const HOURS_13 = 13 * 3_600_000
/** Longer than any answer of a provider. */
export const TOO_LONG = 'x'.repeat(100_000)

/** The variables that a start in production requires, besides those of senders. */
export const production = {
  NODE_ENV: 'production',
  AUDIT_LOG: 'off',
  API_KEYS: 'a-key-of-24-characters-or-more:shop'
}

// The variables of senders, for tests in which no provider is asked.
export const smtp = { SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'a@example.com' }
export const hook = { WEBHOOK_URL: 'http://127.0.0.1:1', WEBHOOK_SECRET: `whsec_${'A'.repeat(32)}` }
export const aliyun = {
  ALIYUN_ACCESS_KEY_ID: 'x',
  ALIYUN_ACCESS_KEY_SECRET: 'x',
  ALIYUN_SIGN_NAME: 'x',
  ALIYUN_TEMPLATES: 'captcha.zh=1'
}
export const credentials = {
  ...hook,
  ...aliyun,
  TWILIO_ACCOUNT_SID: 'AC1',
  TWILIO_AUTH_TOKEN: 'x',
  TWILIO_FROM: '+15005550006',
  TENCENT_SECRET_ID: 'x',
  TENCENT_SECRET_KEY: 'x',
  TENCENT_SDK_APP_ID: 'x',
  TENCENT_SIGN_NAME: 'x',
  TENCENT_TEMPLATES: 'captcha.en=1'
}

interface Asked {
  method: string
  path: string
  query: URLSearchParams
  /** The query as it arrived. */
  search: string
  headers: IncomingHttpHeaders
  body: string
}

/** What a provider does with a request; half: it breaks off in the body of a 200. */
export type Doing =
  | 'hang'
  | 'break'
  | 'half'
  | { status?: number; body: unknown; headers?: Record<string, string> }

export interface Provider {
  url: string
  asked: Asked[]
  /** The connections of its requests alone: another test may look here for a server that was at this port. */
  connections: Set<Socket>
  does: Doing
  /** Resolves when the next request has arrived. */
  next(): Promise<void>
}

/** Starts the HTTP server of a provider, for this test alone. */
export async function startProvider(t: Test, does: Doing): Promise<Provider> {
  let arrive = () => {}
  const provider: Provider = {
    url: '',
    asked: [],
    connections: new Set(),
    does,
    next: () => new Promise(resolve => (arrive = resolve))
  }
  const server = createServer(async (request, response) => {
    provider.connections.add(request.socket)
    let body = ''
    for await (const chunk of request) body += chunk
    const { pathname: path, searchParams: query, search } = new URL(request.url ?? '/', 'http://a')
    provider.asked.push({ method: request.method ?? '', path, query, search, headers: request.headers, body })
    arrive()
    answer(response, provider.does)
  })
  provider.url = await listen(t, server)
  return provider
}

/** @returns where it listens, until the end of the test */
export async function listen(t: Test, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise<void>(resolve => server.close(() => resolve()))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function answer(response: ServerResponse, does: Doing): void {
  if (does === 'hang') return
  if (does === 'break') return void response.socket?.destroy()
  if (does === 'half') {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"Response":')
    // So that the head arrives first.
    return void setTimeout(() => response.socket?.resetAndDestroy(), 50)
  }
  const { status = 200, body, headers } = does
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const type = typeof body === 'string' ? 'text/html' : 'application/json'
  response.writeHead(status, { 'content-type': type, ...headers }).end(text)
}

/** A provider whose answer never ends, `bytes` at a time. `closed` resolves when the answer is given up. */
export async function startEndless(t: Test, status: number, bytes: number, headers = {}) {
  const { open: close, opened: closed } = gate()
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(status, headers)
    const writing = setInterval(() => response.write('a'.repeat(bytes)), 100)
    response.once('close', () => {
      clearInterval(writing)
      close()
    })
  })
  return { url: await listen(t, server), closed }
}

/** A provider that switches to another protocol. `closed` resolves when its connection is closed. */
export async function startUpgrade(t: Test) {
  const { open: close, opened: closed } = gate()
  const head = 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n'
  const server = createServer(({ socket }) => socket.once('close', close).write(head))
  return { url: await listen(t, server), closed }
}

/** A port that takes connections and never says a word. */
export async function startSilence(t: Test, also = (_socket: Socket) => {}): Promise<string> {
  const server = createTcpServer(socket => also(socket.on('error', () => {})))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

export const message = (more: Partial<Message> = {}): Message => ({
  channel: 'sms',
  to: '+8613800138000',
  text: '042137 is your code',
  template: 'captcha',
  locale: 'zh',
  params: { code: '042137', minutes: '5' },
  ...more
})

export const mail = (more: Partial<Message> = {}): Message =>
  message({ channel: 'mail', to: 'jane@example.com', subject: 'Your code', html: '<p>042137</p>', ...more })

export const config = (env: NodeJS.ProcessEnv = {}): Config =>
  readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent', SEND_TIMEOUT: '10000', ...env })

/** The first of a list that must not be empty. */
export function first<T>([one]: readonly T[]): T {
  if (one === undefined) throw new Error('nothing there')
  return one
}

export const never = (): AbortSignal => new AbortController().signal

/** The outcome of a message: its receipt, or what its error tells. Fails if that names the recipient. */
export async function sent(t: Test, sender: Sender, what = message(), signal: AbortSignal = never()) {
  try {
    return { outcome: 'sent' as const, ...(await sender.send(what, signal)) }
  } catch (error) {
    if (!(error instanceof SendError)) throw error
    t.notMatch(`${error.message} ${error.code} ${error.stack}`, /13800138000|jane@|042137/)
    const { outcome, code, retryAfterMs, ofMessage } = error
    return { outcome, code, retryAfterMs, ofMessage }
  }
}

/** Checks the outcome of a message for each thing that the provider does, with one request each. */
export async function tryAnswers(
  t: Test,
  open: (url: string) => Promise<Sender>,
  cases: readonly (readonly [Doing, object])[]
) {
  const provider = await startProvider(t, 'break')
  const sender = await open(provider.url)
  for (const [does, outcome] of cases) {
    provider.does = does
    t.match(await sent(t, sender), outcome, JSON.stringify(does))
  }
  t.equal(provider.asked.length, cases.length, 'nothing is sent again')
}

type Open = (url: string, more?: NodeJS.ProcessEnv) => Promise<Sender>

/** Checks that the outcome is unknown when a provider hangs and the signal is aborted. */
export async function tryAbort(t: Test, open: Open) {
  const provider = await startProvider(t, 'hang')
  const stop = new AbortController()
  const sending = sent(t, await open(provider.url), message(), stop.signal)
  await provider.next()
  stop.abort()
  t.match(await sending, { outcome: 'unknown' })
}

/** Checks that the outcome is failed where no connection stood, since nothing was sent. */
export async function tryNobody(t: Test, open: Open, SEND_TIMEOUT = '100') {
  t.match(await sent(t, await open('http://127.0.0.1:1')), { outcome: 'failed', code: 'ECONNREFUSED' })
  const silent = await open(`https://${await startSilence(t)}`, { SEND_TIMEOUT })
  t.match(await sent(t, silent), { outcome: 'failed', code: 'ETIMEDOUT' }, 'the provider speaks no TLS')
}

import { createHook } from 'node:async_hooks'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { mock } from 'node:test'
import t from 'tap'
import { webhook } from '../../../app/senders/webhook.js'
import {
  clock,
  config,
  first,
  listen,
  mail,
  START_MS,
  sent,
  startEndless,
  startProvider,
  startUpgrade,
  tryAbort,
  tryNobody
} from './servers.js'

const KEY = Buffer.alloc(24, 7)
const WEBHOOK_SECRET = `whsec_${KEY.toString('base64')}`
const open = (url: string) => webhook.open(config({ WEBHOOK_SECRET, WEBHOOK_URL: url }), clock)

t.test('the request holds the message, and is signed', async t => {
  const provider = await startProvider(t, { status: 202, body: '' })
  const sending = mail({ text: '验证码 042137' })
  const told = await sent(t, await open(`${provider.url}/in?a=b`), sending)
  const { method, path, headers, body } = first(provider.asked)
  t.match({ method, path }, { method: 'POST', path: '/in' })
  t.match(headers, { 'content-type': 'application/json', 'webhook-timestamp': String(START_MS / 1_000) })
  t.equal(headers['user-agent'], 'fastify-send-limit', 'some firewalls refuse requests without one')
  t.same(told, { outcome: 'sent', sender: 'webhook', reference: headers['webhook-id'] })
  const signing = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const signature = createHmac('sha256', KEY).update(signing).digest('base64')
  t.equal(headers['webhook-signature'], `v1,${signature}`)
  t.same(JSON.parse(body), {
    type: 'message.send',
    timestamp: new Date(START_MS).toISOString(),
    data: { ...sending }
  })
})

const inAnHour = new Date(START_MS + 3_600_000).toUTCString()
const anHourAgo = new Date(START_MS - 3_600_000).toUTCString()
const cases: [status: number, retryAfter: string | undefined, outcome: object][] = [
  [429, '30', { outcome: 'limited', code: 'HTTP_429', retryAfterMs: 30_000 }],
  [429, inAnHour, { outcome: 'limited', retryAfterMs: 3_600_000 }],
  [429, anHourAgo, { outcome: 'limited', retryAfterMs: 0 }],
  [429, '99999999', { outcome: 'limited', retryAfterMs: undefined }],
  [429, 'soon', { outcome: 'limited', retryAfterMs: undefined }],
  [429, '1.5', { outcome: 'limited', retryAfterMs: undefined }],
  [429, undefined, { outcome: 'limited', retryAfterMs: undefined }],
  [422, undefined, { outcome: 'refused' }],
  [300, undefined, { outcome: 'failed', code: 'HTTP_300' }],
  [421, undefined, { outcome: 'failed', code: 'HTTP_421', ofMessage: true }],
  [404, undefined, { outcome: 'failed', ofMessage: false }],
  [410, undefined, { outcome: 'failed' }],
  [400, undefined, { outcome: 'failed' }],
  [401, undefined, { outcome: 'failed' }],
  [503, '30', { outcome: 'failed' }],
  [503, undefined, { outcome: 'unknown' }],
  [503, '-1', { outcome: 'unknown' }],
  [500, '30', { outcome: 'unknown', code: 'HTTP_500' }],
  [502, undefined, { outcome: 'unknown' }]
]
t.test('each answer of the service has its outcome', async t => {
  const provider = await startProvider(t, 'break')
  const sender = await open(provider.url)
  for (const [status, retryAfter, outcome] of cases) {
    provider.does = {
      status,
      body: '',
      headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter }
    }
    t.match(await sent(t, sender), outcome, `${status} ${retryAfter}`)
  }
  provider.does = 'break'
  t.match(await sent(t, sender), { outcome: 'unknown', code: 'NO_ANSWER' })
})

t.test('a date in Retry-After is read in each form, and as UTC', async t => {
  const { TZ } = process.env
  process.env.TZ = 'Asia/Shanghai'
  t.teardown(() => {
    if (TZ === undefined) delete process.env.TZ
    else process.env.TZ = TZ
  })
  const [day = '', date = '', month = '', year = '', time = ''] = inAnHour.split(/,? /)
  const provider = await startProvider(t, 'break')
  const sender = await open(provider.url)
  for (const text of [
    inAnHour,
    `${new Date(inAnHour).toLocaleString('en', { weekday: 'long', timeZone: 'UTC' })}, ${date}-${month}-${year.slice(2)} ${time} GMT`,
    `${day} ${month} ${String(Number(date)).padStart(2)} ${time} ${year}`
  ]) {
    provider.does = { status: 429, body: '', headers: { 'retry-after': text } }
    t.match(await sent(t, sender), { outcome: 'limited', retryAfterMs: 3_600_000 }, text)
  }
})

t.test('a redirect is not followed', async t => {
  const other = await startProvider(t, { body: '' })
  const provider = await startProvider(t, { status: 307, body: '', headers: { location: other.url } })
  t.match(await sent(t, await open(provider.url)), { outcome: 'failed', code: 'HTTP_307' })
  t.same(other.asked, [])
})

t.test('the outcome is unknown if the service hangs, failed if it is not there', async t => {
  await tryAbort(t, open)
  await tryNobody(t, open)
})

t.test('a body that never ends is not waited for', async t => {
  const { url, closed } = await startEndless(t, 202, 1)
  t.match(await sent(t, await open(url)), { outcome: 'sent' })
  await closed
})

t.test('a service that is connected may take its time', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const server = createServer()
  const url = await listen(t, server)
  const asked = once(server, 'request')
  const sending = sent(t, await open(url))
  const [, response] = (await asked) as [unknown, ServerResponse]
  mock.timers.tick(9_999)
  response.writeHead(202).end()
  t.match(await sending, { outcome: 'sent' })
})

t.test('messages that ask for a name at once share its lookup, of which Node does few at a time', async t => {
  const { url, asked } = await startProvider(t, { status: 202, body: '' })
  const sender = await open(url.replace('127.0.0.1', 'localhost'))
  let lookups = 0
  const hook = createHook({ init: (_id, type) => void (type === 'GETADDRINFOREQWRAP' && lookups++) }).enable()
  t.teardown(() => hook.disable())
  for (const round of [1, 2]) {
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => sent(t, sender)))
    for (const each of outcomes) t.match(each, { outcome: 'sent' })
    t.equal(lookups, round, 'a name is looked up anew when its lookup is over')
  }
  t.equal(asked.length, 16)
})

t.test('an upgrade of the connection makes the outcome unknown', { timeout: 30_000 }, async t => {
  const { url, closed } = await startUpgrade(t)
  t.match(await sent(t, await open(url)), { outcome: 'unknown', code: 'HTTP_101' })
  await closed
})

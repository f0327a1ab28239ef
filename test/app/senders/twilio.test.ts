import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { twilio } from '../../../app/senders/twilio.js'
import {
  clock,
  config,
  type Doing,
  listen,
  message,
  sent,
  startEndless,
  startProvider,
  tryAnswers,
  tryNobody
} from './servers.js'

const env = { TWILIO_ACCOUNT_SID: 'AC0123', TWILIO_AUTH_TOKEN: 'token', TWILIO_FROM: '+15005550006' }
const open = (url: string, more = {}) => twilio.open(config({ ...env, TWILIO_ENDPOINT: url, ...more }), clock)
const ok: Doing = { status: 201, body: { sid: 'SM1', status: 'queued' } }
const says = (status: number, code: number): Doing => ({
  status,
  body: { code, message: "The 'To' number +8613800138000 is not valid", status }
})

t.test('the SDK is loaded at the start, not while the first message waits', async t => {
  await twilio.open(config(env), clock)
  const loaded = Object.keys(createRequire(import.meta.url).cache)
  t.ok(loaded.some(file => /twilio.lib.rest.Api\.js$/.test(file)))
})

t.test('the request names number, text and sender, and has the credentials', async t => {
  const provider = await startProvider(t, ok)
  t.same(await sent(t, await open(provider.url)), { outcome: 'sent', sender: 'twilio', reference: 'SM1' })
  const [asked] = provider.asked
  t.match(asked, { method: 'POST', path: '/2010-04-01/Accounts/AC0123/Messages.json' })
  t.equal(asked?.headers.authorization, `Basic ${Buffer.from('AC0123:token').toString('base64')}`)
  const form = (body = '') => Object.fromEntries(new URLSearchParams(body))
  t.same(form(asked?.body), { To: '+8613800138000', Body: '042137 is your code', From: '+15005550006' })
  const service = `MG${'0'.repeat(32)}`
  await sent(t, await open(provider.url, { TWILIO_FROM: service }))
  t.match(form(provider.asked[1]?.body), { MessagingServiceSid: service })
  await sent(t, await open(provider.url, { TWILIO_FROM: 'MGSHOP' }))
  t.match(form(provider.asked[2]?.body), { From: 'MGSHOP' })
  await sent(t, await open(provider.url), { ...message(), lifetimeSeconds: 300 })
  t.match(form(provider.asked[3]?.body), { ValidityPeriod: '300' })
})

t.test('an endpoint with blanks around it is asked under its own path', async t => {
  const provider = await startProvider(t, ok)
  for (const path of ['', '/', '/proxy/']) {
    t.match(await sent(t, await open(` ${provider.url}${path} \n`)), { outcome: 'sent' })
    t.equal(
      provider.asked.at(-1)?.path,
      `${path.replace(/\/$/, '')}/2010-04-01/Accounts/AC0123/Messages.json`
    )
  }
})

const cases: [does: Doing, outcome: object][] = [
  [says(429, 20429), { outcome: 'limited', code: '20429' }],
  [
    { status: 429, body: '<html>' },
    { outcome: 'limited', code: 'HTTP_429' }
  ],
  ...[14107, 21611, 63018].map((code): [Doing, object] => [says(400, code), { outcome: 'limited' }]),
  [says(400, 21211), { outcome: 'refused', code: '21211' }],
  ...[21214, 21217, 21265, 21407, 21408, 21610, 21612, 21614, 21635].map((code): [Doing, object] => [
    says(400, code),
    { outcome: 'refused' }
  ]),
  ...[21219, 21266, 21608, 21659].map((code): [Doing, object] => [
    says(400, code),
    { outcome: 'failed', code: String(code), ofMessage: true }
  ]),
  [says(401, 20003), { outcome: 'failed', code: '20003', ofMessage: false }],
  [says(503, 20503), { outcome: 'failed' }],
  [says(500, 20500), { outcome: 'unknown' }],
  [
    { status: 502, body: '<html>' },
    { outcome: 'unknown', code: 'HTTP_502' }
  ],
  [{ body: '<html>' }, { outcome: 'unknown', code: 'NO_ANSWER' }],
  [{ body: 'not connected: x', headers: { 'content-type': 'application/json' } }, { outcome: 'unknown' }],
  [{ body: {} }, { outcome: 'unknown' }],
  [{ body: { sid: '' } }, { outcome: 'unknown' }],
  [{ body: { sid: ['+8613800138000'] } }, { outcome: 'unknown', code: 'NO_ANSWER' }],
  [
    { status: 307, body: '', headers: { location: 'http://127.0.0.1:1/' } },
    { outcome: 'unknown', code: 'HTTP_307' }
  ],
  ['half', { outcome: 'unknown' }],
  ['break', { outcome: 'unknown' }]
]
t.test('each answer of the provider has its outcome', t => tryAnswers(t, open, cases))

t.test('the outcome is unknown if the provider hangs, failed if it is not there', async t => {
  const provider = await startProvider(t, 'hang')
  t.match(await sent(t, await open(provider.url, { SEND_TIMEOUT: '3000' })), { outcome: 'unknown' })
  await tryNobody(t, open, '1000')
})

t.test('a body that never ends is given up', { timeout: 30_000 }, async t => {
  for (const [bytes, SEND_TIMEOUT, code] of [
    [1, '3000', 'ERR_CANCELED'],
    [2_000_000, '25000', 'ANSWER_TOO_LONG']
  ] as const) {
    const { url, closed } = await startEndless(t, 200, bytes)
    t.match(
      await sent(t, await open(url, { SEND_TIMEOUT })),
      { outcome: 'unknown', code },
      `${bytes} at a time`
    )
    await closed
  }
})

t.test('a compressed answer that is far too long is given up', async t => {
  const packed = gzipSync(JSON.stringify({ sid: 'SM1', body: 'a'.repeat(2_000_000) }))
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(201, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(packed)
  })
  t.match(await sent(t, await open(await listen(t, server))), {
    outcome: 'unknown',
    code: 'ERR_BAD_RESPONSE'
  })
})

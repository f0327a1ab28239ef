import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import { ask } from './captcha.js'
import { type App, places, post, putOnList } from './helper.js'

const body = { phone: '13800138000', template: 'order-shipped', params: { order: 'A-1' } }
const send = (app: App, more: object = {}, key = 'development-key') =>
  post(app, '/v1/sms', { ...body, ...more }, { headers: { 'x-api-key': key } })

const mail = (app: App) => post(app, '/v1/mail', { to: 'Jane@example.com', template: 'password-changed' })

function policyWithQuota(max: number, name = 'account') {
  const policy = loadPolicy()
  const rule = policy.rules.find(each => each.name === name)
  if (rule) rule.limits = [{ max, per: 'day', timeZone: 'Asia/Shanghai' }]
  return policy
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('the same content is sent twice in 60 s, not three times', async t => {
      const place = await open(t)
      const app = await place.start()
      t.equal((await send(app)).status, 202)
      t.equal((await send(app, { phone: '+86 138 0013 8000' })).status, 202)
      const third = await send(app, { phone: '0086-138-0013-8000' })
      t.match(third, { status: 429, body: { 'violated-policies': ['same-content'] } })
      t.equal((await send(app, { params: { order: 'A-2' } })).status, 202, 'other content is sent')
      place.advance(60_000)
      t.equal((await send(app)).status, 202)
      t.same(app.outbox?.messages[0]?.text, 'Your order A-1 is on its way.')
      t.same(app.outbox?.messages[0]?.to, '+8613800138000')
    })

    await t.test('the quota of an account is for a day in its time zone', async t => {
      const place = await open(t)
      const keys = { API_KEYS: 'key-one:first,key-two:second' }
      const app = await place.start(keys, { policy: policyWithQuota(2) })
      const from = (key: string, n: number) => send(app, { phone: `1380013800${n}` }, key)
      t.equal((await from('key-one', 0)).status, 202)
      t.equal((await from('key-one', 1)).status, 202)
      const over = await from('key-one', 2)
      // The clock starts at midnight UTC: 08:00 in Shanghai, 16 hours before the day ends.
      t.match(over, { status: 429, headers: { 'retry-after': String(16 * 3_600) } })
      t.equal((await from('key-two', 3)).status, 202, 'another account has its own quota')
      place.advance(16 * 3_600_000)
      t.equal((await from('key-one', 2)).status, 202)
    })
  })
}

t.test('nothing is sent to a blocked recipient', async t => {
  const app = await (await places.memory(t)).start()
  for (const identity of ['+8613800138000', 'jane@example.com']) await putOnList(app, 'blocked', identity)
  for (const answer of [await send(app), await mail(app)])
    t.match(answer, { status: 403, body: { 'violated-policies': ['block-list'] } })
  t.same(app.outbox?.messages, [])
})

t.test('codes, SMS and mail count together for the daily limit on all accounts', async t => {
  const app = await (await places.memory(t)).start({}, { policy: policyWithQuota(3, 'service') })
  const all = [ask, send, mail]
  for (const each of all) t.equal((await each(app)).status, 202)
  for (const each of all) t.ok((await each(app)).body['violated-policies'].includes('service'))
})

t.test('without a known key nothing is sent', async t => {
  const app = await (await places.memory(t)).start({ API_KEYS: 'key-one:first' })
  for (const key of ['', 'development-key', 'key-one:first', 'KEY-ONE']) {
    const answer = await send(app, {}, key)
    t.match(answer, { status: 401, headers: { 'content-type': 'application/problem+json' } }, key)
  }
  const without = await app.inject({ method: 'POST', url: '/v1/sms', payload: body })
  t.equal(without.statusCode, 401)
  t.same(app.outbox?.messages, [])
})

t.test(
  'in production there is no key but those configured, no outbox, and no sender unless named',
  async t => {
    const key = 'a-key-of-24-characters-or-more'
    const production = { NODE_ENV: 'production', AUDIT_LOG: 'off', API_KEYS: `${key}:first` }
    const app = await (await places.memory(t)).start(production)
    t.equal((await send(app)).status, 401)
    t.equal((await app.inject('/v1/dev/outbox')).statusCode, 404)
    const without = await app.inject({ method: 'POST', url: '/v1/captcha', payload: { phone: body.phone } })
    t.equal(without.statusCode, 401)
    const headers = { 'x-api-key': key }
    const captcha = await post(app, '/v1/captcha', { phone: body.phone, purpose: 'login' }, { headers })
    t.match(captcha, { status: 503, body: { code: 'NO_SENDER' } })
  }
)

import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import type { Rule } from '../../plugin/index.js'
import { heardOn } from '../helper/channel.js'
import { logStream } from '../helper/log-stream.js'
import { until } from '../helper/until.js'
import { ask, askMail, resend } from './captcha.js'
import { ADMIN_KEY, type App, inject, places, post, withRules } from './helper.js'
import { provider } from './provider.js'

const REFUSED = { status: 429, body: { 'violated-policies': ['budget'] } }
const DAY: Rule['limits'] = [{ max: 10_000, per: 'day', timeZone: 'Asia/Shanghai' }]
const PRICES = { currency: 'EUR', sms: { '86': 0.3, '44': 0.0079, '49': 0 }, mail: 0.1 }

/** A budget of 1 EUR a day. */
const policyWith = (changed: object = {}): Policy => ({
  ...withRules({ budget: { limits: DAY } }),
  prices: PRICES,
  ...changed
})

/** Asks for a code, each time for another number and from another address. */
let asked = 0
const code = (app: App, start = '+86138001380') =>
  ask(app, { phone: `${start}${10 + (++asked % 90)}` }, { remoteAddress: `198.51.100.${asked % 250}` })

/** What is left of the budget. */
const leftIn = async (app: App) => {
  const request = { price: { units: 1, currency: 'EUR' } } as FastifyRequest
  return (await app.limit.peek({ budget: 'EUR' }, request)).rules[0]?.limits[0]?.remaining
}

for (const [name, open] of Object.entries(places)) {
  t.test(`messages are sent as long as their price is left of the budget (${name})`, async t => {
    const place = await open(t)
    const app = await place.start({}, { policy: policyWith() })
    const { id } = (await code(app)).body
    place.advance(60_000)
    t.equal((await resend(app, id)).status, 202, 'a resend costs as much')
    t.equal((await post(app, '/v1/sms', { phone: '13900139000', template: 'password-changed' })).status, 202)
    const refused = await code(app)
    t.match(refused, REFUSED, '0.90 of 1.00 are spent')
    t.notOk(`${refused.headers['ratelimit-policy']}`.includes('budget'), 'nor do headers tell the budget')
    t.equal((await askMail(app)).status, 202, 'a mail still fits')
    t.match(await askMail(app, 'joe@example.com'), REFUSED)
    t.match(await code(app, '+4474001234'), REFUSED)
    t.equal((await code(app, '+49151123456')).status, 202, 'what is free is not counted')
    t.equal((await code(app, '+336123456')).status, 202, 'nor is what has no price')
    place.advance(refused.body.retryAfterMs - 1)
    t.match(await code(app), REFUSED)
    place.advance(1)
    t.equal((await code(app)).status, 202, 'the next day')
  })

  t.test(`each segment of an SMS costs its price (${name})`, async t => {
    const place = await open(t)
    const { purposes } = loadPolicy()
    const register = { action: { en: 'register', zh: '注册'.repeat(30) } }
    const app = await place.start({}, { policy: policyWith({ purposes: { ...purposes, register } }) })
    const inChinese = (phone: string) =>
      ask(app, { phone, locale: 'zh' }, { remoteAddress: `192.0.2.${++asked}` })
    t.equal((await inChinese('13700137000')).status, 202)
    t.equal(await leftIn(app), 10_000 - 2 * 3_000)
    t.match(await inChinese('13700137001'), REFUSED, 'two segments')
    t.equal((await code(app)).status, 202, 'one segment')
    const params = { amount: 'E'.repeat(24), order: 'A'.repeat(32) }
    app.replacePolicy(policyWith({ prices: { ...PRICES, currency: 'USD', sms: { default: 0.5 } } }))
    const sms = { phone: '13700137002', template: 'payment-received', params, locale: 'zh' }
    for (const status of [202, 429]) t.equal((await post(app, '/v1/sms', sms)).status, status, 'two again')
  })
}

t.test('of a message that surely was not sent, the price is given back', async t => {
  const place = await places.memory(t)
  const sms = provider()
  const app = await place.start({}, { policy: policyWith(), senders: { sms } })
  for (const [outcome, left] of [
    ['failed', 10_000],
    ['unknown', 7_000]
  ] as const) {
    sms.fail(outcome)
    t.equal((await code(app)).status, outcome === 'failed' ? 502 : 504)
    t.equal(await leftIn(app), left, outcome)
  }
})

t.test('a price is counted in ten-thousandths', async t => {
  const place = await places.memory(t)
  const app = await place.start({}, { policy: policyWith({ prices: { ...PRICES, mail: 0.00011 } }) })
  await code(app, '+4474001234')
  t.equal(await leftIn(app), 10_000 - 79)
  await askMail(app)
  t.equal(await leftIn(app), 10_000 - 79 - 2, 'rounded up')
})

t.test('the budget has gauges, and 80 % of it are reported once a day, in its currency', async t => {
  const place = await places.memory(t)
  const { lines, stream } = logStream()
  const told = heardOn(t, 'verification-api:audit')
  const app = await place.start({ LOG_LEVEL: 'warn' }, { policy: policyWith(), logStream: stream })
  const marks = () => told.filter(each => (each as { event: string }).event === 'quota')
  await code(app)
  await code(app)
  t.same(marks(), [])
  await code(app)
  await until(() => marks().length === 1, 'the report')
  await askMail(app)
  const report = { rules: ['budget'], currency: 'EUR', used: 0.9, max: 1 }
  t.match(marks(), [{ event: 'quota', outcome: 'soft-mark', ...report }])
  t.notOk(Object.keys(marks()[0] as object).some(name => /account|recipient|requestId/.test(name)))
  t.match(
    lines.map(line => JSON.parse(line)),
    [{ quota: { rule: 'budget', currency: 'EUR', used: 0.9, max: 1 }, msg: '80 % of the quota are used' }]
  )
  const text = await app.metrics.registry.metrics()
  t.match(text, 'budget_used{rule="budget",currency="EUR",per="day"} 1\n')
  t.match(text, 'budget_max{rule="budget",currency="EUR",per="day"} 1\n')
  t.match(text, 'quota_soft_marks_total{rule="budget",currency="EUR"} 1\n')
  t.notMatch(text, /quota_used_messages\{rule="budget"/)
})

t.test('a budget in another currency begins anew, and one without prices counts nothing', async t => {
  const place = await places.memory(t)
  const app = await place.start({}, { policy: policyWith() })
  for (const status of [202, 202, 202, 429]) t.equal((await code(app)).status, status)
  app.replacePolicy(policyWith({ prices: { ...PRICES, currency: 'USD' } }))
  t.equal((await code(app)).status, 202)
  app.replacePolicy(policyWith())
  t.match(await code(app), REFUSED)
  const { prices: _, ...without } = policyWith()
  app.replacePolicy(without)
  for (let i = 0; i < 5; i++) t.equal((await code(app)).status, 202)
})

t.test('a budget may be that of each account, and a look-up shows none', async t => {
  const place = await places.memory(t)
  const key = [{ value: 'request.account.id' }, { value: 'request.price.currency' }]
  const policy = policyWith({ rules: withRules({ budget: { limits: DAY, key } }).rules })
  const app = await place.start({ API_KEYS: 'one:first,two:second', ADMIN_KEY }, { policy })
  const send = (account: string, phone: string) =>
    post(app, '/v1/sms', { phone, template: 'password-changed' }, { headers: { 'x-api-key': account } })
  for (const [i, status] of [202, 202, 202, 429].entries())
    t.equal((await send('one', `+861380013800${i}`)).status, status)
  t.equal((await send('two', '+8613800138009')).status, 202)
  const text = await app.metrics.registry.metrics()
  for (const [account, used] of [
    ['first', 0.9],
    ['second', 0.3]
  ])
    t.match(text, `budget_used{rule="budget",account="${account}",currency="EUR",per="day"} ${used}\n`)
  t.match(text, 'quota_soft_marks_total{rule="budget",account="first",currency="EUR"} 1\n')
  const lookUp = () =>
    inject(app, {
      method: 'POST',
      url: '/v1/admin/recipients/lookup',
      headers: { 'x-admin-key': ADMIN_KEY },
      payload: { phone: '+8613800138000' }
    })
  // A rule that is known to count the recipient, and whose cost comes with the request all the same.
  const ofRecipient = {
    key: { value: 'request.recipient.identity' },
    cost: { value: 'request.account.dailyQuota' }
  }
  for (const next of [
    policy,
    policyWith({ rules: withRules({ budget: { limits: DAY, ...ofRecipient } }).rules })
  ]) {
    app.replacePolicy(next)
    const found = await lookUp()
    t.equal(found.status, 200)
    t.notMatch(JSON.stringify(found.body), 'budget')
  }
})

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import { folderOf } from '../helper/folder.js'
import { ask, E164, resend, status, verify, wrong } from './captcha.js'
import { ADMIN_KEY, type App, inject, KEY, lastCode, places, post, reload } from './helper.js'

type Rules = Policy['rules']

/** The policy of the app with these rules of the operator's own. */
function policyWith(...own: Rules): Policy {
  const policy = loadPolicy()
  return { ...policy, rules: [...policy.rules, ...own] }
}

const byTenant: Rules[number] = {
  name: 'tenant',
  on: ['code', 'message'],
  key: { value: 'headers.x-tenant' },
  optional: true,
  limits: [{ max: 2, per: 'hour' }]
}

let asked = 0
/** What the next request needs, to be refused by no other rule. */
const fresh = () => {
  asked++
  return { phone: `+861380013${8_000 + asked * 7}`, remoteAddress: `198.51.100.${asked}` }
}
const code = (app: App, headers: Record<string, string> = {}) => {
  const { phone, remoteAddress } = fresh()
  return ask(app, { phone }, { headers, remoteAddress })
}
const sms = (app: App, headers: Record<string, string> = {}) => {
  const { phone, remoteAddress } = fresh()
  const body = { phone, template: 'password-changed' }
  return post(app, '/v1/sms', body, { headers: { 'x-api-key': KEY, ...headers }, remoteAddress })
}
const refusedBy = (rule: string) => ({ status: 429, body: { 'violated-policies': [rule] } })

for (const [name, open] of Object.entries(places)) {
  t.test(
    `a rule of the operator's own decides on what it names, together with the others (${name})`,
    async t => {
      const place = await open(t)
      const app = await place.start({}, { policy: policyWith(byTenant) })
      const a = { 'x-tenant': 'a' }
      const { id } = (await code(app, a)).body
      place.advance(60_000)
      t.equal((await resend(app, id, { headers: a })).status, 202)
      t.match(await code(app, a), refusedBy('tenant'))
      t.match(await sms(app, a), refusedBy('tenant'))
      t.match(await resend(app, id, { headers: a }), {
        status: 429,
        body: { 'violated-policies': ['recipient-60s', 'tenant'] }
      })
      t.equal((await status(app, id, { headers: a })).status, 200, 'not on how a code stands')
      t.equal((await code(app, { 'x-tenant': 'b' })).status, 202)
      t.equal((await sms(app)).status, 202, 'optional')
    }
  )
}

t.test('a rule on one kind of requests leaves the others', async t => {
  const place = await places.memory(t)
  const rule = (on: 'code' | 'message' | 'try'): Rules[number] => ({
    name: `one-${on}`,
    on: [on],
    key: 'all',
    limits: [{ max: 1, per: 'day' }]
  })
  const app = await place.start({}, { policy: policyWith(rule('code'), rule('message'), rule('try')) })
  const { id } = (await code(app)).body
  t.equal((await sms(app)).status, 202)
  t.equal((await verify(app, id, '000000')).status, 422)
  t.match(await code(app), refusedBy('one-code'))
  t.match(await sms(app), refusedBy('one-message'))
  t.equal((await verify(app, id, '000000')).status, 422, 'a try that is wrong is given back')
})

t.test('a rule of failures may count tries, and one of attempts comes before the body', async t => {
  const place = await places.memory(t)
  const failures: Rules[number] = {
    name: 'wrong-a-day',
    on: ['try'],
    key: { value: 'request.captcha.identity' },
    optional: true,
    counts: 'failures',
    limits: [{ max: 1, per: 'day' }]
  }
  const attempts: Rules[number] = {
    name: 'slowly',
    on: ['message'],
    key: 'ip',
    counts: 'attempts',
    limits: [{ max: 1, window: '60s' }]
  }
  const app = await place.start({}, { policy: policyWith(failures, attempts) })
  const { id } = (await ask(app)).body
  const right = lastCode(app, E164)
  t.equal((await verify(app, id, wrong(right))).status, 422)
  t.match(await verify(app, id, right), refusedBy('wrong-a-day'))
  const message = (body: object) => post(app, '/v1/sms', body, { headers: { 'x-api-key': KEY } })
  t.equal((await message({})).status, 422)
  t.match(await message({}), refusedBy('slowly'))
})

t.test('metrics tell what a rule that only observes would have refused', async t => {
  const place = await places.memory(t)
  const policy = policyWith({ ...byTenant, mode: 'observe' } as Rules[number])
  const app = await place.start({}, { policy })
  for (let i = 0; i < 4; i++) t.equal((await sms(app, { 'x-tenant': 'a' })).status, 202)
  const text = await app.metrics.registry.metrics()
  t.match(text, 'limit_observed_refusals_total{route="POST /v1/sms",rule="tenant"} 2\n')
  t.notMatch(text, /^limit_refusals_total\{/m)
})

t.test('the budget of an account is a rule of the operator’s own', async t => {
  const place = await places.memory(t)
  const budget: Rules[number] = {
    name: 'account-budget',
    on: ['code', 'message'],
    key: [{ value: 'request.account.id' }, { value: 'request.price.currency' }],
    optional: true,
    cost: { value: 'request.price.units' },
    limits: [{ max: 150, per: 'month' }]
  }
  const app = await place.start({ API_KEYS: 'one:first,two:second' }, { policy: policyWith(budget) })
  for (const [key, status] of [
    ['one', 202],
    ['one', 202],
    ['one', 429],
    ['two', 202]
  ] as const)
    t.equal((await sms(app, { 'x-api-key': key })).status, status, '71 each')
  const text = await app.metrics.registry.metrics()
  t.match(text, 'budget_used{rule="account-budget",account="first",currency="USD",per="month"} 0.0142\n')
  t.match(text, 'quota_soft_marks_total{rule="account-budget",account="first",currency="USD"} 1\n')
})

t.test('a look-up shows a rule on the recipient, and unblocking forgets it', async t => {
  const place = await places.memory(t)
  const twice: Rules[number] = {
    name: 'twice',
    on: ['message'],
    key: { value: 'request.recipient.identity' },
    limits: [{ max: 2, per: 'month' }]
  }
  const app = await place.start({ ADMIN_KEY }, { policy: policyWith(twice) })
  const send = () => post(app, '/v1/sms', { phone: E164, template: 'password-changed' })
  const operate = (what: string) =>
    inject(app, {
      method: 'POST',
      url: `/v1/admin/recipients/${what}`,
      headers: { 'x-admin-key': ADMIN_KEY },
      payload: { phone: E164 }
    })
  t.equal((await send()).status, 202)
  place.advance(60_000)
  t.equal((await send()).status, 202)
  place.advance(60_000)
  t.match(await send(), refusedBy('twice'))
  const { rules } = (await operate('lookup')).body
  t.match(
    rules.find((each: { rule: string }) => each.rule === 'twice'),
    { max: 2, used: 2, refuses: true }
  )
  t.equal((await operate('unblock')).status, 200)
  t.equal((await send()).status, 202)
})

t.test('at a reload the limits of own rules change, but not which there are', async t => {
  const place = await places.memory(t)
  const file = join(folderOf(t), 'policy.json')
  const write = (policy: Policy) => writeFileSync(file, JSON.stringify(policy))
  write(policyWith(byTenant))
  const app = await place.start({ POLICY_FILE: file, ADMIN_KEY })
  const a = { 'x-tenant': 'a' }
  for (const status of [202, 202, 429]) t.equal((await code(app, a)).status, status)
  write(policyWith({ ...byTenant, limits: [{ max: 3, per: 'hour' }] } as Rules[number]))
  t.equal((await reload(app)).status, 200)
  for (const status of [202, 429]) t.equal((await code(app, a)).status, status)
  const other: Rules[number] = { ...byTenant, name: 'other' }
  for (const [own, on, now] of [
    [[], 'code', 'none'],
    [[byTenant, other], 'code', 'other, tenant'],
    [[other], 'code', 'other'],
    [[{ ...byTenant, on: ['code'] } as Rules[number]], 'message', 'none']
  ] as const) {
    write(policyWith(...own))
    const { status, body } = await reload(app)
    t.match({ status, code: body.code }, { status: 422, code: 'RELOAD_REFUSED' })
    t.match(
      body.detail,
      `policy.rules has other rules of your own on "${on}" (${now}) than at the start (tenant): they come and go with a restart alone.`
    )
    t.equal((await code(app, a)).status, 429, 'nothing has changed')
  }
})

t.test('a wrong rule of the operator’s own is refused at the start', async t => {
  const place = await places.memory(t)
  const [first] = loadPolicy().rules as [Rules[number]]
  for (const [rule, says] of [
    [
      { ...byTenant, on: undefined },
      /policy\.rules\[22\]\.name \("tenant"\) is none of ip-attempts, .*; a rule of your own says on which requests it decides, by one or more of "on": \["code", "message", "try"\]\./
    ],
    [{ ...byTenant, on: [] }, /policy\.rules\[22\]\.on /],
    [{ ...byTenant, on: ['status'] }, /policy\.rules\[22\]\.on\[0\] \("status"\)/],
    [{ ...byTenant, on: ['code', 'code'] }, /policy\.rules\[22\]\.on /],
    [
      { ...first, on: ['code'] },
      /policy\.rules\[22\]\.on goes with rules of your own alone; ip-attempts has requests of its own\./
    ],
    [
      { ...byTenant, key: { value: 'request.purpose' }, on: ['message'] },
      /policy\.rules\[22\]\.key\.value \("request\.purpose"\) is nothing that this rule can read/
    ],
    [
      { ...byTenant, key: { value: 'request.recipient.identity' }, on: ['try'] },
      /policy\.rules\[22\]\.key\.value .* is nothing that this rule can read/
    ],
    [
      { ...byTenant, key: { value: 'request.purpose' } },
      /policy\.rules\[22\]\.key\.value \("request\.purpose"\) is nothing that this rule can read/
    ],
    [{ ...byTenant, name: 'wrong-codes' }, /wrong-codes/],
    [{ ...byTenant, name: 'block-list' }, /block-list/],
    [{ ...byTenant, name: 'two words' }, /policy\.rules\[22\]\.name/],
    [{ ...byTenant, limits: undefined }, /policy\.rules\[22\]/]
  ] as const) {
    const file = join(folderOf(t), 'policy.json')
    writeFileSync(file, JSON.stringify(policyWith(rule as never)))
    await t.rejects(place.start({ POLICY_FILE: file }), { message: says })
  }
})

import { spawnSync } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Check } from 'typebox/value'
import { AuditEventSchema } from '../../app/audit/event.js'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import type { DecisionEvent } from '../../plugin/index.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { ask, E164, resend, verify } from './captcha.js'
import {
  ADMIN_KEY,
  type App,
  inject,
  lastCode,
  type Place,
  places,
  post,
  sha256,
  withRules
} from './helper.js'
import { provider } from './provider.js'

const shop = { id: 'shop', keys: [sha256('key of shop')] }
const other = { id: 'other', keys: [sha256('key of other')], origins: ['https://other.example'] }

/** An app whose policy and accounts are in files, and a function that writes these. */
async function start(
  t: Test,
  { start }: Place,
  accounts: object[],
  more: Parameters<Place['start']>[1] = {}
) {
  const folder = folderOf(t)
  const files = {
    POLICY_FILE: join(folder, 'policy.json'),
    ACCOUNTS_FILE: join(folder, 'accounts.json')
  }
  const write = (content: { policy?: object; accounts?: unknown }) => {
    if (content.policy) writeFileSync(files.POLICY_FILE, JSON.stringify(content.policy))
    if (content.accounts) writeFileSync(files.ACCOUNTS_FILE, JSON.stringify(content.accounts))
  }
  write({ policy: loadPolicy(), accounts })
  const app = await start({ ...files, ADMIN_KEY, API_KEYS: 'key-of-env:env' }, more)
  return { app, files, write }
}

const reload = (app: App) => post(app, '/v1/admin/reload', {}, { headers: { 'x-admin-key': ADMIN_KEY } })

let phones = 0
/** Asks for a code, each time for another number, from another address. */
const send = (app: App, key: string, headers = {}) =>
  ask(
    app,
    { phone: `1380013${String(8_000 + ++phones)}` },
    { headers: { 'x-api-key': key, ...headers }, remoteAddress: `192.0.2.${phones}` }
  )
const told = async (app: App, key: string) => {
  const { status, body } = await send(app, key)
  return status === 202 ? status : body.code
}

for (const [name, open] of Object.entries(places)) {
  t.test(`keys, origins and accounts are those of the last reload (${name})`, async t => {
    const { app, write } = await start(t, await open(t), [shop])
    const page = { origin: 'https://other.example' }
    t.equal(await told(app, 'key of shop'), 202)
    t.equal(await told(app, 'key of other'), 'API_KEY_UNKNOWN')
    write({ accounts: [{ ...shop, keys: [sha256('new key')], revoked: shop.keys }, other] })
    t.equal(await told(app, 'new key'), 'API_KEY_UNKNOWN', 'a new key is unknown before the reload')
    t.match(await reload(app), { status: 200, body: { rules: 22, purposes: 3, accounts: 2 } })
    t.equal(await told(app, 'key of shop'), 'API_KEY_REVOKED')
    t.equal(await told(app, 'new key'), 202)
    t.equal(await told(app, 'key of other'), 202)
    const asked = await send(app, '', page)
    t.match(asked, { status: 202, headers: { 'access-control-allow-origin': page.origin } })
    write({ accounts: [shop] })
    t.match(await reload(app), { status: 200, body: { accounts: 1 } })
    t.equal(await told(app, 'key of shop'), 202)
    for (const gone of ['new key', 'key of other']) t.equal(await told(app, gone), 'API_KEY_UNKNOWN')
    const refused = await send(app, '', page)
    t.match(refused, { status: 403, body: { code: 'ORIGIN_UNKNOWN' } })
    t.notOk(refused.headers['access-control-allow-origin'])
    t.equal(await told(app, 'key-of-env'), 202, 'the keys of API_KEYS stay')
  })

  t.test(`a reloaded quota holds at once for what was counted; 80 % are reported (${name})`, async t => {
    const { app, write } = await start(t, await open(t), [{ ...shop, dailyQuota: 2 }])
    const events = heardOn(t, 'verification-api:audit') as { event: string }[]
    const quota = async (dailyQuota: number) => {
      write({ accounts: [{ ...shop, dailyQuota }] })
      t.equal((await reload(app)).status, 200)
    }
    for (const answer of [202, 202, 'FST_SEND_LIMIT_EXCEEDED'])
      t.equal(await told(app, 'key of shop'), answer)
    await quota(4)
    for (const answer of [202, 202, 'FST_SEND_LIMIT_EXCEEDED'])
      t.equal(await told(app, 'key of shop'), answer)
    await quota(3)
    t.equal(await told(app, 'key of shop'), 'FST_SEND_LIMIT_EXCEEDED')
    await quota(6)
    for (const answer of [202, 202, 'FST_SEND_LIMIT_EXCEEDED'])
      t.equal(await told(app, 'key of shop'), answer)
    await quota(4)
    const marks = events.filter(({ event }) => event === 'quota')
    t.match(marks, [
      { used: 2, max: 2 },
      { used: 4, max: 4 },
      { used: 5, max: 6 }
    ])
    t.equal(marks.length, 3)
  })

  t.test(`a request under way ends with the account that it began with (${name})`, async t => {
    const sms = provider()
    const { app, write } = await start(t, await open(t), [shop], { senders: { sms } })
    const events = heardOn(t, 'verification-api:audit') as { event: string }[]
    const { held, letGo } = sms.hold()
    const sending = told(app, 'key of shop')
    await held
    write({ accounts: [] })
    t.equal((await reload(app)).status, 200)
    t.equal(await told(app, 'key of shop'), 'API_KEY_UNKNOWN')
    letGo()
    t.equal(await sending, 202)
    t.match(
      events.filter(({ event }) => event === 'send'),
      [{ account: 'shop', outcome: 'sent' }]
    )
  })

  t.test(`a code of a purpose that is taken away is not resent, but verified (${name})`, async t => {
    const place = await open(t)
    const { app, write } = await start(t, place, [shop])
    const options = { headers: { 'x-api-key': 'key of shop' } }
    const { register: _, ...purposes } = loadPolicy().purposes
    const numbers = ['13800137001', '13900137001']
    const [first, second] = await Promise.all(numbers.map(phone => ask(app, { phone }, options)))
    place.advance(60_000)
    for (const [code, change] of [
      ['PURPOSE_FORBIDDEN', { accounts: [{ ...shop, purposes: ['login'] }] }],
      ['PURPOSE_UNKNOWN', { accounts: [shop], policy: { ...loadPolicy(), purposes } }]
    ] as const) {
      write(change)
      t.equal((await reload(app)).status, 200)
      t.match(await resend(app, first?.body.id, options), { body: { code } })
    }
    t.equal((await verify(app, first?.body.id, lastCode(app, `+86${numbers[0]}`), {}, options)).status, 200)
    write({ policy: loadPolicy() })
    await reload(app)
    t.equal((await resend(app, second?.body.id, options)).status, 202)
  })

  t.test(`a code whose purpose is removed after its send was counted is not sent (${name})`, async t => {
    const sms = provider()
    const { app, write } = await start(t, await open(t), [shop], { senders: { sms } })
    t.equal(await told(app, 'key of shop'), 202)
    const purposes = { login: policy.purposes.login }
    const decided = (event: unknown) => {
      const { stage, allowed } = event as DecisionEvent
      if (stage !== 'sends' || !allowed || app.policy.purposes.register === undefined) return
      write({ policy: { ...policy, purposes } })
      app.reload()
    }
    subscribe('fastify-send-limit:decision', decided)
    t.teardown(() => unsubscribe('fastify-send-limit:decision', decided))
    const { status, body } = await send(app, 'key of shop')
    t.match({ status, body }, { status: 422, body: { code: 'PURPOSE_UNKNOWN' } })
    t.equal(sms.messages.length, 1)
    const quota = await inject(app, { url: '/v1/quota', headers: { 'x-api-key': 'key of shop' } })
    t.match(quota.body.limits, [{ used: 1 }], 'it is not counted')
  })
}

const policy = loadPolicy()
const { login: _, ...fewer } = policy.purposes
const limited = (limits: object[]) => withRules({ account: { limits } })
const pay = { ...policy, purposes: { ...policy.purposes, pay: policy.purposes.login } }

t.test('a mistake in policy or accounts changes neither, and is named with its path', async t => {
  const { app, write } = await start(t, await places.memory(t), [
    { ...shop, purposes: ['login', 'register'] }
  ])
  const events = heardOn(t, 'verification-api:audit')
  const cases: [content: { policy?: object; accounts?: unknown }, reason: RegExp][] = [
    [{ accounts: {} }, /^ACCOUNTS_FILE must be a list/],
    [{ accounts: [shop, { ...other, dailyQuota: 0 }] }, /^ACCOUNTS_FILE\[1\]\.dailyQuota \(0\)/],
    [{ accounts: [shop, { ...other, keys: ['topsecret'] }] }, /^ACCOUNTS_FILE\[1\]\.keys\[0\] must be/],
    [{ accounts: [shop, { ...other, keys: shop.keys }] }, /^ACCOUNTS_FILE\[1\]\.keys\[0\] is listed before/],
    [{ accounts: [{ ...shop, id: 'env' }] }, /^API_KEYS names the account env/],
    [{ accounts: [{ ...shop, keys: [sha256(ADMIN_KEY)] }] }, /^ADMIN_KEY is a key of the account shop/],
    [{ accounts: [{ ...shop, purposes: ['pay'] }] }, /^ACCOUNTS_FILE\[0\]\.purposes\[0\] \("pay"\) names no/],
    [
      { accounts: [{ ...shop, templates: ['pay'] }] },
      /^ACCOUNTS_FILE\[0\]\.templates\[0\] \("pay"\) names no/
    ],
    [{ policy: { ...policy, purposes: fewer } }, /^ACCOUNTS_FILE\[0\]\.purposes\[0\] \("login"\) names no/],
    // The file without a mistake is not in force either.
    [{ policy: pay, accounts: [shop, { ...other, keys: [] }] }, /^ACCOUNTS_FILE\[1\]\.keys/],
    [{ policy: limited([]), accounts: [shop, other] }, /^policy\.rules\[\d+\]\.limits/]
  ]
  for (const [content, reason] of cases) {
    write({ policy, accounts: [{ ...shop, purposes: ['login', 'register'] }], ...content })
    const { status, body } = await reload(app)
    t.match({ status, body }, { status: 422, body: { code: 'RELOAD_REFUSED', reason } })
    const { instance } = body
    t.throws(() => app.reload(), { name: 'ConfigError', message: reason })
    const [refused, admin, bySignal] = events.splice(0)
    t.match(
      [refused, admin, bySignal],
      [
        { event: 'reload', outcome: 'refused', detail: reason },
        { event: 'admin', action: 'reload', outcome: 'failed' },
        { event: 'reload', outcome: 'refused', detail: reason, actor: 'signal' }
      ]
    )
    t.match(instance, (refused as { requestId: string }).requestId)
    for (const event of [refused, bySignal]) t.ok(Check(AuditEventSchema, event))
    t.notMatch(JSON.stringify([body, refused]), /topsecret/)
    t.same(app.policy, policy)
    t.equal(app.accounts.listed.length, 1)
    t.equal(app.accounts.byKey('key of other'), undefined)
  }
  t.equal(await told(app, 'key of shop'), 202)
})

t.test('a duplicate that the rules before a reload refuse counts as one after it', async t => {
  const app = await (await places.memory(t)).start()
  const message = { phone: E164, template: 'password-changed' }
  for (let i = 0; i < 2; i++) t.equal((await post(app, '/v1/sms', message)).status, 202)
  const key = [{ value: 'request.recipient.identity' }]
  const next = withRules({ 'same-content': { key } })
  const decided = (event: unknown) => {
    if ((event as DecisionEvent).stage === 'attempts') app.replacePolicy(next)
  }
  subscribe('fastify-send-limit:decision', decided)
  t.teardown(() => unsubscribe('fastify-send-limit:decision', decided))
  t.equal((await post(app, '/v1/sms', message)).status, 429)
  t.match((await app.inject('/metrics')).body, 'limit_duplicates_total{route="POST /v1/sms"} 1\n')
})

t.test('both may change together: the lists of accounts are checked against the new policy', async t => {
  const { app, write } = await start(t, await places.memory(t), [{ ...shop, purposes: ['login'] }])
  write({ policy: { ...policy, purposes: { pay: policy.purposes.login } } as Policy })
  t.equal((await reload(app)).status, 422)
  write({ accounts: [{ ...shop, purposes: ['pay'] }] })
  t.equal((await reload(app)).status, 200)
  const paid = await ask(app, { purpose: 'pay' }, { headers: { 'x-api-key': 'key of shop' } })
  t.equal(paid.status, 202)
})

t.test('a reload refuses a file that is a pipe, and does not wait for it', async t => {
  for (const name of ['POLICY_FILE', 'ACCOUNTS_FILE'] as const) {
    const { app, files } = await start(t, await places.memory(t), [shop])
    rmSync(files[name])
    spawnSync('mkfifo', [files[name]])
    t.match(await reload(app), {
      status: 422,
      body: { reason: `${name} is a pipe, which is read at the start alone.` }
    })
    t.equal(await told(app, 'key of shop'), 202)
  }
})

t.test('without ACCOUNTS_FILE the account of development stays in force', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  t.match(await reload(app), { status: 200, body: { accounts: 0 } })
  const newcomer = { method: 'POST', url: '/v1/captcha', payload: { phone: E164, purpose: 'login' } } as const
  t.equal((await inject(app, { ...newcomer, headers: { 'x-api-key': '' } })).status, 202)
})

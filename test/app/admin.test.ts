import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { Check } from 'typebox/value'
import { AuditEventSchema } from '../../app/audit/event.js'
import type { Captcha } from '../../app/captcha/captchas.js'
import { ConfigError } from '../../app/check.js'
import { recipientOf } from '../../app/recipient.js'
import type { Rule } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import { gate } from '../helper/gate.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { operationsOf } from './fuzz/operations.js'
import { ADMIN_KEY, startApp } from './helper.js'
import { ask, linesOf, open, REGION } from './operating.js'
import { START_MS, stillClock } from './still-clock.js'

type Test = Parameters<typeof open>[0]

const key = { value: 'request.recipient.identity' }
const rules: Rule[] = [
  {
    name: 'recipient',
    key,
    limits: [
      { max: 1, window: '60s' },
      { max: 5, window: '1h' }
    ]
  },
  { name: 'in-flight', key, lock: '30s' },
  {
    name: 'recipient-purpose',
    key: [key, { value: 'request.purpose' }],
    limits: [{ max: 5, window: '24h' }]
  },
  { name: 'watched', key: [key], limits: [{ max: 3, per: 'day', timeZone: 'UTC' }], mode: 'observe' }
]
const phone = '13800138000'
const masked = '+86*******8000'

let hold: Promise<void> | null = null
function routes(app: FastifyInstance) {
  app.post<{ Body: { phone: string } }>(
    '/send',
    {
      config: { limit: ['block-list', ...rules.map(({ name }) => name)] },
      preHandler: async request => {
        request.recipient = recipientOf(request.body, REGION)
        request.purpose = 'login'
      }
    },
    async () => {
      await hold
      return {}
    }
  )
}

const headers = { 'x-admin-key': ADMIN_KEY }
const send = (app: FastifyInstance) => ask(app, 'POST', '/send', { payload: { phone } })
const act = (app: FastifyInstance, what: string, payload: object, more = {}) =>
  ask(app, 'POST', `/v1/admin/recipients/${what}`, { payload, headers, ...more })
const list = (app: FastifyInstance, query = '') =>
  ask(app, 'GET', `/v1/admin/recipients${query}`, { headers })

const places = {
  async memory() {
    return { env: {}, ...stillClock() }
  },
  async redis(t: Test) {
    const { url, clock } = await startRedis(t, { clock: true, startMs: START_MS })
    return {
      env: { REDIS_URL: url },
      clock: { monotonic: () => clock.now(), wall: () => clock.now() },
      advance: (ms: number) => clock.advance(ms)
    }
  }
}

for (const [name, place] of Object.entries(places)) {
  t.test(`a look-up tells what is left of a block, whatever the wall clock says (${name})`, async t => {
    const { env, clock, advance } = await place(t)
    let back = 0
    const { app } = await open(t, { env, clock: { ...clock, wall: () => clock.wall() - back } })
    await act(app, 'block', { phone, duration: '2m' })
    advance(20_000)
    back = 3_600_000
    t.match((await act(app, 'lookup', { phone })).body, { retryAfterMs: 100_000 })
  })

  t.test(`a look-up shows each limit of a recipient, what is used, and if it refuses (${name})`, async t => {
    const { env, clock, advance } = await place(t)
    const { app } = await open(t, { env, clock, rules, routes })
    t.match(await act(app, 'lookup', { phone }), {
      status: 200,
      body: { recipient: masked, standing: null, retryAfterMs: 0 }
    })
    t.equal((await send(app)).status, 200)
    advance(10_000)
    const { body } = await act(app, 'lookup', { phone: '+86 138-0013-8000' })
    t.same(body, {
      recipient: masked,
      recipientHash: body.recipientHash,
      standing: null,
      rules: [
        {
          rule: 'recipient',
          max: 1,
          used: 1,
          remaining: 0,
          windowMs: 60_000,
          resetMs: 50_000,
          refuses: true
        },
        {
          rule: 'recipient',
          max: 5,
          used: 1,
          remaining: 4,
          windowMs: 3_600_000,
          resetMs: 3_590_000,
          refuses: false
        },
        { rule: 'in-flight', max: 1, used: 0, remaining: 1, windowMs: 30_000, resetMs: 0, refuses: false },
        {
          rule: 'watched',
          max: 3,
          used: 1,
          remaining: 2,
          windowMs: 86_400_000,
          resetMs: 86_390_000,
          refuses: false
        }
      ],
      retryAfterMs: 50_000
    })
    t.same((await act(app, 'lookup', { phone })).body, body, 'a look-up changes nothing')
    t.match((await act(app, 'lookup', { email: 'a.b@gmail.com' })).body, {
      recipient: 'a***@gmail.com',
      rules: [{ used: 0 }, {}, {}, {}]
    })
  })

  t.test(`a recipient is blocked, unblocked, blocked for a time, and allowed (${name})`, async t => {
    const { env, clock, advance } = await place(t)
    const { app } = await open(t, { env, clock, rules, routes })
    const since = new Date(START_MS).toISOString()
    const blocked = await act(app, 'block', { phone, reason: 'asked for it' })
    t.match(blocked, {
      status: 200,
      body: { recipient: masked, standing: 'blocked', reason: 'asked for it', since }
    })
    t.match(await send(app), { status: 403, body: { 'violated-policies': ['block-list'] } })
    t.match((await act(app, 'lookup', { phone })).body, {
      standing: { standing: 'blocked', reason: 'asked for it', since },
      retryAfterMs: null
    })
    const recipientHash = app.recipientHash(recipientOf({ phone }, REGION))
    t.same((await act(app, 'unblock', { phone })).body, {
      recipient: masked,
      recipientHash,
      standing: null,
      countsCleared: true
    })
    t.equal((await send(app)).status, 200)
    t.equal((await send(app)).status, 429)
    t.equal((await act(app, 'unblock', { phone })).status, 200)
    t.equal((await send(app)).status, 200, 'unblocking forgets what was counted')

    const until = new Date(START_MS + 120_000).toISOString()
    for (const [duration, ms] of [
      ['90s', 90_000],
      ['3h', 10_800_000],
      ['2d', 172_800_000],
      ['2m', 120_000]
    ] as const) {
      const { body } = await act(app, 'block', { phone, duration })
      t.equal(Date.parse(body.until) - START_MS, ms, duration)
    }
    t.match((await act(app, 'lookup', { phone })).body, { standing: { until }, retryAfterMs: 120_000 })
    advance(120_000)
    t.equal((await send(app)).status, 200)

    t.match((await act(app, 'allow', { phone, duration: '366d' })).body, { standing: 'allowed' })
    t.match((await act(app, 'lookup', { phone })).body, {
      standing: { standing: 'allowed' },
      retryAfterMs: 0
    })
    t.same((await list(app, '?standing=blocked')).body, { recipients: [], next: null })
    t.match((await list(app)).body, { recipients: [{ recipient: masked, standing: 'allowed' }], next: null })
  })

  t.test(
    `a look-up says of each limit whether it refuses; limits that observe never do (${name})`,
    async t => {
      const { env, clock } = await place(t)
      const each: Rule[] = [
        {
          name: 'day',
          key,
          limits: [
            { max: 2, window: '24h' },
            { max: 1, per: 'day', timeZone: 'UTC' }
          ]
        },
        { name: 'watched', key, limits: [{ max: 1, window: '60s' }], mode: 'observe' }
      ]
      const { app } = await open(t, { env, clock, rules: each })
      await app.limit.reserve({ day: '+8613800138000', watched: '+8613800138000' })
      t.match((await act(app, 'lookup', { phone })).body, {
        rules: [
          { rule: 'day', max: 2, used: 1, refuses: false },
          { rule: 'day', max: 1, used: 1, refuses: true },
          { rule: 'watched', max: 1, used: 1, refuses: false }
        ],
        retryAfterMs: 86_400_000
      })
    }
  )

  t.test(
    `a look-up shows blocks by limit.block, which unblocking ends, and by a rule's own list (${name})`,
    async t => {
      const { env, clock } = await place(t)
      const limits = [{ max: 1, window: '60s' }] as const
      const listed: Rule = { name: 'listed', key, block: ['+8613900139000'], limits: [...limits] }
      const passed: Rule = { name: 'passed', key, allow: ['+8613900139000'], limits: [...limits] }
      const { app } = await open(t, { env, clock, rules: [...rules, listed, passed], routes })
      await app.limit.block({ recipient: '+8613800138000' })
      t.match((await act(app, 'lookup', { phone })).body, {
        standing: null,
        rules: [
          { rule: 'recipient', used: 0, refuses: true },
          { rule: 'recipient', used: 0, refuses: true },
          { rule: 'in-flight', refuses: false },
          { rule: 'watched', refuses: false },
          { rule: 'listed', refuses: false },
          { rule: 'passed', refuses: false }
        ],
        retryAfterMs: null
      })
      t.equal((await send(app)).status, 403)
      t.equal((await act(app, 'unblock', { phone })).status, 200)
      t.equal((await send(app)).status, 200)
      const other = (await act(app, 'lookup', { phone: '13900139000' })).body
      t.same(
        other.rules.filter(({ refuses }: { refuses: boolean }) => refuses),
        [{ rule: 'listed', max: 0, used: 0, remaining: 0, windowMs: 0, resetMs: 0, refuses: true }]
      )
      t.equal(other.retryAfterMs, null)
    }
  )

  t.test(`a look-up shows failed tries; unblocking forgets them (${name})`, async t => {
    const { env, clock } = await place(t)
    const failures: Rule = {
      name: 'verify-failures-recipient',
      key: { value: 'request.captcha.identity' },
      counts: 'failures',
      limits: [{ max: 1, window: '24h' }]
    }
    const verify = (app: FastifyInstance) =>
      app.post<{ Body: { phone: string } }>(
        '/verify',
        {
          config: { limit: 'verify-failures-recipient' },
          preHandler: async request => {
            request.captcha = recipientOf(request.body, REGION) as Captcha
          }
        },
        async (_request, reply) => reply.code(422).send({})
      )
    const { app } = await open(t, { env, clock, rules: [failures], routes: verify })
    const fails = () => ask(app, 'POST', '/verify', { payload: { phone } })
    t.equal((await fails()).status, 422)
    t.equal((await fails()).status, 429)
    t.match((await act(app, 'lookup', { phone })).body, {
      rules: [{ rule: 'verify-failures-recipient', max: 1, used: 1, refuses: true }],
      retryAfterMs: 86_400_000
    })
    t.equal((await act(app, 'unblock', { phone })).status, 200)
    t.equal((await fails()).status, 422)
  })

  t.test(`a look-up shows a lock, and unblocking does not release it (${name})`, async t => {
    const { env, clock } = await place(t)
    const { app } = await open(t, { env, clock, rules, routes })
    const { open: free, opened } = gate()
    hold = opened
    const sending = send(app)
    const lock = async () =>
      (await act(app, 'lookup', { phone })).body.rules.find(
        ({ rule }: { rule: string }) => rule === 'in-flight'
      )
    await until(async () => (await lock()).refuses, 'the lock')
    t.match(await lock(), { used: 1, remaining: 0, refuses: true })
    await act(app, 'unblock', { phone })
    t.match(await lock(), { refuses: true })
    free()
    hold = null
    t.equal((await sending).status, 200)
    t.match(await lock(), { used: 0, refuses: false })
  })
}

for (const [name, place] of Object.entries(places)) {
  t.test(`a look-up says that no rule but the lock refuses an allowed recipient (${name})`, async t => {
    const { env, clock } = await place(t)
    const { app } = await open(t, { env, clock, rules, routes })
    t.equal((await send(app)).status, 200)
    await act(app, 'allow', { phone })
    const told = async () => {
      const { rules, retryAfterMs } = (await act(app, 'lookup', { phone })).body
      const refusing = (rules as { rule: string; refuses: boolean }[]).filter(({ refuses }) => refuses)
      return { refusing: refusing.map(({ rule }) => rule), retryAfterMs }
    }
    t.same(await told(), { refusing: [], retryAfterMs: 0 })
    const lock = await app.limit.reserve({ 'in-flight': recipientOf({ phone }, REGION).identity })
    t.same(await told(), { refusing: ['in-flight'], retryAfterMs: 30_000 })
    t.match(await send(app), { status: 409, body: { retryAfterMs: 30_000 } })
    lock.end()
  })
}

t.test('rules that read more than their key of a request are not shown; unblocking clears them', async t => {
  const limits = [{ max: 1, window: '60s' }]
  const each: Rule[] = [
    {
      name: 'quota',
      key,
      limits: [{ max: { value: 'request.account.dailyQuota' }, ceiling: 9, window: '60s' }]
    },
    { name: 'day', key, limits: [{ max: 1, per: 'day', timeZone: { value: 'request.account.timeZone' } }] },
    { name: 'purposes', key, distinct: { value: 'body.purpose' }, limits }
  ]
  const { app } = await open(t, {
    rules: each,
    routes: app =>
      app.post<{ Body: { phone: string } }>(
        '/send',
        {
          config: { limit: each.map(({ name }) => name) },
          preHandler: async request => {
            request.recipient = recipientOf(request.body, REGION)
            request.account = { dailyQuota: 1, timeZone: 'UTC' } as never
          }
        },
        async () => ({})
      )
  })
  const told = (purpose: string) => ({ payload: { phone, purpose } })
  t.equal((await ask(app, 'POST', '/send', told('a'))).status, 200)
  t.equal((await ask(app, 'POST', '/send', told('b'))).status, 429)
  const { rules: found, retryAfterMs } = (await act(app, 'lookup', { phone })).body
  t.same([found, retryAfterMs], [[], 0])
  t.equal((await act(app, 'unblock', { phone })).status, 200)
  t.equal((await ask(app, 'POST', '/send', told('b'))).status, 200)
})

t.test('the list of recipients comes in pages, of 50 unless the query says how many', async t => {
  const { app } = await open(t)
  for (let i = 0; i < 5; i++) await act(app, 'block', { phone: `1380013800${i}` })
  const first = (await list(app, '?standing=blocked&limit=2')).body
  t.match(first.recipients, [{ recipient: '+86*******8004' }, { recipient: '+86*******8003' }])
  const second = (await list(app, `?standing=blocked&limit=3&after=${first.next}`)).body
  t.equal(second.recipients.length, 3)
  t.equal(second.next, null)
  for (let i = 0; i < 50; i++) await app.lists.put(`${i}`, { standing: 'allowed', masked: `${i}` })
  t.equal(
    (await list(app)).body.recipients.length,
    50,
    'a page has 50 recipients unless the query says how many'
  )
  for (const query of ['?limit=0', '?limit=101', '?after=x', '?standing=x', '?phone=1', '?limit=1&limit=2'])
    t.match(await list(app, query), { status: 422, body: { code: /^INVALID$/ } }, query)
})

t.test('each request needs the admin key; tries are limited, and wrong keys are audited', async t => {
  const { app, file } = await open(t)
  const challenge = { 'www-authenticate': 'ApiKey realm="verification-api-admin", header="x-admin-key"' }
  const requests = [
    ['POST', 'recipients/lookup', { phone }],
    ['POST', 'recipients/block', { phone }],
    ['POST', 'recipients/allow', { phone }],
    ['POST', 'recipients/unblock', { phone }],
    ['GET', 'recipients', undefined],
    ['POST', 'reload', undefined]
  ] as const
  for (const [method, path, payload] of requests) {
    const url = `/v1/admin/${path}`
    const missing = await ask(app, method, url, { payload })
    t.match(missing, { status: 401, headers: challenge, body: { code: 'ADMIN_KEY_MISSING' } }, path)
    for (const wrong of ['', 'development-key', `${ADMIN_KEY}x`, ADMIN_KEY.slice(1)]) {
      const answer = await ask(app, method, url, { payload, headers: { 'x-admin-key': wrong } })
      t.match(answer, { status: 401, headers: challenge, body: { code: 'ADMIN_KEY_WRONG' } }, path)
    }
  }
  const line = { event: 'admin-key', outcome: 'wrong', network: /^[\w-]{22}$/, requestId: String }
  const lines = linesOf(file)
  t.equal(lines.length, 4 * requests.length, 'each wrong key is in the audit trail')
  for (const each of lines) t.match(JSON.parse(each), line)
  t.notMatch(lines.join(), ADMIN_KEY.slice(1), 'no key is in the audit trail')
  const tries = await Promise.all(Array.from({ length: 60 }, () => ask(app, 'GET', '/v1/admin/recipients')))
  t.equal(tries.at(-1)?.status, 429, 'tries are counted before the key is looked at')
})

t.test('every operation of the admin API counts attempts, and is in the audit trail', async t => {
  const file = join(folderOf(t), 'audit.log')
  const app = await startApp(t, { ADMIN_KEY, AUDIT_LOG: file }, { clock: stillClock().clock })
  const operations = operationsOf(app).operations.filter(({ path }) => path.startsWith('/v1/admin/'))
  t.ok(operations.length > 0)
  for (const [i, { method, path }] of operations.entries()) {
    const call = () => app.inject({ method, url: path, headers, remoteAddress: `192.0.2.${i}` })
    const before = linesOf(file).length
    const statuses = []
    for (let calls = 0; calls < 61; calls++) statuses.push((await call()).statusCode)
    t.equal(statuses.indexOf(429), 60, `${method} ${path} has admin-attempts in its config.limit`)
    const events = linesOf(file)
      .slice(before)
      .filter(line => /"event":"admin"/.test(line))
    t.equal(events.length, 60, `${method} ${path} has an action in its config`)
  }
})

t.test('bad input is refused with its code, changes nothing, and is in the audit trail', async t => {
  const { app, events, file } = await open(t)
  const cases: [what: string, payload: object, code: string][] = [
    ['lookup', {}, 'RECIPIENT_MISSING'],
    ['block', { phone, email: 'a@b.example' }, 'RECIPIENT_MISSING'],
    ['lookup', { phone: '12' }, 'INVALID'],
    ['lookup', { phone: '999999999999' }, 'PHONE_INVALID'],
    ['allow', { email: 'nobody' }, 'EMAIL_INVALID'],
    ['lookup', { phone, reason: 'x' }, 'INVALID'],
    ['block', { phone, duration: 5 }, 'INVALID'],
    ['block', { phone, duration: '0s' }, 'INVALID'],
    ['block', { phone, duration: '367d', reason: 'abuse' }, 'DURATION_TOO_LONG'],
    ['block', { phone, reason: 'two\nlines' }, 'INVALID'],
    ['block', { phone, reason: '' }, 'INVALID'],
    ['block', { phone, reason: 'x'.repeat(201) }, 'INVALID']
  ]
  for (const [what, payload, code] of cases) {
    const answer = await act(app, what, payload)
    t.match(answer, { status: 422, headers: { 'content-type': 'application/problem+json' }, body: { code } })
  }
  t.same(
    events().map(each => 'action' in each && [each.action, each.outcome, each.recipient, each.reason]),
    cases.map(([what, , code]) =>
      code === 'DURATION_TOO_LONG'
        ? [what, 'failed', masked, 'abuse']
        : [what, 'failed', undefined, undefined]
    ),
    'each request is in the audit trail once, without the values that are wrong'
  )
  const unreadable = { payload: '{', headers: { ...headers, 'content-type': 'application/json' } }
  t.equal((await act(app, 'block', {}, unreadable)).status, 400)
  t.match(events().slice(cases.length), [{ action: 'block', outcome: 'failed' }])
  t.notMatch(linesOf(file).join(), phone)
  t.same((await list(app)).body.recipients, [])
  const before = events().length
  const hostless = await act(app, 'block', { phone }, { headers: { ...headers, host: 'a b' } })
  t.match(hostless, { status: 400, body: { code: 'HOST_INVALID' } })
  t.equal(events().length, before, 'without a host, a request is refused before its key is looked at')
})

t.test('each request is in the audit trail, with recipients masked', async t => {
  const log: string[] = []
  const { app, events, file } = await open(t, { log, rules, routes })
  await act(app, 'lookup', { phone })
  await act(app, 'block', { phone, duration: '1h', reason: 'abuse' })
  await act(app, 'allow', { email: 'someone@example.com' })
  await act(app, 'unblock', { phone })
  await list(app)
  await ask(app, 'POST', '/v1/admin/reload', { headers })
  const { actor } = events()[0] as { actor?: string }
  t.match(actor, /^[0-9a-f]{8}$/)
  t.match(
    events(),
    [
      { action: 'lookup', recipient: masked, channel: 'sms' },
      { action: 'block', recipient: masked, reason: 'abuse', until: /Z$/ },
      { action: 'allow', recipient: 's***@example.com', channel: 'mail' },
      { action: 'unblock', recipient: masked },
      { action: 'list' },
      { action: 'reload' }
    ].map(each => ({
      event: 'admin',
      outcome: 'done',
      actor,
      requestId: /./,
      network: /^[\w-]{22}$/,
      ...each
    }))
  )
  t.notMatch(linesOf(file).join() + log.join(), /13800138000|someone|admin key of/)
})

t.test('a reload tells what is in force or why it was refused, and nothing of an internal error', async t => {
  let broken: Error | null = null
  const counts = { rules: 18, purposes: 3, accounts: 2 }
  const { app, events } = await open(t, {
    reload() {
      if (broken !== null) throw broken
      return counts
    }
  })
  const reload = () => ask(app, 'POST', '/v1/admin/reload', { headers })
  t.same((await reload()).body, counts)
  broken = new ConfigError('policy.code.tries (0) must be >= 1.')
  const invalid = {
    status: 422,
    body: { code: 'RELOAD_REFUSED', reason: 'policy.code.tries (0) must be >= 1.' }
  }
  t.match(await reload(), invalid)
  broken = Object.assign(new Error('rules[0].max: wrong'), { code: 'FST_SEND_LIMIT_OPTION' })
  t.match(await reload(), { status: 422, body: { reason: 'rules[0].max: wrong' } })
  broken = new Error('not to be shown')
  const failed = await reload()
  t.equal(failed.status, 500)
  t.notMatch(failed.text, 'not to be shown')
  t.same(
    events().map(each => 'outcome' in each && each.outcome),
    ['done', 'failed', 'failed', 'failed']
  )
})

t.test('while Redis is down each request is answered 503, and audited as failed', async t => {
  const server = await startRedis(t)
  const { app, events } = await open(t, { env: { REDIS_URL: server.url }, rules, routes })
  server.client.on('error', () => {})
  await server.kill()
  const acts = ['lookup', 'block', 'allow', 'unblock']
  for (const what of acts)
    t.match(await act(app, what, { phone }), { status: 503, body: { code: 'LISTS_UNAVAILABLE' } }, what)
  t.equal((await list(app)).status, 503)
  t.match(events(), [
    ...acts.map(action => ({ event: 'admin', action, outcome: 'failed', recipient: masked })),
    { event: 'admin', action: 'list', outcome: 'failed' }
  ])
  t.equal(events().length, acts.length + 1)
  for (const event of events()) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
})

t.test('a request that ends after its time-out is in the audit trail once, as failed', async t => {
  const { app, events } = await open(t, { handlerTimeout: 500 })
  const { put } = app.lists
  let end = () => {}
  app.lists.put = async (...args) => {
    await new Promise<void>(resolve => (end = resolve))
    return put.apply(app.lists, args)
  }
  t.equal((await act(app, 'block', { phone, reason: 'abuse' })).status, 503)
  end()
  const hash = app.recipientHash(recipientOf({ phone }, REGION))
  await until(async () => (await app.lists.get(hash)) !== null, 'the entry')
  await turn()
  t.match(events(), [{ action: 'block', outcome: 'failed', recipient: masked, reason: 'abuse' }])
  t.equal(events().length, 1)
})

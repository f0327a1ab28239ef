import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { DecisionEvent, RouteLimit, Rule } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import { startRedis } from '../helper/redis.js'
import { turns } from '../helper/turns.js'
import { until } from '../helper/until.js'
import { holding } from '../helper/way.js'
import { KEY, post, sha256, startApp } from './helper.js'
import { ask, linesOf, open } from './operating.js'

const quota: Rule = {
  name: 'account',
  key: { value: 'request.account.id' },
  limits: [
    { max: 11, window: '1h' },
    { max: 10, window: '2h' },
    { max: 9, per: 'day', timeZone: 'Asia/Shanghai' },
    { max: 20, per: 'month', timeZone: 'Asia/Shanghai' }
  ]
}

const sends = (limit: RouteLimit) => (app: FastifyInstance) =>
  void app.post('/send', { preParsing: app.authenticate, config: { limit } }, async request => {
    if (request.headers['x-fail']) throw Object.assign(new Error('no'), { statusCode: 422 })
    return {}
  })

const START = Date.UTC(2026, 2, 1)

t.test('80 % of a quota are reported on later days although the clock was ahead before', async t => {
  let now = 0
  let ahead = 3 * 86_400_000
  const clock = { monotonic: () => now, wall: () => START + now + ahead }
  const { app, events } = await open(t, {
    env: { API_KEYS: 'one:first' },
    clock,
    rules: [quota],
    routes: sends('account')
  })
  const days = () => events().filter(event => event.event === 'quota' && event.max === 9).length
  const send = () => ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' } })
  for (let i = 0; i < 9; i++) await send()
  t.equal(days(), 1)
  ahead = 0
  now += 86_400_000
  for (let i = 0; i < 9; i++) await send()
  t.equal(days(), 2)
})

t.test('80 % of a quota are reported again on the day after the machine was suspended', async t => {
  let wall = START
  const { app, events } = await open(t, {
    env: { API_KEYS: 'one:first' },
    clock: { monotonic: () => 0, wall: () => wall },
    rules: [{ ...quota, limits: [{ max: 5, per: 'day' }] }],
    routes: sends('account')
  })
  const days = () => events().filter(({ event }) => event === 'quota').length
  for (const day of [1, 2]) {
    for (let i = 0; i < 5; i++) await ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' } })
    t.equal(days(), day)
    wall += 86_400_000
  }
})

t.test('a rule that is replaced does not report a period twice, wherever its limit stands', async t => {
  const month = { max: 5, per: 'month' } as const
  const day = { max: 10, per: 'day' } as const
  const rules: Rule[] = [{ ...quota, limits: [month, day] }]
  const { app, events } = await open(t, { env: { API_KEYS: 'one:first' }, rules, routes: sends('account') })
  const told = () => events().flatMap(event => (event.event === 'quota' ? [event.max] : []))
  const replace = (...limits: Rule['limits'] & object) =>
    app.limit.replace(
      Object.values(app.limit.rules).map(rule => (rule.name === 'account' ? { ...quota, limits } : rule))
    )
  const send = async (times: number) => {
    for (let i = 0; i < times; i++) await ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' } })
  }
  await send(4)
  t.same(told(), [5])
  replace(day, month)
  await send(1)
  t.same(told(), [5], 'the month was reported before')
  replace(day)
  await send(3)
  t.same(told(), [5, 10], 'the day was not reported before')
  replace({ ...day, max: 12 })
  await send(2)
  t.same(told(), [5, 10, 12], 'a quota that was changed is reported anew')
})

t.test('a request from before a reload reports by the rules with which it began', async t => {
  const month = { max: 5, per: 'month' } as const
  const day = { max: 10, per: 'day' } as const
  const rules: Rule[] = [{ ...quota, limits: [month, day] }]
  let before = () => {}
  const preHandler = async () => before()
  const routes = (app: FastifyInstance) =>
    void app.post(
      '/send',
      { preParsing: app.authenticate, preHandler, config: { limit: 'account' } },
      async () => ({})
    )
  const { app, events } = await open(t, { env: { API_KEYS: 'one:first' }, rules, routes })
  before = () =>
    app.limit.replace(
      Object.values(app.limit.rules).map(rule =>
        rule.name === 'account' ? { ...quota, limits: [day, month] } : rule
      )
    )
  const send = (times: number) =>
    Promise.all(
      Array.from({ length: times }, () => ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' } }))
    )
  await send(4)
  before = () => {}
  await send(1)
  t.match(events(), [{ event: 'quota', used: 4, max: 5 }])
  t.equal(events().length, 1, 'the month is reported once')
})

t.test('80 % of a quota are reported once a period, for each account', async t => {
  let now = 0
  const clock = { monotonic: () => now, wall: () => START + now }
  const log: string[] = []
  const env = { API_KEYS: 'one:first,two:second' }
  const { app, events } = await open(t, { env, clock, log, rules: [quota], routes: sends('account') })
  const send = (key: string, more = {}) =>
    ask(app, 'POST', '/send', { headers: { 'x-api-key': key, ...more } })
  const marks = () => events().filter(({ event }) => event === 'quota')
  for (let i = 0; i < 7; i++) await send('one')
  await send('two')
  t.same(marks(), [])
  // The eighth of 9 is the first of 80 % or more. Its slot is given back, used again, and not reported again.
  t.equal((await send('one', { 'x-fail': 'yes' })).status, 422)
  await send('one')
  await send('one')
  t.equal((await send('one')).status, 429)
  t.match(marks(), [
    { event: 'quota', account: 'first', rules: ['account'], used: 8, max: 9, outcome: 'soft-mark' }
  ])
  t.equal(marks().length, 1)
  t.equal(log.filter(line => line.includes('80 % of the quota are used')).length, 1)
  t.match(await app.metrics.registry.metrics(), 'quota_soft_marks_total{rule="account",account="first"} 1\n')
  for (let i = 0; i < 7; i++) await send('two')
  t.match(marks().slice(1), [{ account: 'second', used: 8, max: 9 }])
  // Midnight in Shanghai, where it was eight o'clock.
  now += 16 * 3_600_000
  for (let i = 0; i < 9; i++) await send('one')
  t.match(marks().slice(2), [
    { account: 'first', used: 16, max: 20 },
    { account: 'first', used: 8, max: 9 }
  ])
  t.equal(marks().length, 4, 'the next day is reported again')
})

t.test('80 % of the limit on all accounts are reported once a period, and name no account', async t => {
  let now = 0
  const clock = { monotonic: () => now, wall: () => START + now }
  const log: string[] = []
  const env = { API_KEYS: 'one:first,two:service' }
  const service: Rule = { name: 'service', key: 'all', limits: [{ max: 5, per: 'day', timeZone: 'UTC' }] }
  const routes = sends(['account', 'service'])
  const { app, events } = await open(t, { env, clock, log, rules: [quota, service], routes })
  const send = (key: string) => ask(app, 'POST', '/send', { headers: { 'x-api-key': key } })
  const marks = () => events().filter(({ event }) => event === 'quota')
  for (const key of ['one', 'two', 'one']) await send(key)
  t.same(marks(), [])
  for (const status of [200, 200, 429]) t.equal((await send('two')).status, status)
  const [mark, ...more] = marks()
  t.match(mark, { event: 'quota', rules: ['service'], used: 4, max: 5, outcome: 'soft-mark' })
  for (const name of ['account', 'network', 'requestId']) t.notOk(name in (mark ?? {}), name)
  t.same(more, [])
  t.equal(log.filter(line => line.includes('80 % of the quota are used')).length, 1)
  t.match(await app.metrics.registry.metrics(), 'quota_soft_marks_total{rule="service"} 1\n')
  now += 86_400_000
  for (let i = 0; i < 4; i++) await send('one')
  t.equal(marks().length, 2, 'the next day is reported again')
})

t.test('a rule that counts by more than the account, or than all, reports nothing', async t => {
  const key = [{ value: 'request.account.id' }, { value: 'request.caller' }]
  const rules: Rule[] = [
    { ...quota, key },
    { name: 'service', key: 'ip', limits: [{ max: 5, per: 'day', timeZone: 'UTC' }] }
  ]
  const env = { API_KEYS: 'one:first' }
  const { app, events } = await open(t, { env, rules, routes: sends(['account', 'service']) })
  for (const status of [200, 200, 200, 200, 200, 429]) {
    t.equal((await ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' } })).status, status)
  }
  for (let i = 0; i < 3; i++)
    await ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' }, remoteAddress: '192.0.2.9' })
  t.same(
    events().filter(({ event }) => event === 'quota'),
    []
  )
})

t.test('a quota is reported when 80 % are reached, no sooner', async t => {
  const day: Rule = { ...quota, limits: [{ max: 1_000, per: 'day', timeZone: 'UTC' }] }
  const { app, events } = await open(t, { rules: [day] })
  const request = { account: { id: 'first' } } as unknown as FastifyRequest
  const state = { max: 1_000, resetMs: 60_000, windowMs: 86_400_000 }
  const tell = (allowed: boolean, remaining: number, name = 'account') => {
    const rules = [{ name, limits: [{ ...state, remaining }] }]
    app.softMark({ allowed, rules } as unknown as DecisionEvent, request)
  }
  tell(false, 0)
  t.doesNotThrow(() => tell(true, 0, 'another'))
  for (const remaining of [201, 200, 199]) tell(true, remaining)
  await until(() => events().length > 0, 'the report')
  t.match(events(), [{ event: 'quota', used: 800, max: 1_000 }])
  t.equal(events().length, 1)
})

const recipient: Rule = {
  name: 'recipient',
  key: { value: 'headers.x-to' },
  optional: true,
  limits: [{ max: 1, window: '1h' }]
}

t.test('of several instances on one Redis, one reports', async t => {
  const { url } = await startRedis(t)
  const env = { API_KEYS: 'one:first', REDIS_URL: url }
  const routes = sends(['account', 'recipient'])
  const apps = [
    await open(t, { env, rules: [quota, recipient], routes }),
    await open(t, { env, rules: [quota, recipient], routes })
  ] as const
  const send = async (i: number, more = {}) => {
    const { app } = i % 2 === 0 ? apps[0] : apps[1]
    return (await ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one', ...more } })).status
  }
  t.equal(await send(0, { 'x-to': 'a' }), 200)
  for (let i = 1; i < 8; i++) t.equal(await send(i), 200)
  // Refused by the other rule, this request finds the count that the other instance has reported.
  t.equal(await send(8, { 'x-to': 'a' }), 429)
  t.equal(await send(8), 200)
  // A second report, if there were one, would follow the answer of Redis.
  await apps[0].app.redis.ping()
  await turn()
  const told = apps.flatMap(({ events }) => events()).filter(({ event }) => event === 'quota')
  t.match(told, [{ used: 8, max: 9 }])
  t.equal(told.length, 1)
  const left = await apps[0].app.redis.pttl('quota:{account:first:day:9}:soft-mark')
  t.ok(left > 0 && left <= 86_400_000, 'the mark is kept until the day ends')
})

t.test('while Redis does not answer, 80 % are reported twice rather than never', async t => {
  const { url, kill } = await startRedis(t)
  const env = { API_KEYS: 'one:first', REDIS_URL: url }
  const { app, events } = await open(t, { env, rules: [quota], routes: sends('account') })
  await kill()
  for (let i = 0; i < 8; i++) await ask(app, 'POST', '/send', { headers: { 'x-api-key': 'one' } })
  await until(() => events().some(({ event }) => event === 'quota'), 'the report')
})

t.test('of several instances one reports, also if the answer of that very send was lost', async t => {
  const { url, pid } = await startRedis(t)
  const day: Rule = { ...quota, limits: [{ max: 5, per: 'day' }] }
  const start = () =>
    open(t, { env: { API_KEYS: 'one:first', REDIS_URL: url }, rules: [day], routes: sends('account') })
  const apps = [await start(), await start()] as const
  const send = async (i: 0 | 1, more = {}) =>
    (await ask(apps[i].app, 'POST', '/send', { headers: { 'x-api-key': 'one', ...more } })).status
  const marks = () => apps.flatMap(({ events }) => events()).filter(({ event }) => event === 'quota')
  const left = async () => (await apps[1].app.limit.peek({ account: 'first' })).rules[0]?.limits[0]?.remaining
  for (let i = 0; i < 3; i++) await send(1)
  process.kill(pid, 'SIGSTOP')
  t.equal(await send(0), 200, 'the stand-in memory decides')
  process.kill(pid, 'SIGCONT')
  await until(async () => (await left()) === 1, 'the count of Redis')
  t.equal(await send(1, { 'x-fail': 'yes' }), 422)
  await until(() => marks().length > 0, 'the report')
  t.equal(await send(1), 200)
  await until(async () => (await send(0)) === 429, 'Redis to decide there again')
  t.match(marks(), [{ account: 'first', used: 5, max: 5 }])
  t.equal(marks().length, 1)
})

t.test('80 % are in the audit trail, though the app closes before Redis has said who reports', async t => {
  const { port } = await startRedis(t)
  const { url, asked, release } = await holding(t, port, 'soft-mark')
  const [accounts, trail] = ['accounts.json', 'audit.log'].map(name => join(folderOf(t), name)) as [
    string,
    string
  ]
  writeFileSync(accounts, JSON.stringify([{ id: 'shop', keys: [sha256(KEY)], dailyQuota: 1 }]))
  const env = {
    REDIS_URL: url,
    LIMIT_SECRET: 'a secret of these tests',
    ACCOUNTS_FILE: accounts,
    AUDIT_LOG: trail
  }
  const app = await startApp(t, env, {})
  const sent = post(app, '/v1/sms', { phone: '13800138000', template: 'password-changed' })
  await asked
  const closing = app.close()
  // What waits for nothing but the app itself has ended by then.
  await turns(200)
  release()
  await closing
  t.equal((await sent).status, 202)
  const events = linesOf(trail).map(line => JSON.parse(line).event)
  t.same(events.sort(), ['quota', 'send'])
})

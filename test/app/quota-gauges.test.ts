import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { openAccounts } from '../../app/accounts/accounts.js'
import { readConfig } from '../../app/config.js'
import { sha256 } from '../../app/sha256.js'
import type { Rule } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import type { Teardown } from '../helper/teardown.js'
import { ask } from './captcha.js'
import { places } from './helper.js'
import * as operating from './operating.js'
import { stillClock } from './still-clock.js'

/** What the gauges show, as in `shop/day 1/3`, sorted by name. */
async function gauges(app: FastifyInstance): Promise<string[]> {
  const text = await app.metrics.registry.metrics()
  const values = (name: string) =>
    new Map(
      [...text.matchAll(new RegExp(`^${name}{(.*)} (.*)$`, 'gm'))].map(([, labels, value]) => [labels, value])
    )
  const [used, max] = [values('quota_used_messages'), values('quota_max_messages')]
  const told = [...used].map(([labels = '', value]) => {
    const {
      rule,
      account = rule,
      per
    } = Object.fromEntries([...labels.matchAll(/(\w+)="(.*?)"/g)].map(([, name, label]) => [name, label]))
    return `${account}/${per} ${value}/${max.get(labels)}`
  })
  return told.toSorted()
}

for (const [name, open] of Object.entries(places)) {
  t.test(`the gauges show what is used of a quota, until its day ends (${name})`, async t => {
    const ACCOUNTS_FILE = join(folderOf(t), 'accounts.json')
    const keys = [sha256('key of shop')]
    const shop = { id: 'shop', keys, dailyQuota: 2, timeZone: 'America/New_York' }
    writeFileSync(ACCOUNTS_FILE, JSON.stringify([shop]))
    const place = await open(t)
    const app = await place.start({ ACCOUNTS_FILE })
    const send = async (i: number, at = app) =>
      (await ask(at, { phone: `1380013800${i}` }, { headers: { 'x-api-key': 'key of shop' } })).status
    t.same(await gauges(app), [], 'nothing is known before a decision')
    t.equal(await send(1), 202)
    t.same(await gauges(app), ['service/day 1/100000', 'shop/day 1/2'])
    t.equal(await send(1), 429)
    t.equal(await send(2), 202)
    t.equal(await send(3), 429)
    t.same(await gauges(app), ['service/day 2/100000', 'shop/day 2/2'])
    const other = await place.start({ ACCOUNTS_FILE })
    t.same(await gauges(other), [], 'an instance does not know what another one has decided')
    if (name === 'redis') {
      t.equal(await send(4, other), 429)
      t.same(await gauges(other), ['service/day 2/100000', 'shop/day 2/2'], 'a refusal tells it as well')
    }
    // Midnight in New York, not in Shanghai.
    place.advance(5 * 3_600_000 - 1)
    t.same(await gauges(app), ['service/day 2/100000', 'shop/day 2/2'])
    place.advance(1)
    t.same(await gauges(app), ['service/day 2/100000'])
    t.equal(await send(5), 202)
    t.same(await gauges(app), ['service/day 3/100000', 'shop/day 1/2'], 'the next day begins anew')
  })
}

const limits = [
  { max: 5, window: '1h' },
  { max: 20, per: 'month' },
  { max: 9, per: 'day' }
] as const
const quota: Rule = { name: 'account', key: { value: 'request.account.id' }, limits }
const service: Rule = { name: 'service', key: 'all', limits: [{ max: 99, per: 'day' }] }

/** An app with these rules, the accounts `first` and `second`, and a route that the rules count. */
async function start(t: Teardown, rules: Rule[], before = async () => {}) {
  const env = { API_KEYS: 'one:first,two:second' }
  const routes = (app: FastifyInstance) =>
    void app.post(
      '/send',
      {
        preParsing: app.authenticate,
        preHandler: before,
        config: { limit: rules.map(({ name }) => String(name)) }
      },
      async () => ({})
    )
  const { app } = await operating.open(t, { env, rules, routes, clock: stillClock().clock })
  const send = (key: string) => operating.ask(app, 'POST', '/send', { headers: { 'x-api-key': key } })
  return { app, send }
}

t.test('each period of each account has a gauge, a rolling limit has none', async t => {
  const { app, send } = await start(t, [quota, service])
  for (const key of ['one', 'two', 'two']) t.equal((await send(key)).status, 200)
  t.same(await gauges(app), [
    'first/day 1/9',
    'first/month 1/20',
    'second/day 2/9',
    'second/month 2/20',
    'service/day 3/99'
  ])
})

t.test('a rule that counts by more than the account, or than all, has no gauge', async t => {
  const key = [{ value: 'request.account.id' }, { value: 'request.caller' }]
  const { app, send } = await start(t, [
    { ...quota, key },
    { ...service, key: 'ip' }
  ])
  t.equal((await send('one')).status, 200)
  t.same(await gauges(app), [])
})

t.test('a request from before a reload has no gauge by the rules of after it', async t => {
  let letGo = () => {}
  let held = new Promise<void>(resolve => (letGo = resolve))
  let begun = () => {}
  const authenticated = new Promise<void>(resolve => (begun = resolve))
  const { app, send } = await start(t, [quota], () => {
    begun()
    return held
  })
  const sending = send('one')
  await authenticated
  const [, month, day] = limits
  app.limit.replace(
    Object.values(app.limit.rules).map(rule =>
      rule.name === 'account' ? { ...quota, limits: [day, month] } : rule
    )
  )
  letGo()
  t.equal((await sending).status, 200)
  t.same(await gauges(app), [])
  held = Promise.resolve()
  t.equal((await send('one')).status, 200)
  t.same(await gauges(app), ['first/day 2/9', 'first/month 2/20'])
})

t.test('an account that was removed has no gauge, not even by a request from before', async t => {
  let held = Promise.resolve()
  let begun = () => {}
  const { app, send } = await start(t, [quota], async () => {
    begun()
    await held
  })
  for (const key of ['one', 'two']) await send(key)
  t.equal((await gauges(app)).length, 4)
  const authenticated = new Promise<void>(resolve => (begun = resolve))
  let letGo = () => {}
  held = new Promise(resolve => (letGo = resolve))
  const sending = send('two')
  await authenticated
  app.replaceAccounts(openAccounts(readConfig({ NODE_ENV: 'test', API_KEYS: 'one:first' })))
  t.same(await gauges(app), [], 'all gauges begin anew')
  letGo()
  t.equal((await sending).status, 200)
  t.same(await gauges(app), [])
  t.equal((await send('one')).status, 200)
  t.same(await gauges(app), ['first/day 2/9', 'first/month 2/20'])
})

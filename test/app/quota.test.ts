import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import { startRedis } from '../helper/redis.js'
import { ask } from './captcha.js'
import { type App, inject, KEY, places, post, sha256, startApp, withRules } from './helper.js'
import { provider } from './provider.js'
import { START_MS } from './still-clock.js'

const quotaOf = (app: App, key = KEY) => inject(app, { url: '/v1/quota', headers: { 'x-api-key': key } })
const sms = { phone: '13900139000', template: 'order-shipped', params: { order: 'A-17' } }

for (const [name, open] of Object.entries(places)) {
  t.test(`GET /v1/quota tells what is left of a quota, and until when (${name})`, async t => {
    const ACCOUNTS_FILE = join(folderOf(t), 'accounts.json')
    const shop = {
      id: 'shop',
      keys: [sha256('key of shop')],
      revoked: [sha256('old key')],
      dailyQuota: 3,
      timeZone: 'America/New_York',
      origins: ['https://shop.example']
    }
    writeFileSync(ACCOUNTS_FILE, JSON.stringify([shop, { id: 'other', keys: [sha256('key of other')] }]))
    const place = await open(t)
    const app = await place.start({ ACCOUNTS_FILE })
    const windowMs = 86_400_000
    const fresh = { max: 3, used: 0, remaining: 3, windowMs, resetMs: 5 * 3_600_000, timeZone: shop.timeZone }
    t.same((await quotaOf(app, 'key of shop')).body, { account: 'shop', limits: [fresh] })
    const headers = { 'x-api-key': 'key of shop' }
    t.equal((await ask(app, {}, { headers })).status, 202)
    t.equal((await post(app, '/v1/sms', sms, { headers })).status, 202)
    // In New York it was seven in the evening.
    t.equal(new Date(START_MS).toISOString(), '2026-03-01T00:00:00.000Z')
    const used = { ...fresh, used: 2, remaining: 1 }
    for (let i = 0; i < 2; i++)
      t.same((await quotaOf(app, 'key of shop')).body.limits, [used], 'asking counts nothing')
    t.match((await quotaOf(app, 'key of other')).body, {
      account: 'other',
      limits: [{ max: 1_000, used: 0, resetMs: 16 * 3_600_000, timeZone: 'Asia/Shanghai' }]
    })
    t.equal((await post(app, '/v1/sms', { ...sms, phone: '13700137000' }, { headers })).status, 202)
    t.match(await quotaOf(app, 'key of shop'), { body: { limits: [{ used: 3, remaining: 0 }] } })
    place.advance(5 * 3_600_000)
    t.same((await quotaOf(app, 'key of shop')).body.limits, [{ ...fresh, resetMs: windowMs }])
    // In New York the clock is set forward on the eighth.
    place.advance(7 * windowMs)
    const short = { ...fresh, resetMs: 23 * 3_600_000 }
    t.same((await quotaOf(app, 'key of shop')).body.limits, [short])
    place.advance(short.resetMs)
    t.same((await quotaOf(app, 'key of shop')).body.limits, [{ ...fresh, resetMs: windowMs }])

    for (const [key, code] of [
      ['', 'API_KEY_MISSING'],
      ['nobody', 'API_KEY_UNKNOWN'],
      ['old key', 'API_KEY_REVOKED']
    ] as const)
      t.match(await quotaOf(app, key), { status: 401, body: { code } })
    const page = { origin: 'https://shop.example', 'x-api-key': '' }
    const asked = await inject(app, { url: '/v1/quota', headers: page })
    t.match(asked, { status: 401, body: { code: 'API_KEY_MISSING' } }, 'visitors of a page are told nothing')
    t.notOk(asked.headers['access-control-allow-origin'])
  })
}

t.test('GET /v1/quota tells the limits that the policy has on accounts', async t => {
  const limitsOf = async (members: Partial<Rule>) => {
    const app = await (await places.memory(t)).start({}, { policy: withRules({ account: members }) })
    t.equal((await ask(app)).status, 202)
    return (await quotaOf(app)).body.limits
  }
  const hour = { max: 9, window: '1h' } as const
  const day = { max: 50, per: 'day' } as const
  const month = { max: 99, per: 'month', timeZone: 'Asia/Tokyo' } as const
  const used = { used: 1, windowMs: 3_600_000 }
  t.same(await limitsOf({ limits: [day, month, hour] }), [
    { ...used, max: 9, remaining: 8, resetMs: 3_600_000 },
    { ...used, max: 50, remaining: 49, windowMs: 86_400_000, resetMs: 86_400_000, timeZone: 'UTC' },
    {
      ...used,
      max: 99,
      remaining: 98,
      windowMs: 30 * 86_400_000,
      resetMs: 31 * 86_400_000 - 9 * 3_600_000,
      timeZone: 'Asia/Tokyo'
    }
  ])
  t.same(await limitsOf({ private: true }), [], 'limits of a private rule are not told')
  const key = [{ value: 'request.account.id' }, { value: 'request.caller' }]
  t.same(await limitsOf({ key }), [], 'limits by more than the account are not told')
  t.same(await limitsOf({ allow: ['development'] }), [], 'an account that the rule allows is told no limits')
})

t.test('without Redis GET /v1/quota is 503, although messages may be sent', async t => {
  const server = await startRedis(t)
  const env = { REDIS_URL: server.url, LIMIT_SECRET: 'a secret of these tests', STORE_TIMEOUT: '500' }
  const app = await startApp(t, env, { senders: { sms: provider() } })
  await server.kill()
  t.equal((await post(app, '/v1/sms', sms)).status, 202)
  t.match(await quotaOf(app), { status: 503, body: { code: 'QUOTA_UNAVAILABLE' } })
})

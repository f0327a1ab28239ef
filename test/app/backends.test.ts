import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OWN } from '../../app/policy-schema.js'
import { compileIpList } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { ask } from './captcha.js'
import { inject, post, startApp, withRules } from './helper.js'

const ADMIN_KEY = 'an admin key of 24 characters'

t.test('attempts of BACKENDS are not limited, those of others and on the admin API are', async t => {
  const app = await startApp(t, { BACKENDS: '198.51.100.7, 2001:db8:1::/48', ADMIN_KEY }, {})
  const statuses = async (url: string, remoteAddress: string) => {
    const seen = new Set<number>()
    for (let i = 0; i < 62; i++)
      seen.add((await inject(app, { method: 'POST', url, payload: {}, remoteAddress })).status)
    return [...seen]
  }
  for (const address of ['198.51.100.7', '::ffff:198.51.100.7', '2001:db8:1:2::3']) {
    t.same(await statuses('/v1/captcha', address), [422], address)
    t.same(await statuses('/v1/captcha/verify', address), [422], address)
  }
  t.same(await statuses('/v1/captcha', '198.51.100.8'), [422, 429])
  t.same(await statuses('/v1/captcha/verify', '2001:db8:2::1'), [422, 429])
  t.same(await statuses('/v1/admin/recipients/lookup', '198.51.100.7'), [401, 429])
  t.match((await app.inject('/metrics')).body, 'stage="attempts",store="none",decision="allowed"} 186')
})

t.test(
  'without Redis and with ON_STORE_ERROR=deny, a backend is told by a code what does not answer',
  async t => {
    const { client, kill, url } = await startRedis(t)
    const shared = { REDIS_URL: url, LIMIT_SECRET: 'a secret of these tests', STORE_TIMEOUT: '500' }
    const app = await startApp(t, { ...shared, ON_STORE_ERROR: 'deny', BACKENDS: '198.51.100.7' }, {})
    client.on('error', () => {})
    await kill()
    const sms = { phone: '13800138000', template: 'password-changed' }
    const codes = async (remoteAddress: string) => {
      const quota = await inject(app, { url: '/v1/quota', remoteAddress })
      const sent = await post(app, '/v1/sms', sms, { remoteAddress })
      return [quota, sent].map(({ status, body }) => `${status} ${body.code}`)
    }
    t.same(await codes('198.51.100.7'), ['503 QUOTA_UNAVAILABLE', '503 LISTS_UNAVAILABLE'])
    t.same(await codes('198.51.100.8'), Array(2).fill('503 FST_SEND_LIMIT_STORE_UNAVAILABLE'))
  }
)

t.test('attempts of a backend are not limited, however the rule writes its key', async t => {
  const own = JSON.parse(readFileSync(OWN, 'utf8'))
  for (const key of [['ip'], { ip: 'request.ip', ipv6Prefix: 48 }]) {
    const file = join(folderOf(t), 'policy.json')
    const rules = own.rules.map((rule: { name: string }) =>
      rule.name === 'ip-attempts' ? { ...rule, key } : rule
    )
    writeFileSync(file, JSON.stringify({ ...own, rules }))
    const app = await startApp(t, { BACKENDS: '198.51.100.7', POLICY_FILE: file }, {})
    const ask = () =>
      inject(app, { method: 'POST', url: '/v1/captcha', payload: {}, remoteAddress: '198.51.100.7' })
    for (let i = 0; i < 61; i++) await ask()
    t.equal((await ask()).status, 422)
  }
})

t.test('BACKENDS changes no rule of attempts that has an allow of its own, or counts by more', async t => {
  for (const more of [
    { allow: ['203.0.113.1'] },
    { key: ['ip', { value: 'headers.x-tenant' }], optional: true }
  ]) {
    const policy = withRules({ 'ip-attempts': more })
    const app = await startApp(t, { BACKENDS: '198.51.100.7' }, { policy })
    const status = async (remoteAddress: string) => {
      const headers = { 'x-tenant': 'one' }
      const options = { method: 'POST' as const, url: '/v1/captcha', payload: {}, headers, remoteAddress }
      for (let i = 0; i < 60; i++) await inject(app, options)
      return (await inject(app, options)).status
    }
    t.equal(await status('198.51.100.7'), 429)
    t.equal(await status('203.0.113.1'), 'allow' in more ? 422 : 429)
  }
})

t.test('the log says once that a backend names no end user', async t => {
  const { lines, stream } = logStream()
  const app = await startApp(
    t,
    { BACKENDS: '198.51.100.7,2001:db8:1::/48', LOG_LEVEL: 'warn' },
    { logStream: stream }
  )
  const warnings = () => lines.filter(line => JSON.stringify(line).includes('x-end-user-ip')).length
  const endUser = { 'x-end-user-ip': '203.0.113.1' }
  await ask(app, {}, { remoteAddress: '198.51.100.7', headers: endUser })
  await ask(app, {}, { remoteAddress: '198.51.100.7', headers: { 'x-api-key': '' } })
  await ask(app, {}, { remoteAddress: '198.51.100.8' })
  await inject(app, { url: '/v1/captcha/x', remoteAddress: '198.51.100.7' })
  t.equal(warnings(), 0)
  await ask(app, {}, { remoteAddress: '2001:db8:1:2::3' })
  t.equal(warnings(), 1)
  await ask(app, {}, { remoteAddress: '::ffff:198.51.100.7' })
  t.equal(warnings(), 1)
})

t.test('a backend is recognized by its address in any spelling', async t => {
  const isBackend = compileIpList(['198.51.100.7', '203.0.113.0/24', '2001:db8::1', '::ffff:192.0.2.0/120'])
  for (const address of [
    '198.51.100.7',
    '::ffff:198.51.100.7',
    '203.0.113.9',
    '2001:DB8:0::1',
    '::ffff:192.0.2.9'
  ])
    t.ok(isBackend(address), address)
  for (const address of ['198.51.100.8', '2001:db8::2', '', 'x']) t.notOk(isBackend(address), address)
  t.notOk(isBackend(undefined as never), 'a client on a Unix socket has no address')
})

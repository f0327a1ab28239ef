import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OWN } from '../../app/policy.js'
import { folderOf } from '../helper/folder.js'
import { inject, startApp } from './helper.js'

const ADMIN_KEY = 'an admin key of 24 characters'

t.test('attempts of your own servers are not limited, those of others and of operators are', async t => {
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
})

t.test('however the policy writes the key of such a rule', async t => {
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

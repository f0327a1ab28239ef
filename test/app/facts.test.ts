import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { FACTS } from '../../app/facts.js'
import { ask, resend, verify } from './captcha.js'
import { lastCode, post } from './helper.js'

t.test('what a rule may read is there in some request', async t => {
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' }))
  t.teardown(() => app.close())
  const seen = new Set<string>()
  app.addHook('onResponse', async request => {
    for (const fact of FACTS) {
      const members = fact.split('.').slice(1)
      const value = members.reduce<unknown>(
        (of, name) => (of as Record<string, unknown> | null)?.[name],
        request
      )
      if (value !== undefined && value !== null) seen.add(fact)
    }
  })
  const { id } = (await ask(app)).body
  t.equal((await resend(app, id)).status, 429)
  t.equal((await verify(app, id, lastCode(app, '+8613800138000'))).status, 200)
  await post(app, '/v1/sms', { phone: '13900139000', template: 'password-changed' })
  t.same(
    FACTS.filter(fact => !seen.has(fact)),
    []
  )
})

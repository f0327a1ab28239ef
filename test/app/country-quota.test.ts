import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Rule } from '../../plugin/index.js'
import { heardOn } from '../helper/channel.js'
import { logStream } from '../helper/log-stream.js'
import { until } from '../helper/until.js'
import { ask, askMail, resend } from './captcha.js'
import { type App, KEY, places, post, withRules } from './helper.js'

const REFUSED = { status: 429, body: { 'violated-policies': ['country'] } }
const GB = (i: number) => `+44740012345${i}`

/** Asks for a code, each time from another address. */
let asked = 0
const code = (app: App, phone: string) => ask(app, { phone }, { remoteAddress: `198.51.100.${asked++}` })

const sms = (app: App, phone: string) => post(app, '/v1/sms', { phone, template: 'password-changed' })

for (const [name, open] of Object.entries(places)) {
  t.test(`the numbers of a country get as many messages a day as its quota says (${name})`, async t => {
    const place = await open(t)
    const countryQuotas = { GB: 3, default: 1 }
    const app = await place.start({}, { policy: { ...loadPolicy(), countryQuotas } })
    const { id } = (await code(app, GB(1))).body
    t.equal((await sms(app, GB(2))).status, 202, 'a message by template counts, too')
    place.advance(60_000)
    t.equal((await resend(app, id)).status, 202, 'and a resend')
    t.match(await code(app, GB(3)), REFUSED)
    t.match(await sms(app, GB(3)), REFUSED)
    t.equal((await code(app, '+4915112345671')).status, 202, 'each other country has its own count')
    t.match(await code(app, '+4915112345672'), REFUSED)
    t.equal((await code(app, '+33612345671')).status, 202)
    t.equal((await askMail(app)).status, 202, 'mail belongs to no country')
    const { headers, body } = await code(app, GB(3))
    t.notOk(
      `${headers['ratelimit-policy']}`.includes('country'),
      'the headers of others do not tell the quota'
    )
    place.advance(body.retryAfterMs - 1)
    t.match(await code(app, GB(4)), REFUSED)
    place.advance(1)
    t.equal((await code(app, GB(4))).status, 202, 'until midnight')
  })

  t.test(`a country without a quota is not counted (${name})`, async t => {
    const place = await open(t)
    const app = await place.start({}, { policy: { ...loadPolicy(), countryQuotas: { GB: 1 } } })
    for (let i = 1; i < 4; i++) t.equal((await code(app, `+491511234567${i}`)).status, 202)
    app.replacePolicy({ ...loadPolicy(), countryQuotas: { DE: 3 } })
    for (let i = 4; i < 7; i++) t.equal((await code(app, `+491511234567${i}`)).status, 202)
    t.match(await code(app, '+4915112345677'), REFUSED)
    t.equal((await code(app, GB(1))).status, 202)
    app.replacePolicy({ ...loadPolicy(), countryQuotas: { DE: 4 } })
    t.equal((await code(app, '+4915112345677')).status, 202, 'what was counted stays, under a higher quota')
    t.match(await code(app, '+4915112345678'), REFUSED)
  })

  t.test(`the quota of a country has gauges, and 80 % of it are reported once a day (${name})`, async t => {
    const place = await open(t)
    const { lines, stream } = logStream()
    const told = heardOn(t, 'verification-api:audit')
    const policy = { ...loadPolicy(), countryQuotas: { GB: 5, default: 9 } }
    const app = await place.start({ LOG_LEVEL: 'warn' }, { policy, logStream: stream })
    const marks = () => told.filter(each => (each as { event: string }).event === 'quota')
    for (let i = 1; i < 4; i++) await code(app, GB(i))
    await code(app, '+4915112345671')
    t.same(marks(), [])
    await code(app, GB(4))
    await until(() => marks().length === 1, 'the report')
    await code(app, GB(5))
    t.match(marks(), [
      { event: 'quota', outcome: 'soft-mark', rules: ['country'], country: 'GB', used: 4, max: 5 }
    ])
    t.notOk(Object.keys(marks()[0] as object).some(name => /account|recipient|requestId/.test(name)))
    t.match(
      lines.map(line => JSON.parse(line)),
      [{ quota: { rule: 'country', country: 'GB', used: 4, max: 5 }, msg: '80 % of the quota are used' }]
    )
    const text = await app.metrics.registry.metrics()
    t.match(text, 'quota_used_messages{rule="country",country="GB",per="day"} 5\n')
    t.match(text, 'quota_max_messages{rule="country",country="DE",per="day"} 9\n')
    t.match(text, 'quota_soft_marks_total{rule="country",country="GB"} 1\n')
  })

  t.test(
    `the quota of a country is reported beside that of an account of the same name (${name})`,
    async t => {
      const place = await open(t)
      const limits: Rule['limits'] = [{ max: 5, per: 'day', timeZone: 'Asia/Shanghai' }]
      const policy = { ...withRules({ account: { limits } }), countryQuotas: { GB: 5 } }
      const app = await place.start({ API_KEYS: `${KEY}:GB` }, { policy })
      for (let i = 1; i < 5; i++) await code(app, GB(i))
      for (const whose of ['rule="account",account="GB"', 'rule="country",country="GB"'])
        await until(
          async () => (await app.metrics.registry.metrics()).includes(`quota_soft_marks_total{${whose}} 1`),
          whose
        )
    }
  )
}

t.test('a rule that counts by more than the country has no gauge, and reports nothing', async t => {
  const place = await places.memory(t)
  const key = [{ value: 'request.limitedCountry' }, { value: 'request.caller' }]
  const policy = { ...withRules({ country: { key } }), countryQuotas: { GB: 1 } }
  const app = await place.start({}, { policy })
  t.equal((await code(app, GB(1))).status, 202)
  t.match(await code(app, GB(2)), REFUSED)
  t.notMatch(await app.metrics.registry.metrics(), /^quota.*rule="country"/m)
})

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Check } from 'typebox/value'
import { type AuditEvent, AuditEventSchema } from '../../app/audit/event.js'
import { loadPolicy } from '../../app/policy.js'
import { SendError } from '../../app/senders/sender.js'
import { heardOn } from '../helper/channel.js'
import { gate } from '../helper/gate.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { ask, askMail, cancel, E164, resend, status, verify, wrong } from './captcha.js'
import { ADMIN_KEY, KEY, lastCode, places, post, startApp } from './helper.js'
import { provider } from './provider.js'
import { credentials, type Doing, startProvider } from './senders/servers.js'

/** An app that has sent a code, by a provider that the test controls. */
async function sentAt(open: (typeof places)['redis'], t: Test) {
  const place = await open(t)
  const sms = provider()
  const app = await place.start({}, { senders: { sms } })
  const { id } = (await ask(app)).body
  return { place, sms, app, id }
}

/** A webhook that is asked before Twilio, and the servers of both. */
async function twoSenders(t: Test, hookDoes: Doing) {
  const hooked = await startProvider(t, hookDoes)
  const twilio = await startProvider(t, { status: 201, body: { sid: 'SM1' } })
  const urls = { WEBHOOK_URL: hooked.url, TWILIO_ENDPOINT: twilio.url }
  return { hooked, twilio, env: { ...credentials, SMS_SENDERS: 'webhook,twilio', ...urls } }
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('rotate: after a resend the next code is valid, the former is not', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      const first = lastCode(app, E164)
      t.match(await resend(app, id), { status: 429, body: { 'violated-policies': ['recipient-60s'] } })
      t.equal((await verify(app, id, wrong(first))).body.triesLeft, 4)
      place.advance(60_000)
      const asked = { payload: { locale: 'zh' }, headers: { 'idempotency-key': 'one' } }
      const again = await resend(app, id, asked)
      t.match(app.outbox?.messages[0]?.text, '验证码')
      t.match(again, { status: 202, body: { id, channel: 'sms', recipient: '+86*******8000' } })
      t.equal(Date.parse(again.body.expiresAt) - Date.parse(again.body.resendAt), 240_000)
      const second = lastCode(app, E164)
      t.not(second, first)
      t.match(await verify(app, id, first), { status: 422, body: { triesLeft: 4 } })
      t.equal((await verify(app, id, second)).status, 200)
      t.same((await resend(app, id, asked)).body, again.body, 'a repetition is answered as the first time')
      place.advance(60_000)
      t.match(await resend(app, id), { status: 410, body: { code: 'CAPTCHA_ENDED' } })
      t.equal((await ask(app)).status, 202, 'the refused resend has not counted')
    })

    await t.test('reuse: a resend sends the same code, and does not extend its life', async t => {
      const place = await open(t)
      const policy = loadPolicy()
      const app = await place.start({}, { policy: { ...policy, code: { ...policy.code, resend: 'reuse' } } })
      const { id, expiresAt } = (await ask(app)).body
      const code = lastCode(app, E164)
      await verify(app, id, wrong(code))
      place.advance(90_000)
      t.match(await resend(app, id), { status: 202, body: { expiresAt } })
      t.equal(lastCode(app, E164), code)
      t.match(app.outbox?.messages[0]?.text, '3 min', 'the message tells the minutes left, rounded down')
      t.match(await status(app, id), { body: { triesLeft: 4, expiresAt } })
      await verify(app, id, code)
      place.advance(60_000)
      t.equal((await resend(app, id)).status, 410, 'the code is used up')
      const mailed = (await askMail(app)).body.id
      place.advance(300_000)
      t.equal((await resend(app, mailed)).status, 410, 'the code has expired')
    })

    await t.test('a resend goes by another sender, unless RESEND_ORDER keeps to the order', async t => {
      const { hooked, twilio, env } = await twoSenders(t, { body: '' })
      for (const [RESEND_ORDER, mode, after] of [
        [undefined, 'rotate', [1, 1]],
        [undefined, 'reuse', [1, 1]],
        ['others-first', 'rotate', [1, 1]],
        ['same', 'rotate', [2, 0]]
      ] as const) {
        const place = await open(t)
        const policy = loadPolicy()
        const changed = { ...policy, code: { ...policy.code, resend: mode } }
        const app = await place.start({ ...env, RESEND_ORDER }, { policy: changed })
        const asked = () => [hooked.asked.length, twilio.asked.length]
        hooked.asked.length = twilio.asked.length = 0
        const { id } = (await ask(app)).body
        t.same(asked(), [1, 0])
        place.advance(60_001)
        t.equal((await resend(app, id)).status, 202)
        t.same(asked(), after)
        place.advance(60_001)
        t.equal((await resend(app, id)).status, 202)
        t.same(asked(), [after[0] + 1, after[1]], 'the one that did not take the last one')
        const { formerSender } = JSON.parse(hooked.asked.at(-1)?.body ?? '').data
        t.equal(formerSender, RESEND_ORDER === 'same' ? 'webhook' : 'twilio')
      }
    })

    await t.test('a resend goes by another sender, too, if the one before did not answer', async t => {
      const { hooked, twilio, env } = await twoSenders(t, 'hang')
      const place = await open(t)
      const app = await place.start({ ...env, SEND_TIMEOUT: '300' })
      const { status: answered, body } = await ask(app)
      t.same([answered, body.code, twilio.asked.length], [504, 'SEND_UNKNOWN', 0])
      place.advance(60_001)
      t.equal((await resend(app, body.id)).status, 202)
      t.same([hooked.asked.length, twilio.asked.length], [1, 1])
    })

    await t.test('reuse: delivery is that of the last message of a code', async t => {
      const place = await open(t)
      const sms = provider()
      const policy = loadPolicy()
      const reuse = { policy: { ...policy, code: { ...policy.code, resend: 'reuse' as const } } }
      const app = await place.start({}, { senders: { sms }, ...reuse })
      sms.fail('unknown')
      const { id } = (await ask(app)).body
      place.advance(60_000)
      t.equal((await resend(app, id)).status, 504)
      t.match(await status(app, id), { body: { delivery: 'unknown' } })
      const [sent, resent] = sms.messages.map(
        ({ lifetimeSeconds = 0 }) => Math.round(lifetimeSeconds / 5) * 5
      )
      t.same([sent, resent], [300, 240], 'a message tells what is left of the life of its code')
      sms.work()
      place.advance(60_000)
      t.equal((await resend(app, id)).status, 202)
      t.match(await status(app, id), { body: { status: 'pending', delivery: 'accepted' } })
      sms.fail('unknown')
      place.advance(60_000)
      t.equal((await resend(app, id)).status, 504)
      t.match(
        await status(app, id),
        { body: { status: 'pending', delivery: 'unknown' } },
        'a later message in doubt makes it unknown again'
      )
    })

    await t.test('a code that has expired or failed can be resent, a cancelled one cannot', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      place.advance(300_000)
      t.equal((await resend(app, id)).status, 202)
      for (let i = 0; i < 5; i++) await verify(app, id, wrong(lastCode(app, E164)))
      t.match(await status(app, id), { body: { status: 'failed' } })
      place.advance(60_000)
      t.equal((await resend(app, id)).status, 202)
      t.equal((await verify(app, id, lastCode(app, E164))).status, 200)
      const { id: other } = (await ask(app, { phone: '13900139000' })).body
      place.advance(300_000)
      t.equal((await cancel(app, other)).status, 204)
      t.match(await resend(app, other), { status: 410, body: { code: 'CAPTCHA_ENDED' } })
    })

    await t.test('a resend that fails leaves the former code valid, and its own is wrong', async t => {
      const { place, sms, app, id } = await sentAt(open, t)
      const code = sms.lastCode()
      place.advance(60_000)
      sms.fail('failed')
      t.match(await resend(app, id), { status: 502, body: { code: 'SEND_FAILED' } })
      t.equal((await verify(app, id, sms.lastCode())).status, 422, 'the code of the failed resend is wrong')
      t.equal((await verify(app, id, code)).status, 200)
    })

    await t.test(
      'a try of the former code is right once its resend has failed, though it began before',
      async t => {
        const app = await (await open(t)).start()
        const { id } = (await ask(app)).body
        const code = lastCode(app, E164)
        const renewed = async () => {
          const captcha = await app.captchas.find(id, 'development')
          const issued = captcha && (await app.captchas.renew(captcha))
          const underWay = await app.captchas.find(id, 'development')
          if (!issued || !underWay) throw new Error('no code')
          return { issued, underWay }
        }
        await (await renewed()).issued.undo()
        const { issued, underWay } = await renewed()
        t.match(await app.captchas.check(underWay, code), { verified: false, triesLeft: 4 })
        await issued.undo()
        t.match(await app.captchas.check(underWay, issued.code), { verified: false, triesLeft: 4 })
        t.match(await app.captchas.check(underWay, code), { verified: true, triesLeft: 4 })
      }
    )

    await t.test('a resend whose message cannot be written leaves the former code valid', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      place.advance(60_000)
      // As after a mistake in the templates.
      app.templates.render = () => {
        throw new Error('no such parameter')
      }
      t.equal((await resend(app, id)).status, 500)
      t.equal((await verify(app, id, code)).status, 200)
    })

    await t.test('two resends at once that both fail leave the former code valid', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const captcha = await app.captchas.find(id, 'development')
      if (captcha === null) throw new Error('no code')
      // As when Redis does not answer, and each instance holds a lock of its own.
      const [one, two] = [await app.captchas.renew(captcha), await app.captchas.renew(captcha)]
      await one?.undo()
      await two?.undo()
      t.equal((await verify(app, id, lastCode(app, E164))).status, 200)
    })

    await t.test('a code that is cancelled while its resend is under way is not sent again', async t => {
      const { place, sms, app, id } = await sentAt(open, t)
      const { renew, cancel } = app.captchas
      app.captchas.renew = async captcha => {
        await cancel(captcha)
        return renew(captcha)
      }
      place.advance(60_000)
      t.match(await resend(app, id), { status: 410, body: { code: 'CAPTCHA_ENDED' } })
      t.equal(sms.messages.length, 1)
      t.equal((await ask(app)).status, 202, 'the refused resend has not counted')
    })

    await t.test('a resend with unknown outcome counts, and its code replaces the former', async t => {
      const { place, sms, app, id } = await sentAt(open, t)
      const code = sms.lastCode()
      place.advance(60_000)
      sms.fail('unknown')
      t.match(await resend(app, id), { status: 504, body: { code: 'SEND_UNKNOWN', id } })
      t.match(await status(app, id), { body: { status: 'pending', delivery: 'unknown' } })
      t.equal((await resend(app, id)).status, 429, 'the resend counts')
      t.equal((await verify(app, id, code)).status, 422)
      t.equal((await verify(app, id, sms.lastCode())).status, 200)
    })

    await t.test('delivery is unknown until a sender has taken the message', async t => {
      const { place, sms, app, id } = await sentAt(open, t)
      t.match(await status(app, id), { body: { delivery: 'accepted' } })
      place.advance(60_000)
      let during: unknown
      sms.does(async () => {
        during = (await status(app, id)).body
      })
      t.equal((await resend(app, id)).status, 202)
      t.match(during, { status: 'pending', delivery: 'unknown' })
      t.match(await status(app, id), { body: { delivery: 'accepted' } })
    })

    await t.test('the outcome of a message does not change delivery after a later resend', async t => {
      const { place, sms, app, id } = await sentAt(open, t)
      place.advance(60_000)
      const { held, letGo } = sms.hold()
      const former = resend(app, id)
      await held
      // Its lock ends, as if the process had stood still.
      place.advance(60_000)
      sms.fail('unknown')
      t.equal((await resend(app, id)).status, 504)
      letGo()
      t.equal((await former).status, 202)
      t.match(await status(app, id), { body: { delivery: 'unknown' } })
    })

    await t.test('a message that was taken while a later resend failed shows as accepted', async t => {
      const { place, sms, app, id } = await sentAt(open, t)
      place.advance(60_000)
      const former = sms.hold()
      const first = resend(app, id)
      await former.held
      // Its lock ends, as if the process had stood still.
      place.advance(60_000)
      const taken = gate()
      sms.does(async () => {
        former.letGo()
        await taken.opened
        throw new SendError('failed')
      })
      const second = resend(app, id)
      t.equal((await first).status, 202)
      taken.open()
      t.match(await second, { status: 502, body: { code: 'SEND_FAILED' } })
      t.match(await status(app, id), { body: { status: 'pending', delivery: 'accepted' } })
    })

    await t.test('wrong codes are limited to ten, however often the code is resent', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      let tried = 0
      for (let minute = 0; minute < 5; minute++) {
        for (let i = 0; i < 5; i++) {
          if ((await verify(app, id, wrong(lastCode(app, E164)))).status === 422) tried++
        }
        place.advance(60_001)
        await resend(app, id)
      }
      t.equal(tried, 10)
    })

    await t.test('nothing is sent or resent to a country that is not or no longer served', async t => {
      const file = join(t.testdir(), 'policy.json')
      const serve = (countries: string[]) =>
        writeFileSync(file, JSON.stringify({ ...loadPolicy(), countries }))
      serve(['CN', 'SG'])
      const place = await open(t)
      const app = await place.start({ POLICY_FILE: file })
      const { id } = (await ask(app)).body
      const mailed = (await askMail(app)).body.id
      place.advance(60_001)
      serve(['SG'])
      app.reload()
      const told = heardOn<AuditEvent>(t, 'verification-api:audit')
      const shipped = { template: 'order-shipped', params: { order: 'A-17' } }
      const sms = await post(app, '/v1/sms', { phone: E164, ...shipped })
      const refused = { status: 422, body: { code: 'COUNTRY_NOT_SERVED' } }
      const again = await resend(app, id)
      t.match(again, refused)
      t.notOk(again.body.errors, 'a resend names no number that errors could point to')
      for (const answer of [await ask(app), sms]) {
        t.match(answer, refused)
        t.match(answer.body.errors, [{ pointer: '#/phone' }])
      }
      t.equal(app.outbox?.messages.length, 2)
      const named = { outcome: 'not-served', rules: ['countries'], country: 'CN', recipientHash: /./ }
      t.match(told, [
        { ...named, template: 'order-shipped' },
        { ...named, purpose: 'register' },
        { ...named, purpose: 'register' }
      ])
      for (const event of told) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
      t.notMatch(JSON.stringify(told), E164.slice(1), 'no number is in clear')
      t.equal((await resend(app, mailed)).status, 202, 'mail has no country')
      serve(['CN'])
      app.reload()
      t.equal((await resend(app, id)).status, 202, 'the refused requests have not counted')
    })

    await t.test(
      'a satellite phone belongs to no country, and is served where the policy says so',
      async t => {
        const file = join(t.testdir(), 'policy.json')
        writeFileSync(file, JSON.stringify({ ...loadPolicy(), countries: ['001', 'SG'] }))
        const key = 'an operator whom nobody guesses'
        const app = await (await open(t)).start({ POLICY_FILE: file, ADMIN_KEY: key })
        const message = { phone: '+881 6 1234 5678', template: 'order-shipped', params: { order: 'A-17' } }
        t.equal((await post(app, '/v1/sms', message)).status, 202)
        t.match(
          await ask(app),
          { status: 422, body: { code: 'COUNTRY_NOT_SERVED' } },
          'a number of a country that the policy does not name is not served'
        )
        const { phone } = message
        const { id } = (await ask(app, { phone })).body
        const code = lastCode(app, '+881612345678')
        t.match(
          await verify(app, id, code, { phone }),
          { status: 200 },
          'the number may be named beside its code'
        )
        const block = '/v1/admin/recipients/block'
        for (const each of [phone, E164]) {
          const blocked = await post(app, block, { phone: each }, { headers: { 'x-admin-key': key } })
          t.equal(blocked.status, 200, 'a number can be blocked, served or not')
        }
      }
    )

    await t.test('a resend of an unknown id is refused, and nothing is sent', async t => {
      const app = await (await open(t)).start()
      t.match(await resend(app, 'A'.repeat(22)), { status: 404, body: { code: 'CAPTCHA_UNKNOWN' } })
      t.same(app.outbox?.messages, [])
    })
  })
}

/** An app on a Redis of its own that has sent a code; a resend need not wait. */
async function sent(t: Test) {
  const server = await startRedis(t)
  const sms = provider()
  const own = loadPolicy()
  const rules = own.rules.map(rule =>
    rule.name === 'recipient' ? { name: rule.name, key: rule.key, limits: [{ max: 9, window: '60s' }] } : rule
  )
  const env = { REDIS_URL: server.url, LIMIT_SECRET: 'a secret of these tests', STORE_TIMEOUT: '300' }
  const app = await startApp(t, env, { senders: { sms }, policy: { ...own, rules } })
  const { id } = (await ask(app)).body
  return { server, sms, app, id }
}

t.test('if Redis hangs while a resend makes its code, the former one stays valid', async t => {
  const { server, sms, app, id } = await sent(t)
  const { renew } = app.captchas
  app.captchas.renew = captcha => {
    process.kill(server.pid, 'SIGSTOP')
    return renew(captcha)
  }
  t.match(await resend(app, id), { status: 503, body: { code: 'CODES_UNAVAILABLE' } })
  process.kill(server.pid, 'SIGCONT')
  t.equal(sms.messages.length, 1)
  await until(async () => (await server.client.ping()) === 'PONG', 'an answer')
  t.equal((await verify(app, id, sms.lastCode())).status, 200)
})

t.test('if the connection breaks while a resend fails, the former code is valid again soon', async t => {
  const { server, sms, app, id } = await sent(t)
  const code = sms.lastCode()
  sms.does(async () => {
    await server.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await until(async () => app.redis.status !== 'ready', 'the loss')
    throw new SendError('failed')
  })
  t.match(await resend(app, id), { status: 502, body: { code: 'SEND_FAILED' } })
  const [key = ''] = await server.client.keys('captcha:*')
  await until(async () => (await server.client.hget(key, 'generation')) === '1', 'the former code')
  t.equal((await verify(app, id, code)).status, 200)
})

t.test('of several errors in the body of a resend the first alone is reported', async t => {
  const app = await (await places.memory(t)).start()
  const { id } = (await ask(app)).body
  const flaws: [payload: object, pointer: string, code: string][] = [
    [{ locale: '!' }, '#/locale', 'PATTERN'],
    [{ locale: 'en', x: 1 }, '#/x', 'UNEXPECTED'],
    [[], '#', 'NOT_OBJECT']
  ]
  for (const [payload, pointer, code] of flaws) {
    const { errors } = (await resend(app, id, { payload })).body
    t.match(errors, [{ pointer, code }])
    t.equal(errors.length, 1)
  }
})

t.test(
  'the message of a code that lives for less than a second tells one second, since no provider takes 0',
  async t => {
    const place = await places.memory(t)
    const sms = provider()
    const { code, ...policy } = loadPolicy()
    const app = await place.start(
      {},
      { senders: { sms }, policy: { ...policy, code: { ...code, resend: 'reuse' } } }
    )
    const { id } = (await ask(app)).body
    place.advance(299_999)
    t.equal((await resend(app, id)).status, 202)
    t.equal(sms.messages.at(-1)?.lifetimeSeconds, 1)
  }
)

t.test(
  'an empty body of any type is accepted where a body may be left out, and refused elsewhere',
  async t => {
    const place = await places.memory(t)
    const app = await place.start({ ADMIN_KEY })
    const base = await app.listen({ host: '127.0.0.1', port: 0 })
    const { id } = (await ask(app)).body
    const answerTo = async (method: string, path: string, type: string, body = '', more?: object) => {
      const headers = {
        'x-api-key': KEY,
        'x-admin-key': ADMIN_KEY,
        'content-type': type,
        ...(more ?? { 'content-length': body.length })
      }
      const [answer] = await once(request(base + path, { method, headers }).end(body), 'response')
      answer.resume()
      return answer.statusCode
    }
    const types = ['application/x-www-form-urlencoded', 'application/json', 'no type']
    for (const type of types) {
      place.advance(60_001)
      t.equal(await answerTo('POST', `/v1/captcha/${id}/resend`, type), 202, type)
      t.equal(await answerTo('POST', '/v1/admin/reload', type), 200, type)
      const other = (await ask(app, { phone: '13900139000' })).body.id
      // Without a length, as curl sends it.
      t.equal(await answerTo('DELETE', `/v1/captcha/${other}`, type, '', {}), 204, type)
    }
    place.advance(60_001)
    const [form = '', json = ''] = types
    const chunked = { 'transfer-encoding': 'chunked' }
    const again = `/v1/captcha/${id}/resend`
    t.equal(await answerTo('POST', again, form, 'a=b'), 415)
    t.equal(await answerTo('POST', again, form, '', chunked), 415)
    t.equal(await answerTo('POST', again, json, '', chunked), 400)
    t.equal(await answerTo('POST', '/v1/captcha', form), 415)
    t.equal(await answerTo('POST', '/v1/captcha', json), 400)
  }
)

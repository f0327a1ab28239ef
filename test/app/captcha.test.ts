import t from 'tap'
import { type App, lastCode, places, post, wrong } from './helper.js'

const PHONE = '13800138000'
const E164 = '+8613800138000'
const ask = (app: App, phone = PHONE, purpose = 'register', remoteAddress = '192.0.2.1') =>
  post(app, '/v1/captcha', { phone, purpose }, { remoteAddress })
const verify = (app: App, id: string, code: string) => post(app, '/v1/captcha/verify', { id, code })

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('sends once, refuses the second with its waiting time, sends again after it', async t => {
      const place = await open(t)
      const app = await place.start()
      const first = await ask(app)
      t.equal(first.status, 202)
      t.match(first.body.id, /^[\w-]{44}$/)
      t.equal(Date.parse(first.body.expiresAt) - Date.parse(first.body.resendAt), 240_000)
      const second = await ask(app, '+86 138-0013-8000')
      t.equal(second.status, 429)
      t.match(second.headers, { 'retry-after': '60', 'content-type': 'application/problem+json' })
      t.match(second.body, { status: 429, 'violated-policies': ['recipient-60s'] })
      place.advance(second.body.retryAfterMs - 1)
      t.equal((await ask(app)).status, 429)
      place.advance(1)
      t.equal((await ask(app)).status, 202)
    })

    await t.test('one number: five an hour, ten a day, whatever the purpose and the address', async t => {
      const place = await open(t)
      const app = await place.start()
      const purposes = ['register', 'login', 'reset-password']
      let sent = 0
      for (let minute = 0; minute < 1_440; minute += 20) {
        const { status } = await ask(app, PHONE, purposes[minute % 3], `192.0.2.${minute / 20}`)
        if (status === 202) sent++
        place.advance(20 * 60_000)
      }
      t.equal(sent, 10)
    })

    await t.test('the right code verifies, once', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      t.same(await verify(app, id, code).then(({ status, body }) => ({ status, body })), {
        status: 200,
        body: { verified: true }
      })
      const again = await verify(app, id, code)
      t.match(again, { status: 422, body: { code: 'CODE_WRONG', attemptsLeft: 0 } })
    })

    await t.test('the right code 20 times in parallel: one success', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      const all = await Promise.all(Array.from({ length: 20 }, () => verify(app, id, code)))
      t.equal(all.filter(({ status }) => status === 200).length, 1)
      t.equal(all.filter(({ status }) => status === 422).length, 19)
    })

    await t.test('five wrong tries end a code, in parallel as well', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      for (const attemptsLeft of [4, 3, 2, 1, 0]) {
        t.match(await verify(app, id, wrong(code)), { status: 422, body: { verified: false, attemptsLeft } })
      }
      t.equal((await verify(app, id, code)).status, 422)

      place.advance(60_000)
      const next = (await ask(app)).body.id
      const tries = await Promise.all(
        Array.from({ length: 8 }, () => verify(app, next, wrong(lastCode(app, E164))))
      )
      t.same(tries.map(({ body }) => body.attemptsLeft).sort(), [0, 0, 0, 0, 1, 2, 3, 4])
      t.equal((await verify(app, next, lastCode(app, E164))).status, 422)
    })

    await t.test('a code lives five minutes', async t => {
      const place = await open(t)
      const app = await place.start()
      const early = (await ask(app)).body.id
      place.advance(299_999)
      t.equal((await verify(app, early, lastCode(app, E164))).status, 200)
      const late = (await ask(app)).body.id
      place.advance(300_001)
      t.equal((await verify(app, late, lastCode(app, E164))).status, 422)
    })

    await t.test('a new code ends the old one of that number and purpose, and no other', async t => {
      const place = await open(t)
      const app = await place.start()
      const old = (await ask(app)).body.id
      const oldCode = lastCode(app, E164)
      place.advance(60_000)
      const login = (await ask(app, PHONE, 'login')).body.id
      const loginCode = lastCode(app, E164)
      place.advance(60_000)
      await ask(app, '0086 138 0013 8000')
      t.equal((await verify(app, old, oldCode)).status, 422)
      t.equal((await verify(app, old, lastCode(app, E164))).status, 422)
      t.equal((await verify(app, login, loginCode)).status, 200)
    })

    await t.test('an unknown, a used and an expired code are answered alike', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      await verify(app, id, code)
      const used = await verify(app, id, code)
      const unknown = await verify(app, 'A'.repeat(44), code)
      const stranger = await verify(app, 'B'.repeat(22) + id.slice(22), code)
      t.same(unknown.body, used.body)
      t.same(stranger.body, used.body)
    })

    await t.test('wrong codes end at the ceiling of their address, right ones cost nothing', async t => {
      const place = await open(t)
      const app = await place.start()
      for (let i = 0; i < 20; i++) {
        if (i === 10) place.advance(60_000)
        t.equal((await verify(app, 'A'.repeat(44), '000000')).status, 422)
      }
      const refused = await verify(app, 'A'.repeat(44), '000000')
      t.match(refused, { status: 429, body: { 'violated-policies': ['verify-failures-1h'] } })
      const elsewhere = await post(
        app,
        '/v1/captcha/verify',
        { id: 'A'.repeat(44), code: '000000' },
        { remoteAddress: '198.51.100.1' }
      )
      t.equal(elsewhere.status, 422)
    })
  })
}

import type { InjectOptions } from 'fastify'
import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import { ask, askMail, cancel, E164, resend, status, told, verify, wrong } from './captcha.js'
import { lastCode, places, post, putOnList } from './helper.js'

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a second request is refused with its waiting time, and served after it', async t => {
      const place = await open(t)
      const app = await place.start()
      const first = await ask(app)
      t.match(first, {
        status: 202,
        body: { id: /^[\w-]{22}$/, channel: 'sms', recipient: '+86*******8000' }
      })
      t.equal(Date.parse(first.body.expiresAt) - Date.parse(first.body.resendAt), 240_000)
      const second = await ask(app, { phone: '+86 138-0013-8000' })
      t.equal(second.status, 429)
      t.match(second.headers, { 'retry-after': '60', 'content-type': 'application/problem+json' })
      t.match(second.body, { status: 429, 'violated-policies': ['recipient-60s'] })
      place.advance(second.body.retryAfterMs - 1)
      t.equal((await ask(app)).status, 429)
      place.advance(1)
      t.equal((await ask(app)).status, 202)
    })

    await t.test('a recipient gets at most ten codes a day, for all purposes and addresses', async t => {
      const place = await open(t)
      const app = await place.start()
      const purposes = ['register', 'login', 'reset-password']
      let sent = 0
      for (let minute = 0; minute < 1_440; minute += 20) {
        const asked = { purpose: purposes[minute % 3] }
        const { status } = await ask(app, asked, { remoteAddress: `192.0.2.${minute / 20}` })
        if (status === 202) sent++
        place.advance(20 * 60_000)
      }
      t.equal(sent, 10)
    })

    await t.test('one network gets at most half of the codes of a recipient’s day', async t => {
      const place = await open(t)
      const app = await place.start()
      for (let hour = 0; hour < 5; hour++) {
        t.equal((await ask(app)).status, 202)
        place.advance(3_600_000)
      }
      t.match(await ask(app), { status: 429, body: { 'violated-policies': ['recipient-network'] } })
      t.equal((await ask(app, {}, { remoteAddress: '198.51.100.1' })).status, 202)
    })

    await t.test(
      'the networks of an IPv6 site count as one towards a recipient, and share the limits of the site',
      async t => {
        const place = await open(t)
        const app = await place.start()
        let networks = 0
        const next = () => ({ remoteAddress: `2001:db8:1:${networks++}::1` })
        const mail = (i: number, from: InjectOptions) =>
          post(app, '/v1/captcha', { email: `somebody${i}@example.com`, purpose: 'register' }, from)
        for (let hour = 0; hour < 5; hour++) {
          t.equal((await ask(app, {}, next())).status, 202)
          place.advance(3_600_000)
        }
        t.match(await ask(app, {}, next()), {
          status: 429,
          body: { 'violated-policies': ['recipient-network'] }
        })
        for (let i = 0; i < 100; i++) t.equal((await mail(i, next())).status, 202)
        t.match(await mail(100, next()), { status: 429, body: { 'violated-policies': ['ip-site-1h'] } })
        const elsewhere = { remoteAddress: '2001:db8:2::1' }
        t.equal((await mail(100, elsewhere)).status, 202)
        t.equal((await ask(app, {}, elsewhere)).status, 202)
      }
    )

    await t.test('one address reaches five recipients an hour', async t => {
      const place = await open(t)
      const app = await place.start()
      for (let i = 0; i < 5; i++) {
        t.equal((await ask(app, { phone: `1380013800${i}` })).status, 202)
        place.advance(60_000)
      }
      t.match(await ask(app, { phone: '13800138009' }), {
        status: 429,
        body: { 'violated-policies': ['ip-recipients'] }
      })
      t.equal(
        (await ask(app, { phone: '+86 138 0013 8004' })).status,
        202,
        'a recipient that the address has reached before'
      )
    })

    await t.test(
      'of a range of numbers, 20 get codes an hour and 50 a day, whatever the addresses',
      async t => {
        const place = await open(t)
        const app = await place.start()
        let asked = 0
        const next = (i = asked) => {
          // From one end of the range to the other.
          const phone = `1390013${8_000 + i * 17}`
          return ask(app, { phone }, { remoteAddress: `198.51.100.${asked++}` })
        }
        for (const [numbers, policy] of [
          [20, 'number-range-1h'],
          [20, 'number-range-1h'],
          [10, 'number-range-24h']
        ] as const) {
          const first = asked
          for (let i = 0; i < numbers; i++) t.equal((await next()).status, 202)
          t.match(await next(), { status: 429, body: { 'violated-policies': [policy] } })
          place.advance(60_000)
          t.equal((await next(first)).status, 202, 'a number that has got a code before')
          place.advance(3_600_000)
        }
        t.equal((await ask(app, { phone: '13900139000' })).status, 202, 'a number of another range')
        for (let i = 0; i < 21; i++) {
          const mail = { email: `somebody${i}@example.com`, purpose: 'register' }
          const from = { remoteAddress: `203.0.113.${i}` }
          t.equal((await post(app, '/v1/captcha', mail, from)).status, 202, 'mail addresses are in no range')
        }
        await putOnList(app, 'allowed', '+8613900138999')
        t.equal((await ask(app, { phone: '13900138999' })).status, 202, 'a number that the operator allows')
      }
    )

    await t.test(
      'a code may be typed with blanks, dashes, invisible characters or digits of any script',
      async t => {
        const app = await (await open(t)).start()
        const inScript = (code: string, zero: string) =>
          code.replace(/\d/g, digit => String.fromCodePoint((zero.codePointAt(0) as number) + Number(digit)))
        const typed = (code: string) => [
          `${code.slice(0, 3)} ${code.slice(3)}`,
          ` ${code.slice(0, 3)}–${code.slice(3)}\n`,
          // Full-width, Arabic, Persian, Devanagari, Chakma.
          ...['０', '٠', '۰', '०', '𑄶'].map(zero => inScript(code, zero)),
          `\u2068${code}\u2069\u200f`,
          `\u200e${code.slice(0, 3)}\u200b${code.slice(3)}`
        ]
        for (const i of typed('').keys()) {
          const phone = `138001380${10 + i}`
          const { id } = (await ask(app, { phone }, { remoteAddress: `192.0.2.${i}` })).body
          const code = lastCode(app, `+86${phone}`)
          t.match(await verify(app, id, typed(wrong(code))[i] as string), {
            status: 422,
            body: { triesLeft: 4 }
          })
          t.equal((await verify(app, id, typed(code)[i] as string)).status, 200)
        }
        const { id } = (await ask(app, { phone: '13800138004' })).body
        for (const code of [
          '',
          '123',
          '12 3',
          '12345678901',
          '12345a',
          '１２３',
          '123456'.padEnd(65),
          '一二三四',
          '１２³４',
          '①②③④'
        ])
          t.match(await verify(app, id, code), { status: 422, body: { code: /^INVALID$/ } }, code)
        const { errors } = (await verify(app, id, '12345a')).body
        t.match(errors, [{ pointer: '#/code', code: 'PATTERN', pattern: '^[0-9]{4,10}$' }])
      }
    )

    await t.test('the right code verifies once, and the answer says its recipient and purpose', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      const { body, ...answer } = await verify(app, id, code)
      t.match(answer, { status: 200, headers: { 'cache-control': 'no-store' } })
      t.same(body, {
        verified: true,
        triesLeft: 5,
        purpose: 'register',
        channel: 'sms',
        recipient: '+86*******8000'
      })
      t.match(await verify(app, id, code), { status: 422, body: { code: 'CODE_WRONG', triesLeft: 0 } })
    })

    await t.test('a code is sent and verified by mail, too', async t => {
      const app = await (await open(t)).start()
      const { status, body } = await askMail(app, ' Jane.Doe@example.com ')
      t.match({ status, body }, { status: 202, body: { channel: 'mail', recipient: 'J***@example.com' } })
      const message = app.outbox?.messages[0]
      t.match(message, { channel: 'mail', to: 'Jane.Doe@example.com' })
      t.equal((await verify(app, body.id, lastCode(app, 'Jane.Doe@example.com'))).status, 200)
      t.equal((await askMail(app, 'jane.doe+shop@EXAMPLE.com')).status, 429)
    })

    await t.test('of 20 parallel tries with the right code one succeeds', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      const all = await Promise.all(Array.from({ length: 20 }, () => verify(app, id, code)))
      t.equal(all.filter(({ status }) => status === 200).length, 1)
      t.ok(all.every(({ status }) => [200, 422, 429].includes(status)))
    })

    await t.test('five wrong tries end a code, in parallel as well', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      for (const triesLeft of [4, 3, 2, 1, 0]) {
        t.match(await verify(app, id, wrong(code)), { status: 422, body: { verified: false, triesLeft } })
      }
      t.equal((await verify(app, id, code)).status, 422)

      place.advance(86_400_000)
      const next = (await ask(app)).body.id
      const tries = await Promise.all(
        Array.from({ length: 8 }, () => verify(app, next, wrong(lastCode(app, E164))))
      )
      t.same(tries.map(({ body }) => body.triesLeft).sort(), [0, 0, 0, 0, 1, 2, 3, 4])
      t.equal((await verify(app, next, lastCode(app, E164))).status, 422)
    })

    await t.test('a code lives five minutes', async t => {
      const place = await open(t)
      const app = await place.start()
      const early = (await ask(app)).body.id
      place.advance(299_999)
      t.equal((await verify(app, early, lastCode(app, E164))).status, 200)
      const late = (await ask(app)).body.id
      place.advance(300_000)
      t.equal((await verify(app, late, lastCode(app, E164))).status, 422)
      t.match(await status(app, late), { status: 200, body: { status: 'expired', triesLeft: 0 } })
    })

    await t.test('a code is bound to its own request', async t => {
      const place = await open(t)
      const app = await place.start()
      const register = (await ask(app)).body.id
      const registerCode = lastCode(app, E164)
      place.advance(60_000)
      const login = (await ask(app, { purpose: 'login' })).body.id
      const loginCode = lastCode(app, E164)
      const other = (await ask(app, { phone: '13900139000', purpose: 'login' })).body.id
      t.equal((await verify(app, login, registerCode)).status, 422, 'a code of another purpose is wrong')
      t.equal((await verify(app, other, loginCode)).status, 422, 'a code of another recipient is wrong')
      for (const stated of [{ purpose: 'login' }, { phone: '13900139000' }, { email: 'a@example.com' }]) {
        t.equal((await verify(app, register, registerCode, stated)).status, 422, JSON.stringify(stated))
      }
      t.equal((await verify(app, login, loginCode, { purpose: 'login', phone: '138 0013 8000' })).status, 200)
      t.equal(
        (await verify(app, register, registerCode)).status,
        200,
        'a later request does not end the code of a former one'
      )
    })

    await t.test('a code for one mail address is wrong for another that counts as the same', async t => {
      const place = await open(t)
      const app = await place.start()
      for (const [own, others] of [
        ['jane+tag@example.com', 'jane@example.com'],
        ['ｊane@example.com', 'jane@example.com'],
        ['j.ane@gmail.com', 'jane@gmail.com'],
        ['\u212aim@example.com', 'kim@example.com']
      ] as const) {
        const { id } = (await askMail(app, own)).body
        const code = lastCode(app, own)
        t.equal((await verify(app, id, code, { email: others })).status, 422, own)
        const same = own.replace('n', 'N').replace('example', 'EXAMPLE')
        t.equal((await verify(app, id, code, { email: same })).status, 200, same)
        place.advance(60_000)
      }
    })

    await t.test('an unknown, a used and an expired code are answered alike', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      await verify(app, id, code)
      const used = told(await verify(app, id, code))
      t.same(told(await verify(app, 'A'.repeat(22), code)), used)
      place.advance(60_000)
      const late = (await ask(app)).body.id
      place.advance(300_000)
      t.same(told(await verify(app, late, lastCode(app, E164))), used)
    })

    await t.test('the status of a code says how it stands, and a code can be cancelled once', async t => {
      const app = await (await open(t)).start()
      const { id, resendAt, expiresAt } = (await ask(app)).body
      t.same((await status(app, id)).body, {
        id,
        channel: 'sms',
        recipient: '+86*******8000',
        expiresAt,
        resendAt,
        purpose: 'register',
        status: 'pending',
        delivery: 'accepted',
        triesLeft: 5
      })
      await verify(app, id, wrong(lastCode(app, E164)))
      t.match((await status(app, id)).body, { triesLeft: 4 })
      t.equal((await cancel(app, id)).status, 204)
      t.match((await status(app, id)).body, { status: 'cancelled', triesLeft: 0 })
      t.match(await cancel(app, id), { status: 410, body: { code: 'CAPTCHA_ENDED' } })
      t.equal((await verify(app, id, lastCode(app, E164))).status, 422)
      t.match(await status(app, 'A'.repeat(22)), { status: 404, body: { code: 'CAPTCHA_UNKNOWN' } })
      t.equal((await cancel(app, 'A'.repeat(22))).status, 404)
    })

    await t.test('the status says when to resend, whatever the form of the rule recipient', async t => {
      const own = loadPolicy()
      const limits = [{ max: 1, window: '60s' }]
      const key = { value: 'request.recipient.identity' }
      for (const [changed, waitMs] of [
        [{ key: [key, { value: 'request.purpose' }], limits }, 60_000],
        [{ key: [key, { ip: 'request.endUserIp' }], limits }, 60_000],
        [{ key: [key, { value: 'headers.x-tenant' }], optional: true, limits }, 0],
        [{ key: [key, { value: 'headers.x-tenant' }], limits }, 0],
        [{ key, distinct: { value: 'request.purpose' }, limits }, 0],
        [{ key, limits: [{ max: { value: 'request.account.dailyQuota' }, ceiling: 9, window: '60s' }] }, 0],
        // In Shanghai it is eight in the morning, so the day has 16 hours left.
        [
          { key, limits: [{ max: 1, per: 'day', timeZone: { value: 'request.account.timeZone' } }] },
          16 * 3_600_000
        ]
      ] as const) {
        const policy = {
          ...own,
          rules: own.rules.map(rule => (rule.name === 'recipient' ? { name: rule.name, ...changed } : rule))
        } as Policy
        const app = await (await open(t)).start({}, { policy })
        const { id, expiresAt } = (await ask(app, {}, { headers: { 'x-tenant': 'one' } })).body
        const resendAt = new Date(Date.parse(expiresAt) - 300_000 + waitMs).toISOString()
        t.match(await status(app, id), { status: 200, body: { resendAt } }, JSON.stringify(changed))
      }
    })

    await t.test('an allowed recipient need not wait for a resend, except of a concealed code', async t => {
      const place = await open(t)
      const app = await place.start()
      for (const [phone, purpose, waitMs] of [
        ['13800138000', 'register', 0],
        ['13900139000', 'reset-password', 60_000]
      ] as const) {
        place.advance(1)
        const { id, expiresAt } = (await ask(app, { phone, purpose })).body
        await putOnList(app, 'allowed', `+86${phone}`)
        const resendAt = new Date(Date.parse(expiresAt) - 300_000 + waitMs).toISOString()
        t.match(await status(app, id), { status: 200, body: { resendAt } }, purpose)
      }
    })

    await t.test('nobody sees or uses the codes of another account', async t => {
      const app = await (await open(t)).start({ API_KEYS: 'key-one:one,key-two:two' })
      const as = (key: string) => ({ headers: { 'x-api-key': key } })
      const { id } = (await ask(app, {}, as('key-one'))).body
      const code = lastCode(app, E164)
      t.equal((await verify(app, id, code, {}, as('key-two'))).status, 422)
      t.equal((await status(app, id, as('key-two'))).status, 404)
      t.equal((await cancel(app, id, as('key-two'))).status, 404)
      t.equal((await verify(app, id, code, {}, as('key-one'))).status, 200)
    })

    await t.test('wrong codes are limited by recipient, purpose and network', async t => {
      const place = await open(t)
      const app = await place.start()
      const guess = async (purpose: string, from: InjectOptions = {}) => {
        const { id } = (await ask(app, { purpose }, from)).body
        const statuses: number[] = []
        for (let i = 0; i < 5; i++) {
          statuses.push((await verify(app, id, wrong(lastCode(app, E164)), {}, from)).status)
        }
        place.advance(60_000)
        return statuses
      }
      const refused = async (purpose: string, from: InjectOptions = {}) =>
        t.match(await ask(app, { purpose }, from), {
          status: 429,
          body: { 'violated-policies': ['wrong-codes'] }
        })
      const all = Array(5).fill(422)
      t.same(await guess('login'), all)
      t.same(await guess('login'), all)
      await refused('login')
      t.same(await guess('register'), all, 'another purpose')
      const named = { headers: { 'x-end-user-ip': '198.51.100.1' } }
      t.same(await guess('login', named), all, 'another network')
      place.advance(3_600_000)
      const networks = (n: number) => ({ headers: { 'x-end-user-ip': `2001:db8:1:${n}::1` } })
      t.same(await guess('login', networks(1)), all)
      t.same(await guess('login', networks(2)), all)
      await refused('login', networks(3))
    })

    await t.test('no code is sent or resent while none could be verified', async t => {
      const place = await open(t)
      const app = await place.start()
      for (const purpose of ['login', 'reset-password']) {
        let id = ''
        for (let i = 0; i < 2; i++) {
          id = (await ask(app, { purpose })).body.id
          for (let j = 0; j < 5; j++) await verify(app, id, wrong(lastCode(app, E164)))
          place.advance(60_000)
        }
        const sent = app.outbox?.messages.length
        const { status: held, body } = await verify(app, id, '000000')
        t.equal(held, 429)
        const { retryAfterMs } = body
        const refused = {
          status: 429,
          headers: { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) },
          body: { code: 'FST_SEND_LIMIT_EXCEEDED', 'violated-policies': ['wrong-codes'], retryAfterMs }
        }
        t.match(await ask(app, { purpose }), refused)
        t.match(await resend(app, id), refused)
        if (purpose === 'reset-password') t.match(await ask(app, { purpose, send: false }), refused)
        t.equal(app.outbox?.messages.length, sent)
        t.equal(Date.parse((await status(app, id)).body.resendAt), app.clock.wall() + retryAfterMs)
      }
      place.advance(3_600_000)
      // The last code of the day from this network: the refusals have cost nothing.
      const { id } = (await ask(app, { purpose: 'login' })).body
      t.equal((await verify(app, id, lastCode(app, E164))).status, 200)
    })

    await t.test('a resend counts for the end user who asks for it', async t => {
      const place = await open(t)
      const app = await place.start()
      const from = (address: string) => ({ headers: { 'x-end-user-ip': address } })
      const { id } = (await ask(app, {}, from('198.51.100.1'))).body
      place.advance(60_000)
      for (let i = 1; i < 5; i++)
        t.equal((await ask(app, { phone: `1380013800${i}` }, from('198.51.100.2'))).status, 202)
      t.equal((await resend(app, id, from('198.51.100.2'))).status, 202)
      t.match(await ask(app, { phone: '13800138001' }, from('198.51.100.2')), {
        status: 429,
        body: { 'violated-policies': ['ip-60s', 'recipient-60s'] }
      })
    })

    await t.test('the end user’s address counts, when a server with a key names it', async t => {
      const app = await (await open(t)).start()
      const from = (address: string) => ({ headers: { 'x-end-user-ip': address } })
      for (let i = 0; i < 5; i++) {
        t.equal((await ask(app, { phone: `1380013800${i}` }, from('198.51.100.1'))).status, 202)
      }
      t.equal((await ask(app, { phone: '13800138005' }, from('198.51.100.1'))).status, 429)
      t.equal((await ask(app, { phone: '13800138005' }, from('198.51.100.2'))).status, 202)
      for (const address of ['x', `fe80::1%${'e'.repeat(80)}`])
        t.match(await ask(app, { phone: '13800138006' }, from(address)), {
          status: 422,
          body: { code: 'END_USER_IP_INVALID' }
        })
      for (let i = 0; i < 6; i++) {
        const headers = { 'x-api-key': '', 'x-end-user-ip': i === 0 ? 'x' : `203.0.113.${i}` }
        const { status } = await ask(app, { phone: `1390013900${i}` }, { headers })
        t.equal(status, i < 5 ? 202 : 429, 'without a key the header is ignored')
      }
    })
  })
}

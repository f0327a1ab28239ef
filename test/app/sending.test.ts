import t from 'tap'
import { ask, askMail, E164, PHONE, resend, verify } from './captcha.js'
import { type App, lastCode, places, post, putOnList } from './helper.js'
import { provider } from './provider.js'

/** The ids of codes that are made from now on, whether an answer has them or not. */
function spyOn(app: App): string[] {
  const ids: string[] = []
  const { start } = app.captchas
  app.captchas.start = async asked => {
    const issued = await start(asked)
    ids.push(issued.id)
    return issued
  }
  return ids
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    const start = async () => {
      const sms = provider()
      const app = await (await open(t)).start({ SEND_TIMEOUT: '100' }, { senders: { sms } })
      return { sms, app }
    }

    for (const [outcome, status, code] of [
      ['limited', 429, 'SEND_LIMITED'],
      ['refused', 422, 'RECIPIENT_REFUSED'],
      ['failed', 502, 'SEND_FAILED']
    ] as const) {
      await t.test(`outcome ${outcome}: the send does not count, and its code is ended`, async t => {
        const { app, sms } = await start()
        const ids = spyOn(app)
        sms.fail(outcome, { retryAfterMs: 30_000 })
        const answer = await ask(app)
        t.match(answer, { status, body: { code } })
        if (outcome === 'limited') t.match(answer.headers, { 'retry-after': '30' })
        t.equal((await verify(app, ids[0] ?? '', sms.lastCode())).status, 422)
        sms.work()
        t.equal((await ask(app)).status, 202)
      })
    }

    await t.test('a sender that hangs is aborted, the send counts, a code that arrives works', async t => {
      const { app, sms } = await start()
      let aborted = false
      sms.does(signal => new Promise(() => signal.addEventListener('abort', () => void (aborted = true))))
      const unknown = await ask(app)
      t.match(unknown, {
        status: 504,
        body: { code: 'SEND_UNKNOWN', recipient: '+86*******8000', expiresAt: String, resendAt: String }
      })
      t.equal(aborted, true)
      t.equal((await verify(app, unknown.body.id, sms.lastCode())).status, 200)
      t.match(await ask(app), { status: 429, body: { 'violated-policies': ['recipient-60s'] } })
      t.equal(sms.messages.length, 1, 'the message is not sent again')
    })

    await t.test('a code that cannot be taken back does not hide the outcome of its message', async t => {
      const { app, sms } = await start()
      sms.fail('failed')
      const undo = () => Promise.reject(new Error('away'))
      const issue = app.captchas.start
      app.captchas.start = async asked => ({ ...(await issue(asked)), undo })
      t.match(await ask(app), { status: 502, body: { code: 'SEND_FAILED' } })
    })

    await t.test('a problem has the members of a 202 only if the code stays valid', async t => {
      const { app, sms } = await start()
      const { body } = await ask(app, { phone: '13900139000' })
      for (const outcome of ['failed', 'refused', 'limited', 'unknown'] as const) {
        sms.fail(outcome)
        const problem = (await ask(app)).body
        const members = outcome === 'unknown' ? Object.keys(body) : []
        t.same(
          Object.keys(body).filter(member => member in problem),
          members,
          outcome
        )
      }
    })

    await t.test('a message that was sent is 202, also if its sender cannot be noted', async t => {
      const { app } = await start()
      app.captchas.noteSent = async () => {
        throw new Error('away')
      }
      t.equal((await ask(app)).status, 202)
    })

    await t.test('a request that cannot be sent is refused before limits are asked', async t => {
      const { app } = await start()
      const { id } = (await ask(app)).body
      const refused = { status: 422, body: { code: /^INVALID$/, errors: [{ pointer: '#/locale' }] } }
      t.match(await ask(app, { locale: 'f' }), refused)
      t.match(await resend(app, id, { payload: { locale: 'f' } }), {
        status: 422,
        body: { code: /^INVALID$/ }
      })
    })

    await t.test('outcome unknown: the send counts', async t => {
      const { app, sms } = await start()
      sms.fail('unknown')
      t.equal((await ask(app)).status, 504)
      t.equal((await ask(app)).status, 429)
      const message = { phone: '13900139000', template: 'order-shipped', params: { order: 'A-17' } }
      for (const status of [504, 504, 429]) t.equal((await post(app, '/v1/sms', message)).status, status)
    })

    await t.test(
      '200 failures from one address end at its limit, and cost the recipient nothing',
      async t => {
        const { app, sms } = await start()
        sms.fail('failed')
        const statuses: number[] = []
        for (let i = 0; i < 200; i++) statuses.push((await ask(app)).status)
        t.same(statuses, [...Array(60).fill(502), ...Array(140).fill(429)])
        sms.work()
        t.equal((await ask(app, {}, { remoteAddress: '198.51.100.1' })).status, 202)
      }
    )

    await t.test('a recipient gets one message at a time, also an allowed one', async t => {
      const sms = provider()
      const app = await (await open(t)).start({}, { senders: { sms } })
      await putOnList(app, 'allowed', E164)
      const { id } = (await ask(app)).body
      const { held, letGo } = sms.hold()
      const first = ask(app)
      await held
      const taken = { status: 409, body: { code: 'FST_SEND_LIMIT_IN_FLIGHT' } }
      t.match([await ask(app), await resend(app, id)], [taken, taken])
      letGo()
      t.equal((await first).status, 202)
      const { body } = await app.inject('/metrics')
      for (const route of ['POST /v1/captcha', 'POST /v1/captcha/:id/resend'])
        t.match(body, `limit_duplicates_total{route="${route}"} 1\n`)
    })

    await t.test('50 requests at once make one message', async t => {
      const { app, sms } = await start()
      const all = await Promise.all(Array.from({ length: 50 }, () => ask(app)))
      t.equal(sms.messages.length, 1)
      t.equal(all.filter(({ status }) => status === 202).length, 1)
      t.ok(all.every(({ status }) => [202, 409, 429].includes(status)))
    })
  })
}

t.test('a code is sent to one recipient, and to any number that may be mobile', async t => {
  const app = await (await places.memory(t)).start()
  // A country whose mobile numbers look like landlines; a mobile number.
  for (const phone of ['+1 212 555 0100', '+44 7911 123456'])
    t.equal((await ask(app, { phone })).status, 202, phone)
  const mailed = await askMail(app, ' Jane@example.com ')
  t.equal(mailed.body.recipient, 'J***@example.com')
  t.equal(app.outbox?.messages[0]?.to, 'Jane@example.com')
  const both = { phone: PHONE, email: 'jane@example.com', purpose: 'register' }
  t.match(await post(app, '/v1/captcha', both), { status: 422, body: { code: 'RECIPIENT_MISSING' } })
})

t.test('an error about the recipient points to its place in the request', async t => {
  const app = await (await places.memory(t)).start()
  const purpose = 'register'
  const template = 'password-changed'
  for (const [url, body, pointer] of [
    ['/v1/captcha', { phone: '123', purpose }, '#/phone'],
    ['/v1/captcha', { email: 'jane', purpose }, '#/email'],
    ['/v1/sms', { phone: '+86 10 1234 5678', template }, '#/phone'],
    ['/v1/mail', { to: 'jane', template }, '#/to']
  ] as const) {
    const refused = { status: 422, body: { errors: [{ pointer, code: 'UNSENDABLE' }] } }
    t.match(await post(app, url, body), refused, `${url} ${pointer}`)
  }
})

t.test('every endpoint that sends answers a repetition as the first time, and sends once', async t => {
  const place = await places.memory(t)
  const app = await place.start()
  const { id } = (await ask(app, { phone: '13900139000' })).body
  place.advance(60_000)
  const shipped = { template: 'order-shipped', params: { order: 'A-17' } }
  for (const [url, body, mistake] of [
    ['/v1/captcha', { phone: PHONE, purpose: 'register' }, { purpose: 'none' }],
    [`/v1/captcha/${id}/resend`, {}, { locale: '!' }],
    ['/v1/sms', { phone: PHONE, ...shipped }, { template: 'none' }],
    ['/v1/mail', { to: 'jane@example.com', ...shipped }, { params: {} }]
  ] as const) {
    const send = (wrong = {}) =>
      post(app, url, { ...body, ...wrong }, { headers: { 'idempotency-key': 'a-key' } })
    t.equal((await send(mistake)).status, 422, 'a mistake may be corrected under the same key')
    const first = await send()
    const sent = app.outbox?.messages.length
    t.equal(first.status, 202, url)
    t.match(await send(), { ...first, headers: { 'idempotency-replayed': 'true' } })
    t.equal(app.outbox?.messages.length, sent)
  }
})

t.test('the outbox shows the newest message first, and each is printed as a line', async t => {
  const lines: string[] = []
  const app = await (await places.memory(t)).start({}, { print: line => lines.push(line) })
  await ask(app)
  await post(app, '/v1/mail', { to: 'a@example.com', template: 'password-changed' })
  const { messages } = (await app.inject('/v1/dev/outbox')).json()
  t.match(messages, [
    { channel: 'mail', to: 'a@example.com', subject: 'Your password was changed' },
    { channel: 'sms', to: E164 }
  ])
  t.match(lines[0], new RegExp(`^sms to \\+8613800138000: ${lastCode(app, E164)} is your code`))
})

t.test('with DEV_OUTBOX=off there is no outbox, and a send is 503', async t => {
  const app = await (await places.memory(t)).start({ DEV_OUTBOX: 'off' })
  t.equal((await app.inject('/v1/dev/outbox')).statusCode, 404)
  t.equal((await ask(app)).status, 503)
})

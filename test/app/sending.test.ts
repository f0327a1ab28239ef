import t from 'tap'
import { ask, E164, verify } from './captcha.js'
import { type App, lastCode, places, post } from './helper.js'
import { provider } from './provider.js'

/** The ids that are made from here on, answered or not. */
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
      await t.test(`${outcome}: costs the recipient nothing, and its code is ended`, async t => {
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

    await t.test('hangs: not refunded, hears of it, and a code that arrives works', async t => {
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
      t.equal(sms.messages.length, 1, 'not repeated')
    })

    await t.test('unknown: not refunded', async t => {
      const { app, sms } = await start()
      sms.fail('unknown')
      t.equal((await ask(app)).status, 504)
      t.equal((await ask(app)).status, 429)
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

    await t.test('50 at once make one message', async t => {
      const { app, sms } = await start()
      const all = await Promise.all(Array.from({ length: 50 }, () => ask(app)))
      t.equal(sms.messages.length, 1)
      t.equal(all.filter(({ status }) => status === 202).length, 1)
      t.ok(all.every(({ status }) => [202, 409, 429].includes(status)))
    })
  })
}

t.test('the outbox shows the newest first, and each as a line', async t => {
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

t.test('no outbox when it is switched off', async t => {
  const app = await (await places.memory(t)).start({ DEV_OUTBOX: 'off' })
  t.equal((await app.inject('/v1/dev/outbox')).statusCode, 404)
  t.equal((await ask(app)).status, 503)
})

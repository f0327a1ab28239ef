import t from 'tap'
import { type App, places, post } from './helper.js'
import { startMail } from './smtp.js'

const send = (app: App, to = 'jane.doe@example.com') =>
  post(app, '/v1/mail', { to, template: 'welcome', params: { name: 'Jane' } })

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('one address gets 1 mail in 60 s, 5 an hour, 10 a day', async t => {
      const place = await open(t)
      const app = await place.start()
      const sentAt: number[] = []
      for (let minute = 0; minute < 130; minute++) {
        if ((await send(app)).status === 202) sentAt.push(minute)
        place.advance(60_000)
      }
      t.same(sentAt, [0, 1, 2, 3, 4, 60, 61, 62, 63, 64])
      place.advance(1_440 * 60_000 - 130 * 60_000 - 1)
      t.equal((await send(app)).status, 429)
      place.advance(1)
      t.equal((await send(app)).status, 202)
    })

    await t.test('spellings of one address count as one', async t => {
      const app = await (await open(t)).start()
      t.equal((await send(app, 'jane.doe@gmail.com')).status, 202)
      t.equal((await send(app, 'JaneDoe+news@GoogleMail.com')).status, 429)
      t.equal((await send(app, 'jane-doe@gmail.com')).status, 202)
    })

    await t.test('by SMTP, accepted mails and those in doubt count, refused ones do not', async t => {
      const mailbox = await startMail(t)
      const place = await open(t)
      const smtp = { SMTP_URL: mailbox.url, MAIL_FROM: 'shop@example.com' }
      const app = await place.start(smtp)

      t.equal((await send(app, ' Jane.Doe@example.com ')).status, 202)
      t.same(mailbox.received[0]?.to, ['Jane.Doe@example.com'])
      t.match(mailbox.received[0]?.raw, /^Subject: Welcome, Jane\r$/m)
      t.equal((await send(app)).status, 429)

      for (const [mode, status, code] of [
        ['refuse', 422, 'RECIPIENT_REFUSED'],
        ['defer', 502, 'SEND_FAILED']
      ] as const) {
        mailbox.mode = mode
        t.match(await send(app, `${mode}@example.com`), { status, body: { code } }, mode)
        mailbox.mode = 'accept'
        t.equal((await send(app, `${mode}@example.com`)).status, 202, `${mode}: the send was given back`)
      }
      const keeps = async (by: typeof app, mode: 'hang' | 'break') => {
        const before = mailbox.received.length
        mailbox.mode = mode
        const answer = await send(by, `${mode}@example.com`)
        mailbox.mode = 'accept'
        if (mailbox.received.length === before) return false
        t.match(answer, { status: 504, body: { code: 'SEND_UNKNOWN' } }, mode)
        t.equal((await send(by, `${mode}@example.com`)).status, 429, `${mode}: the send was kept`)
        return true
      }
      t.ok(await keeps(app, 'break'))
      let kept = false
      // On a machine so slow that the time is over before the mail has arrived, once more with a longer one.
      for (const SEND_TIMEOUT of ['2000', '10000', '25000'])
        kept ||= await keeps(await place.start({ ...smtp, SEND_TIMEOUT }), 'hang')
      t.ok(kept)
      const { value } = (await app.metrics.registry
        .getSingleMetric('sends_total')
        ?.get()
        .then(metric => ({
          value: metric.values.map(({ labels, value }) => [labels.outcome, value])
        }))) ?? { value: [] }
      t.same(value, [
        ['sent', 3],
        ['refused', 1],
        ['failed', 1],
        ['unknown', 1]
      ])
    })

    await t.test('without a mail server a send is 502, and is given back', async t => {
      const place = await open(t)
      const app = await place.start({ SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'shop@example.com' })
      t.equal((await send(app)).status, 502)
      t.equal((await send(app)).status, 502, 'the failed send has not counted')
    })
  })
}

t.test('a mail goes to one valid address', async t => {
  const app = await (await places.memory(t)).start()
  for (const to of [
    'a@example.com, b@example.com',
    'A <a@example.com>',
    'a@example.com\r\nBcc: b@example.com',
    'a@b'
  ]) {
    t.equal((await send(app, to)).status, 422, to)
  }
  t.same(app.outbox?.messages, [])
})

t.test('a mail goes to the domain without its final dot, which SMTP does not know', async t => {
  const mailbox = await startMail(t)
  const app = await (await places.memory(t)).start({ SMTP_URL: mailbox.url, MAIL_FROM: 'shop@example.com' })
  for (const to of ['a@example.com.', ' b@example.com。 ', 'c@example.com']) await send(app, to)
  t.same(
    mailbox.received.flatMap(({ to }) => to),
    ['a@example.com', 'b@example.com', 'c@example.com']
  )
})

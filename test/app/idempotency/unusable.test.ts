import t from 'tap'
import { ask, resend } from '../captcha.js'
import { places, post } from '../helper.js'

const params = { order: 'A-17' }
const template = 'order-shipped'

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a request that cannot be sent leaves its key free for the corrected one', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app, { phone: '13900139000' })).body
      place.advance(60_000)
      for (const [url, wrong, right] of [
        ['/v1/captcha', { phone: '123', purpose: 'register' }, { phone: '13700137000', purpose: 'register' }],
        [`/v1/captcha/${id}/resend`, { locale: '!' }, { locale: 'en' }],
        [
          '/v1/sms',
          { phone: '+86 10 1234 5678', template, params },
          { phone: '13700137000', template, params }
        ],
        ['/v1/mail', { to: 'jane', template, params }, { to: 'jane@example.com', template, params }]
      ] as const) {
        const send = (body: object) => post(app, url, body, { headers: { 'idempotency-key': 'a-key' } })
        t.equal((await send(wrong)).status, 422, url)
        const sent = await send(right)
        t.equal(sent.status, 202, url)
        t.notOk(sent.headers['idempotency-replayed'])
        const again = await send(wrong)
        t.match(again, { status: 422 })
        t.not(again.body.code, 'IDEMPOTENCY_KEY_REUSED', 'a body that cannot be sent is refused as such')
      }
    })

    await t.test('a resend is repeated for as long as its code is known', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app)).body
      place.advance(60_000)
      const again = () => resend(app, id, { headers: { 'idempotency-key': 'a-key' } })
      t.equal((await again()).status, 202)
      place.advance(30 * 60_000 - 1)
      t.match(await again(), { status: 202, headers: { 'idempotency-replayed': 'true' } })
      place.advance(2)
      t.match(await again(), { status: 404, body: { code: 'CAPTCHA_UNKNOWN' } })
    })
  })
}

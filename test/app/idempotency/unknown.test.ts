import t from 'tap'
import { places, post } from '../helper.js'
import { provider } from '../provider.js'

const message = { phone: '13800138000', template: 'order-shipped', params: { order: 'A-17' } }

for (const [name, open] of Object.entries(places)) {
  t.test(`${name}: a repetition after an unknown outcome sends nothing again`, async t => {
    const sms = provider()
    const app = await (await open(t)).start({ SEND_TIMEOUT: '300' }, { senders: { sms } })
    sms.does(
      signal => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    )
    const send = (key: string) => post(app, '/v1/sms', message, { headers: { 'idempotency-key': key } })
    const first = await send('order-A-17')
    t.match(first, { status: 504, body: { code: 'SEND_UNKNOWN' } })
    const again = await send('order-A-17')
    t.match(again, { status: 504, body: first.body, headers: { 'idempotency-replayed': 'true' } })
    t.equal(sms.messages.length, 1)
    sms.work()
    t.equal((await send('a-new-key')).status, 202)
  })

  t.test(`${name}: a key whose request is never heard of again is free after 38 seconds`, async t => {
    const sms = provider()
    const place = await open(t)
    const app = await place.start({ STORE_TIMEOUT: '1000' }, { senders: { sms } })
    const { held, letGo } = sms.hold()
    const send = () => post(app, '/v1/sms', message, { headers: { 'idempotency-key': 'order-A-17' } })
    const first = send()
    await held
    place.advance(38_000 - 1)
    t.match(await send(), { status: 409, body: { code: 'IDEMPOTENCY_KEY_IN_USE' } })
    sms.work()
    place.advance(1)
    const again = await send()
    t.match(again, { status: 202, headers: { 'idempotency-replayed': undefined } })
    letGo()
    t.equal((await first).status, 202)
    t.match(await send(), { status: 202, body: again.body, headers: { 'idempotency-replayed': 'true' } })
    t.equal(sms.messages.length, 2)
  })
}

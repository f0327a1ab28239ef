import t from 'tap'
import { places, post } from '../helper.js'
import { provider } from '../provider.js'

const message = { phone: '13800138000', template: 'order-shipped', params: { order: 'A-17' } }

for (const [name, open] of Object.entries(places)) {
  t.test(`${name}: a provider that takes a message and never says so has it once`, async t => {
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
}

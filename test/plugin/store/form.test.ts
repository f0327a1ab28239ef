import t from 'tap'
import { limitPlugin, type Rule } from '../../../plugin/index.js'
import { appOf } from '../../helper/face.js'
import { startRedis } from '../../helper/redis.js'

// During an update, processes of two released versions run side by side. So values of another form need keys of another
// name, and receipts of another form need another version.
const JANES = 'sl:{I794FEg4aKR69CfMfJv8tE}'
const BOBS = 'sl:{9VLRvhJSa_FpSs3sNPfOxU}'
const WRITTEN = {
  'sl:secret': '417936332d515f57695a43425837415a777452784d50',
  [`${BOBS}:mobile`]: '11b03d48d6a011b052c2948042',
  [`${BOBS}:mobile:day`]: '11b24043400000000000000111b03d48d6a011b052c2948042',
  [`${JANES}:in-flight:lock`]: '11b03d7b3140',
  [`${JANES}:mobile`]: '11b03d4be3e011b03d475000',
  [`${JANES}:mobile:day`]: '11b24043400000000000000211b03d475002000000000001',
  [`${JANES}:mobile:day:refunds`]: '11b03d47500040',
  'sl:{aFw_xUdPr8kFa8Ec0wyeSn}:recipients:distinct':
    '11b03d4be3e023bf7814483811b03d48d6a0f552d1be125200000000000000000000000011b03d47500023bf78144838'
}
/** The receipt of Jane's last send. */
const RECEIPT =
  'Av9C1AuCvLLt6hQGX75iO7LjHf96m7B4l0kZYpBFcl6pF0KVwzf8uzyryRNAJuKux54IpfEXRMovv9L35_rJpyfD4ll6IfsfBHob' +
  'NlgBMpsnjwiET5Lhaup5F58k4e6xvxGX5mJt0ha-JV8ec2Kqxvs6X2ZX62iVZ6oDO2MmqfAgqht-AYgBP9gILAwWvltlY7lbsTvt' +
  'qmp5t-TFzjnyyBOQkGcop3s6EgrQ0T4H19f3EfnGhZ-JMZyiPVHUNoEoua3SaDeFL9Qfwle4y1_NPtE6m4P8Kcsd5L_EroXOWcUt' +
  '1rsPGSFzl3uycWJ8ZnMmeWqxpfXNmVxArNaIVcYo_xJObtg'

const IP = '192.0.2.1'
const [JANE, BOB] = ['13800138000', '13800138001']
const rules: Rule[] = [
  {
    name: 'mobile',
    key: { phone: 'body.phone' },
    limits: [
      { max: 3, window: '1h' },
      { max: 5, per: 'day' }
    ]
  },
  { name: 'recipients', key: 'ip', distinct: { phone: 'body.phone' }, limits: [{ max: 2, window: '1h' }] },
  { name: 'in-flight', key: { phone: 'body.phone' }, lock: '30s' }
]

const { client, clock } = await startRedis(t, { clock: true })
const app = appOf(t)
await app.register(limitPlugin, { client, secret: 'the secret of this test', rules })
await app.ready()

async function send(phone: string) {
  const decision = await app.limit.reserve({ mobile: phone, recipients: [IP, phone] })
  clock.advance(1_000)
  return decision
}

t.test('values in Redis have the form and the key that other versions know', async t => {
  await send(JANE)
  await send(BOB)
  await (await send(JANE)).refund()
  await send(JANE)
  await app.limit.reserve({ 'in-flight': JANE })
  await app.limit.block({ mobile: BOB }, '1h')
  const written: Record<string, string | undefined> = {}
  for (const key of await client.keys('*')) {
    const value = await client.getBuffer(key)
    // After its end a lock has a token, which is another each time.
    written[key] = (key.endsWith(':lock') ? value?.subarray(0, 6) : value)?.toString('hex')
  }
  t.strictSame(written, WRITTEN)
})

t.test('a receipt that another version has made is accepted', async t => {
  const left = async () =>
    (await app.limit.peek({ mobile: JANE })).rules[0]?.limits.map(each => each.remaining)
  t.strictSame(await left(), [1, 3])
  await app.limit.refund(RECEIPT)
  t.strictSame(await left(), [2, 4])
})

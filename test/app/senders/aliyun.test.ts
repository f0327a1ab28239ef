import dns from 'node:dns'
import t from 'tap'
import { aliyun } from '../../../app/senders/aliyun.js'
import { startMail } from '../smtp.js'
import {
  clock,
  config,
  type Doing,
  HOURS_13,
  message,
  sent,
  startProvider,
  startSilence,
  tryAnswers
} from './servers.js'

const env = {
  ALIYUN_ACCESS_KEY_ID: 'id',
  ALIYUN_ACCESS_KEY_SECRET: 'secret',
  ALIYUN_SIGN_NAME: '店铺',
  ALIYUN_TEMPLATES: 'captcha.zh=SMS_154950909:code,order-shipped.en=SMS_1'
}
const open = (url: string, more = {}) => aliyun.open(config({ ...env, ALIYUN_ENDPOINT: url, ...more }), clock)
const ok = { body: { Code: 'OK', Message: 'OK', BizId: '9006^0', RequestId: 'r' } }

t.test('what is asked', async t => {
  const provider = await startProvider(t, ok)
  const sender = await open(provider.url)
  t.same(await sent(t, sender), { outcome: 'sent', sender: 'aliyun', reference: '9006^0' })
  const [asked] = provider.asked
  t.match(asked?.headers, {
    'x-acs-action': 'SendSms',
    'x-acs-version': '2017-05-25',
    authorization: /^ACS3-HMAC-SHA256 Credential=id,SignedHeaders=.*,Signature=[0-9a-f]{64}$/
  })
  t.same(Object.fromEntries(asked?.query ?? []), {
    PhoneNumbers: '13800138000',
    SignName: '店铺',
    TemplateCode: 'SMS_154950909',
    TemplateParam: '{"code":"042137"}'
  })
  await sent(t, sender, message({ to: '+85261234567', template: 'order-shipped', locale: 'en' }))
  t.equal(provider.asked[1]?.query.get('PhoneNumbers'), '85261234567')
  t.equal(provider.asked[1]?.query.get('TemplateParam'), '{"code":"042137","minutes":"5"}')
})

t.test('a number of North America never goes to whoever has its digits in China', async t => {
  const provider = await startProvider(t, ok)
  const sender = await open(provider.url)
  for (const to of ['+13105550123', '+15062345678', '+19995550123'])
    t.match(await sent(t, sender, message({ to })), {
      outcome: 'failed',
      code: 'NUMBER_AMBIGUOUS',
      ofMessage: true
    })
  t.same(provider.asked, [])
  await sent(t, sender, message({ to: '+12125550123' }))
  t.equal(provider.asked[0]?.query.get('PhoneNumbers'), '12125550123')
})

const says = (Code: string, Message = 'about 13800138000'): Doing => ({ body: { Code, Message } })
const cases: [does: Doing, outcome: object][] = [
  [
    says('isv.BUSINESS_LIMIT_CONTROL', '触发分钟级流控Permits:1'),
    { outcome: 'limited', code: 'isv.BUSINESS_LIMIT_CONTROL', retryAfterMs: 60_000 }
  ],
  [
    says('isv.BUSINESS_LIMIT_CONTROL', '触发小时级流控Permits:5'),
    { outcome: 'limited', retryAfterMs: 3_600_000 }
  ],
  [
    says('isv.BUSINESS_LIMIT_CONTROL', '触发天级流控Permits:10'),
    { outcome: 'limited', retryAfterMs: HOURS_13 }
  ],
  [says('isv.BUSINESS_LIMIT_CONTROL', '?'), { outcome: 'limited', retryAfterMs: undefined }],
  [says('isv.DAY_LIMIT_CONTROL'), { outcome: 'limited', retryAfterMs: HOURS_13 }],
  [says('isv.MONTH_LIMIT_CONTROL'), { outcome: 'limited', retryAfterMs: undefined }],
  [says('isv.MINUTE_LIMIT_CONTROL'), { outcome: 'limited', retryAfterMs: 60_000 }],
  [says('VALVE:M_MC'), { outcome: 'limited', retryAfterMs: 60_000 }],
  [says('VALVE:H_MC'), { outcome: 'limited', retryAfterMs: 3_600_000 }],
  [says('VALVE:D_MC'), { outcome: 'limited', retryAfterMs: HOURS_13 }],
  [
    { status: 400, body: { Code: 'Throttling.User' }, headers: { 'x-acs-retry-after': '2000' } },
    { outcome: 'limited', retryAfterMs: 2_000 }
  ],
  [says('isv.MOBILE_NUMBER_ILLEGAL'), { outcome: 'refused', code: 'isv.MOBILE_NUMBER_ILLEGAL' }],
  [says('isv.PHONE_NUMBER_ILLEGAL'), { outcome: 'refused' }],
  [says('isv.BLACK_KEY_CONTROL_LIMIT'), { outcome: 'refused' }],
  [says('isv.CUSTOMER_REFUSED'), { outcome: 'refused' }],
  [says('isv.AMOUNT_NOT_ENOUGH'), { outcome: 'failed', ofMessage: false }],
  [says('isv.COUNTRY_RESTRICTED'), { outcome: 'failed', ofMessage: true }],
  [says('isv.DOMESTIC_NUMBER_NOT_SUPPORTED'), { outcome: 'failed', ofMessage: true }],
  [says('isv.NOT_SUPPORTED_COUNTRY'), { outcome: 'failed', ofMessage: true }],
  [says('isp.RAM_PERMISSION_DENY'), { outcome: 'failed' }],
  [{ status: 400, body: { Code: 'SignatureDoesNotMatch' } }, { outcome: 'failed' }],
  [
    { status: 404, body: {} },
    { outcome: 'failed', code: 'HTTP_404' }
  ],
  [{ status: 503, body: { Code: 'ServiceUnavailable' } }, { outcome: 'failed' }],
  [
    { status: 500, body: { Code: 'InternalError' } },
    { outcome: 'unknown', code: 'InternalError' }
  ],
  [{ status: 500, body: { Code: 'Other' } }, { outcome: 'unknown' }],
  [
    { status: 500, body: {} },
    { outcome: 'unknown', code: 'HTTP_500' }
  ],
  ...['isp.SYSTEM_ERROR', 'isp.UNKNOWN', 'isp.GATEWAY_ERROR', 'InternalError', 'SystemError'].map(
    (code): [Doing, object] => [says(code), { outcome: 'unknown' }]
  ),
  [{ status: 502, body: '<html>' }, { outcome: 'unknown' }],
  [{ body: '<html>' }, { outcome: 'unknown' }],
  [{ body: {} }, { outcome: 'unknown' }],
  ...['', 200, true].map((Code): [Doing, object] => [
    { body: { Code } },
    { outcome: 'unknown', code: 'HTTP_200' }
  ]),
  [
    { status: 400, body: { Code: 'OK' } },
    { outcome: 'unknown', code: 'OK' }
  ],
  ['half', { outcome: 'unknown' }],
  ['break', { outcome: 'unknown', code: 'ECONNRESET' }]
]
t.test('what is answered', t => tryAnswers(t, open, cases))

t.test('a provider that hangs, and one that is not there', async t => {
  const provider = await startProvider(t, 'hang')
  t.match(await sent(t, await open(provider.url, { SEND_TIMEOUT: '1500' })), { outcome: 'unknown' })
  t.match(await sent(t, await open('http://127.0.0.1:1')), { outcome: 'failed', code: 'ECONNREFUSED' })
  t.match(await sent(t, await open('http://no-such.invalid')), {
    outcome: 'failed',
    code: /ENOTFOUND|EAI_AGAIN/
  })
  const { url } = await startMail(t, 'implicit')
  const untrusted = await open(url.replace('smtps:', 'https:'))
  t.match(await sent(t, untrusted), { outcome: 'failed' }, 'a certificate of nobody, so nothing was sent')
  const hasty = await open(`https://${await startSilence(t, socket => socket.end())}`)
  t.match(await sent(t, hasty), { outcome: 'failed', code: 'ECONNRESET' }, 'no TLS, so nothing was sent')
})

t.test('a process that stood still while the provider had the message', async t => {
  const provider = await startProvider(t, 'hang')
  const { lookup } = dns
  const slow = (...args: Parameters<typeof lookup>) => setTimeout(lookup, 200, ...args)
  t.teardown(() => Object.assign(dns, { lookup }))
  Object.assign(dns, { lookup: slow })
  const asked = provider.next()
  const sender = await open(provider.url.replace('127.0.0.1', 'localhost'), { SEND_TIMEOUT: '1000' })
  const sending = sent(t, sender)
  await asked
  const end = performance.now() + 700
  while (performance.now() < end);
  t.match(await sending, { outcome: 'unknown', code: 'ETIMEDOUT' })
})

t.test('a template without a code', async t => {
  const provider = await startProvider(t, ok)
  const sender = await open(provider.url)
  t.match(await sent(t, sender, message({ locale: 'en' })), {
    outcome: 'failed',
    code: 'TEMPLATE_UNKNOWN',
    ofMessage: true
  })
  t.match(await sent(t, sender, message({ params: {} })), {
    outcome: 'failed',
    code: 'PARAMETER_MISSING',
    ofMessage: true
  })
  const inherited = await open(provider.url, { ALIYUN_TEMPLATES: 'captcha.zh=SMS_1:constructor' })
  t.match(await sent(t, inherited), { code: 'PARAMETER_MISSING' })
  t.same(provider.asked, [])
})

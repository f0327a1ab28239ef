import t from 'tap'
import { signed } from '../../../app/senders/acs3.js'
import { aliyun } from '../../../app/senders/aliyun.js'
import { startMail } from '../smtp.js'
import {
  clock,
  config,
  type Doing,
  HOURS_13,
  message,
  START_MS,
  sent,
  startEndless,
  startProvider,
  startSilence,
  startUpgrade,
  TOO_LONG,
  tryAbort,
  tryAnswers,
  tryNobody
} from './servers.js'

const env = {
  ALIYUN_ACCESS_KEY_ID: 'id',
  ALIYUN_ACCESS_KEY_SECRET: 'secret',
  ALIYUN_SIGN_NAME: "店铺 (it's *new*)",
  ALIYUN_TEMPLATES: 'captcha.zh=SMS_154950909:code,order-shipped.en=SMS_1'
}
const open = (url: string, more = {}) => aliyun.open(config({ ...env, ALIYUN_ENDPOINT: url, ...more }), clock)
const ok = { body: { Code: 'OK', Message: 'OK', BizId: '9006^0', RequestId: 'r' } }

t.test('the request names number, template and parameters, and is signed', async t => {
  const provider = await startProvider(t, ok)
  const sender = await open(provider.url)
  t.same(await sent(t, sender), { outcome: 'sent', sender: 'aliyun', reference: '9006^0' })
  const [asked] = provider.asked
  const headers = asked?.headers ?? {}
  t.match(headers, { 'x-acs-action': 'SendSms', 'x-acs-version': '2017-05-25' })
  const query = {
    PhoneNumbers: '13800138000',
    SignName: "店铺 (it's *new*)",
    TemplateCode: 'SMS_154950909',
    TemplateParam: '{"code":"042137"}'
  }
  t.same(Object.fromEntries(asked?.query ?? []), query)
  const { host = '', 'x-acs-signature-nonce': nonce } = headers
  const call = { host, action: 'SendSms', version: '2017-05-25', query, at: START_MS, nonce: `${nonce}` }
  const again = signed(call, { id: 'id', secret: 'secret' })
  t.match(headers, again.headers, 'the signature is that of the request')
  t.equal(asked?.search, `?${again.search}`)
  t.match(asked?.search, /SignName=%E5%BA%97%E9%93%BA%20%28it%27s%20%2Anew%2A%29&/)
  await sent(t, sender, message({ to: '+85261234567', template: 'order-shipped', locale: 'en' }))
  t.not(provider.asked[1]?.headers['x-acs-signature-nonce'], nonce)
  t.equal(provider.asked[1]?.query.get('PhoneNumbers'), '85261234567')
  t.equal(provider.asked[1]?.query.get('TemplateParam'), '{"code":"042137","minutes":"5"}')
})

// The example of help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature
t.test('a call is signed as the documentation of Aliyun says', async t => {
  const { search, headers } = signed(
    {
      host: 'ecs.cn-shanghai.aliyuncs.com',
      action: 'RunInstances',
      version: '2014-05-26',
      query: {
        RegionId: 'cn-shanghai',
        ImageId: 'win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd'
      },
      at: Date.UTC(2023, 9, 26, 10, 22, 32, 999),
      nonce: '3156853299f313e23d1673dc12e1703d'
    },
    { id: 'YourAccessKeyId', secret: 'YourAccessKeySecret' }
  )
  t.equal(headers['x-acs-date'], '2023-10-26T10:22:32Z')
  t.match(
    headers.authorization,
    /Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0$/
  )
  t.equal(search, 'ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai')
})

t.test('a number of North America is not sent to the number in China with the same digits', async t => {
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
  [
    { status: 400, body: { Code: 'Throttling.User' }, headers: { 'x-acs-retry-after': 'soon' } },
    { outcome: 'limited', retryAfterMs: undefined }
  ],
  [says('isv.MOBILE_NUMBER_ILLEGAL'), { outcome: 'refused', code: 'isv.MOBILE_NUMBER_ILLEGAL' }],
  [says('isv.PHONE_NUMBER_ILLEGAL'), { outcome: 'refused' }],
  [says('isv.CUSTOMER_REFUSED'), { outcome: 'refused' }],
  [says('isv.AMOUNT_NOT_ENOUGH'), { outcome: 'failed', ofMessage: false }],
  [says('isv.COUNTRY_RESTRICTED'), { outcome: 'failed', ofMessage: true }],
  [says('isv.DOMESTIC_NUMBER_NOT_SUPPORTED'), { outcome: 'failed', ofMessage: true }],
  [says('isv.NOT_SUPPORTED_COUNTRY'), { outcome: 'failed', ofMessage: true }],
  ...['BLACK_KEY_CONTROL_LIMIT', 'PARAM_LENGTH_LIMIT', 'PARAM_NOT_SUPPORT_URL', 'SMS_CONTENT_ILLEGAL']
    .concat('TEMPLATE_PARAMS_ILLEGAL')
    .map((of): [Doing, object] => [says(`isv.${of}`), { outcome: 'failed', ofMessage: true }]),
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
  ...[
    'SignatureNonceUsed',
    'isp.SYSTEM_ERROR',
    'isp.UNKNOWN',
    'isp.GATEWAY_ERROR',
    'InternalError',
    'SystemError'
  ].map((code): [Doing, object] => [says(code), { outcome: 'unknown' }]),
  [{ status: 502, body: '<html>' }, { outcome: 'unknown' }],
  [
    { status: 302, body: '<html>' },
    { outcome: 'unknown', code: 'HTTP_302' }
  ],
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
  ...[null, 1, [], 'OK'].map((body): [Doing, object] => [
    { body: JSON.stringify(body) },
    { outcome: 'unknown', code: 'HTTP_200' }
  ]),
  [
    { status: 302, body: { Code: 'OK' }, headers: { location: '/' } },
    { outcome: 'unknown', code: 'OK' }
  ],
  [{ body: { ...ok.body, Message: TOO_LONG } }, { outcome: 'unknown', code: 'NO_ANSWER' }],
  ['half', { outcome: 'unknown', code: 'NO_ANSWER' }],
  ['break', { outcome: 'unknown', code: 'NO_ANSWER' }]
]
t.test('each answer of the provider has its outcome', t => tryAnswers(t, open, cases))

t.test('the outcome is unknown if the provider hangs, failed if it is not there', async t => {
  await tryAbort(t, open)
  await tryNobody(t, open)
  t.match(await sent(t, await open('http://no-such.invalid')), {
    outcome: 'failed',
    code: /ENOTFOUND|EAI_AGAIN/
  })
  const { url } = await startMail(t, 'implicit')
  const untrusted = await open(url.replace('smtps:', 'https:'))
  t.match(
    await sent(t, untrusted),
    { outcome: 'failed' },
    'nobody has signed the certificate, so nothing was sent'
  )
  const hasty = await open(`https://${await startSilence(t, socket => socket.end())}`)
  t.match(await sent(t, hasty), { outcome: 'failed', code: 'ECONNRESET' }, 'no TLS, so nothing was sent')
})

t.test('a message is sent although the answer has no reference, or one that is none', async t => {
  const provider = await startProvider(t, ok)
  const sender = await open(provider.url)
  for (const BizId of [undefined, '', 7]) {
    provider.does = { body: { Code: 'OK', BizId } }
    t.same(await sent(t, sender), { outcome: 'sent', sender: 'aliyun' })
  }
})

t.test('an upgrade of the connection makes the outcome unknown', { timeout: 30_000 }, async t => {
  const { url, closed } = await startUpgrade(t)
  t.match(await sent(t, await open(url)), { outcome: 'unknown', code: 'HTTP_101' })
  await closed
})

t.test('an answer that never ends is given up', { timeout: 30_000 }, async t => {
  const { url, closed } = await startEndless(t, 200, 20_000)
  t.match(await sent(t, await open(url)), { outcome: 'unknown', code: 'NO_ANSWER' })
  await closed
})

// For longer than connecting and sending may take: what counts is whether a connection stood.
t.test('a process that stood still while the provider had the message says unknown', async t => {
  const provider = await startProvider(t, 'hang')
  const stop = new AbortController()
  const asked = provider.next()
  const sending = sent(t, await open(provider.url, { SEND_TIMEOUT: '3000' }), message(), stop.signal)
  await asked
  const end = performance.now() + 3_100
  while (performance.now() < end);
  stop.abort()
  t.match(await sending, { outcome: 'unknown' })
})

t.test('each message is sent over a connection of its own', async t => {
  const provider = await startProvider(t, ok)
  const sender = await open(provider.url)
  for (let i = 0; i < 3; i++) await sent(t, sender)
  t.equal(provider.connections.size, 3)
})

t.test('a template without a code, or lacking a parameter of it, is not sent', async t => {
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

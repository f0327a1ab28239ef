import t from 'tap'
import { tencent } from '../../../app/senders/tencent.js'
import {
  clock,
  config,
  type Doing,
  HOURS_13,
  message,
  sent,
  startEndless,
  startProvider,
  TOO_LONG,
  tryAbort,
  tryAnswers,
  tryNobody
} from './servers.js'

const env = {
  TENCENT_SECRET_ID: 'id',
  TENCENT_SECRET_KEY: 'key',
  TENCENT_SDK_APP_ID: '1400006666',
  TENCENT_SIGN_NAME: '店铺',
  TENCENT_TEMPLATES: 'captcha.zh=1234567:minutes:code,order-shipped.en=7'
}
const open = (url: string, more = {}) =>
  tencent.open(config({ ...env, TENCENT_ENDPOINT: url, ...more }), clock)
const status = (Code: string): Doing => ({
  body: { Response: { SendStatusSet: [{ Code, SerialNo: '5000:1', Message: 'to +8613800138000' }] } }
})
const error = (Code: string): Doing => ({
  body: { Response: { Error: { Code, Message: 'about +8613800138000' }, RequestId: 'r' } }
})

t.test('the request names number, template and parameters, and is signed', async t => {
  const provider = await startProvider(t, status('Ok'))
  const sender = await open(provider.url)
  t.same(await sent(t, sender), { outcome: 'sent', sender: 'tencent', reference: '5000:1' })
  const [asked] = provider.asked
  t.match(asked?.headers, {
    'x-tc-action': 'SendSms',
    'x-tc-version': '2021-01-11',
    'x-tc-region': 'ap-guangzhou',
    authorization: /^TC3-HMAC-SHA256 Credential=id\/.*Signature=[0-9a-f]{64}$/
  })
  t.same(JSON.parse(asked?.body ?? ''), {
    PhoneNumberSet: ['+8613800138000'],
    SmsSdkAppId: '1400006666',
    SignName: '店铺',
    TemplateId: '1234567',
    TemplateParamSet: ['5', '042137']
  })
  await sent(t, sender, message({ template: 'order-shipped', locale: 'en' }))
  t.match(JSON.parse(provider.asked[1]?.body ?? ''), { TemplateId: '7', TemplateParamSet: ['042137', '5'] })
  await sent(t, await open(provider.url, { TENCENT_REGION: 'ap-beijing' }))
  t.equal(provider.asked[2]?.headers['x-tc-region'], 'ap-beijing')
})

const cases: [does: Doing, outcome: object][] = [
  [status('LimitExceeded.PhoneNumberThirtySecondLimit'), { outcome: 'limited', retryAfterMs: 30_000 }],
  [status('LimitExceeded.PhoneNumberOneHourLimit'), { outcome: 'limited', retryAfterMs: 3_600_000 }],
  [status('LimitExceeded.PhoneNumberDailyLimit'), { outcome: 'limited', retryAfterMs: HOURS_13 }],
  [status('LimitExceeded.DeliveryFrequencyLimit'), { outcome: 'limited', retryAfterMs: undefined }],
  ...['', 0, null].flatMap((Code): [Doing, object][] => [
    [{ body: { Response: { SendStatusSet: [{ Code }] } } }, { outcome: 'unknown', code: 'NO_ANSWER' }],
    [{ body: { Response: { Error: { Code, Message: '' } } } }, { outcome: 'unknown', code: 'NO_ANSWER' }]
  ]),
  [error('RequestLimitExceeded'), { outcome: 'limited', code: 'RequestLimitExceeded' }],
  [status('FailedOperation.PhoneNumberInBlacklist'), { outcome: 'refused' }],
  [status('FailedOperation.PhoneNumberOnBlacklist'), { outcome: 'refused' }],
  [error('InvalidParameterValue.InvalidPhoneNumber'), { outcome: 'refused' }],
  [error('InvalidParameterValue.IncorrectPhoneNumber'), { outcome: 'refused' }],
  [status('FailedOperation.InsufficientBalanceInSmsPackage'), { outcome: 'failed' }],
  [
    error('AuthFailure.SignatureFailure'),
    { outcome: 'failed', code: 'AuthFailure.SignatureFailure', ofMessage: false }
  ],
  [
    status('UnsupportedOperation.ChineseMainlandTemplateToGlobalPhone'),
    { outcome: 'failed', ofMessage: true }
  ],
  [error('UnsupportedOperation.UnsuportedRegion'), { outcome: 'failed', ofMessage: true }],
  ...[
    'FailedOperation.ContainSensitiveWord',
    'InvalidParameterValue.ContentLengthLimit',
    'InvalidParameterValue.ProhibitedUseUrlInTemplateParameter',
    'InvalidParameterValue.TemplateParameterFormatError',
    'InvalidParameterValue.TemplateParameterLengthLimit'
  ].map((of): [Doing, object] => [status(of), { outcome: 'failed', ofMessage: true }]),
  ...['JsonParseFail', 'RequestTimeException', 'RestApiInterfaceNotExist', 'SigFieldMissing']
    .concat('SigVerificationFail')
    .map((mistake): [Doing, object] => [error(`InternalError.${mistake}`), { outcome: 'failed' }]),
  [error('InternalError.SendAndRecvFail'), { outcome: 'unknown' }],
  [error('InternalError'), { outcome: 'unknown' }],
  [error('13800138000'), { outcome: 'failed', code: 'UNREADABLE' }],
  [
    { status: 403, body: '<html>' },
    { outcome: 'failed', code: 'HTTP_403' }
  ],
  [
    { status: 500, body: '<html>' },
    { outcome: 'unknown', code: 'HTTP_500' }
  ],
  [{ body: '<html>' }, { outcome: 'unknown' }],
  [{ body: 'not connected: x' }, { outcome: 'unknown' }],
  [{ body: { Response: {} } }, { outcome: 'unknown' }],
  [{ body: {} }, { outcome: 'unknown' }],
  [
    { body: 'no gzip', headers: { 'content-encoding': 'gzip' } },
    { outcome: 'unknown', code: 'NO_ANSWER' }
  ],
  [
    { body: { ...(status('Ok') as { body: object }).body, more: TOO_LONG } },
    { outcome: 'unknown', code: 'NO_ANSWER' }
  ],
  ['half', { outcome: 'unknown', code: 'NO_ANSWER' }],
  ['break', { outcome: 'unknown', code: 'NO_ANSWER' }]
]
t.test('each answer of the provider has its outcome', t => tryAnswers(t, open, cases))

t.test('the outcome is unknown if the provider hangs, failed if it is not there', async t => {
  const provider = await startProvider(t, 'hang')
  t.match(await sent(t, await open(provider.url, { SEND_TIMEOUT: '3000' })), { outcome: 'unknown' })
  await tryNobody(t, open)
})

t.test('a redirect is not followed, and makes the outcome unknown', async t => {
  const provider = await startProvider(t, 'break')
  const sender = await open(provider.url)
  for (const redirect of [302, 303, 307]) {
    for (const location of ['/', 'http://127.0.0.1:1/']) {
      provider.does = { status: redirect, body: '', headers: { location } }
      const before = provider.asked.length
      t.match(await sent(t, sender), { outcome: 'unknown', code: 'NO_ANSWER' }, `${redirect} ${location}`)
      t.equal(provider.asked.length, before + 1)
    }
  }
})

t.test('an answer that is an error and never ends is given up', { timeout: 30_000 }, async t => {
  const { url, closed } = await startEndless(t, 502, 1)
  t.match(await sent(t, await open(url)), { outcome: 'unknown', code: 'HTTP_502' })
  await closed
})

t.test('a stream of events is no answer, and is closed', { timeout: 30_000 }, async t => {
  const headers = { 'content-type': 'text/event-stream' }
  const { url, closed } = await startEndless(t, 200, 1, headers)
  t.match(await sent(t, await open(url)), { outcome: 'unknown', code: 'NO_ANSWER' })
  await closed
})

// Long before the time-out of the sender itself.
t.test('an abort makes the outcome unknown', { timeout: 30_000 }, t => tryAbort(t, open))

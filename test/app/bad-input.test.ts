import type { InjectOptions } from 'fastify'
import t from 'tap'
import { KEY, places, post } from './helper.js'

const phone = '13800138000'
const to = 'jane@example.com'
const template = 'order-shipped'
const params = { order: 'A-1' }
const id = 'A'.repeat(22)
const captcha = { phone, purpose: 'register' }
const deep = (levels: number): object => (levels === 0 ? {} : { a: deep(levels - 1) })

const bodies: Record<string, [status: number, body: unknown, code?: string][]> = {
  '/v1/captcha': [
    [422, {}],
    [422, []],
    [422, null],
    [422, 'text'],
    [422, { phone }],
    [422, { purpose: 'register' }],
    [422, { ...captcha, purpose: 'unknown' }],
    [422, { ...captcha, purpose: 'constructor' }],
    [422, { ...captcha, purpose: ['register'] }],
    [422, { ...captcha, extra: 1 }],
    [422, { ...captcha, phone: 13800138000 }],
    [422, { ...captcha, phone: [phone] }],
    [422, { ...captcha, phone: { toString: phone } }],
    [422, { ...captcha, phone: null }],
    [422, { ...captcha, phone: '' }],
    [422, { ...captcha, phone: '123' }],
    [422, { ...captcha, phone: '1380013800x' }],
    [422, { ...captcha, phone: `${phone},13800138001` }],
    [422, { ...captcha, phone: '+99912345678' }],
    [422, { ...captcha, phone: '1'.repeat(65) }, 'INVALID'],
    [422, { ...captcha, locale: `en${'-a'.repeat(50)}` }, 'INVALID'],
    [422, { ...captcha, locale: 'en-abcdefghi' }, 'INVALID'],
    [422, { ...captcha, phone: '\u202e\u0000\ud800' }],
    [422, { ...captcha, phone: '😀'.repeat(11) }],
    [413, { ...captcha, phone: '1'.repeat(20_000) }]
  ],
  '/v1/captcha/verify': [
    [422, { id }, 'INVALID'],
    [422, { id, code: 123456 }, 'INVALID'],
    [422, { id, code: '123' }, 'INVALID'],
    [422, { id, code: '12345678901' }, 'INVALID'],
    [422, { id, code: '12345x' }, 'INVALID'],
    [422, { id, code: '123456', extra: 1 }, 'INVALID'],
    [422, { id, code: '123456', purpose: 'Register' }, 'INVALID'],
    [422, { id: 'short', code: '123456' }, 'INVALID'],
    [422, { id: `${id}A`, code: '123456' }, 'INVALID'],
    [422, { id: `${id}\n`, code: '123456' }, 'INVALID'],
    [422, { id: '*'.repeat(22), code: '123456' }, 'INVALID']
  ],
  '/v1/sms': [
    [422, { phone, template: 'unknown', params }, 'TEMPLATE_UNKNOWN'],
    [422, { phone, template: 'toString', params }, 'INVALID'],
    [422, { phone, template: 'captcha', params }, 'TEMPLATE_UNKNOWN'],
    [422, { phone, template: 'welcome', params }, 'TEMPLATE_UNKNOWN'],
    [422, { phone, template: ['order-shipped'], params }, 'INVALID'],
    [422, { phone, template }, 'PARAMS_INVALID'],
    [422, { phone, template, params: {} }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { ...params, extra: 'x' } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: '' } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: 'x'.repeat(65) } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: null } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: deep(50) } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: 'a\r\nb' } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: 'a\u200b' } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: '\ud800' } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: { order: 'evil.example' } }, 'PARAMS_INVALID'],
    [422, { phone, template, params: [] }, 'INVALID'],
    [422, { phone, template, params: { ...Array(17).fill('x') } }, 'INVALID'],
    [422, { phone, template, params: { 'a b': 1 } }, 'PARAMS_INVALID'],
    [422, { phone, template, params, locale: 'e' }, 'INVALID'],
    [422, { phone, template, params, locale: null }, 'INVALID'],
    [422, { phone, template, params, subject: 'x' }, 'INVALID'],
    [422, { to, template, params }, 'INVALID'],
    [422, { phone: '123', template, params }, 'PHONE_INVALID'],
    [422, { phone: '+86 10 1234 5678', template, params }, 'PHONE_TAKES_NO_SMS'],
    [422, { phone: '+44 56 1234 5678', template, params }, 'PHONE_TAKES_NO_SMS'],
    [422, { phone: '+54 11 2345 6789', template, params }, 'PHONE_TAKES_NO_SMS'],
    [422, { phone: '+44 70 1234 5678', template, params }, 'PHONE_TAKES_NO_SMS'],
    [422, { phone: '+881 6 1234 5678', template, params }, 'COUNTRY_NOT_SERVED'],
    [422, { phone: '+870 773 123 456', template, params }, 'COUNTRY_NOT_SERVED']
  ],
  '/v1/mail': [
    [422, { to: 'jane', template, params }, 'EMAIL_INVALID'],
    [422, { to: 'jane@example.com,john@example.com', template, params }, 'EMAIL_INVALID'],
    [422, { to: `${'j'.repeat(65)}@example.com`, template, params }, 'EMAIL_INVALID'],
    [422, { to: `${'j'.repeat(309)}@example.com`, template, params }, 'INVALID'],
    [422, { to: [to], template, params }, 'INVALID'],
    [422, { to, template: 'appointment-reminder', params }, 'TEMPLATE_UNKNOWN'],
    [422, { to, template: 'captcha', params }, 'TEMPLATE_UNKNOWN'],
    [422, { to, template: 'welcome', params: { name: 'Jane\nBcc: x@example.com' } }, 'PARAMS_INVALID'],
    [422, { to, template: 'welcome', params: { name: 'you won: www.evil.example' } }, 'PARAMS_INVALID'],
    [422, { to, template: 'welcome', params: { name: '\u202eenaJ' } }, 'PARAMS_INVALID']
  ]
}

const json = { 'content-type': 'application/json', 'x-api-key': KEY }
const raw: [status: number, what: string, options: Partial<InjectOptions>][] = [
  [400, 'no JSON', { payload: '{"phone":', headers: json }],
  [
    400,
    'no UTF-8',
    {
      payload: Buffer.from(JSON.stringify({ to, template: 'welcome', params: { name: 'José' } }), 'latin1'),
      headers: json
    }
  ],
  [400, 'an empty body', { payload: '', headers: json }],
  [
    400,
    '__proto__',
    { payload: `{"phone":"${phone}","purpose":"login","__proto__":{"a":1}}`, headers: json }
  ],
  [400, 'constructor.prototype', { payload: '{"constructor":{"prototype":{"a":1}}}', headers: json }],
  [
    415,
    'a form',
    { payload: 'phone=1', headers: { ...json, 'content-type': 'application/x-www-form-urlencoded' } }
  ],
  [415, 'XML', { payload: '<a/>', headers: { ...json, 'content-type': 'text/xml' } }],
  [415, 'plain text', { payload: '{}', headers: { ...json, 'content-type': 'text/plain' } }],
  [415, 'no type', { payload: '{}', headers: { 'x-api-key': KEY } }],
  [413, 'megabytes', { payload: JSON.stringify({ phone: 'x'.repeat(4_000_000) }), headers: json }]
]

for (const [name, open] of Object.entries(places)) {
  t.test(`${name}: bad input is refused, sends nothing and costs nothing`, async t => {
    const place = await open(t)
    const app = await place.start()
    const answers = async (what: string, status: number, options: InjectOptions, code?: string) => {
      const response = await app.inject({
        method: 'POST',
        remoteAddress: '192.0.2.1',
        headers: json,
        ...options
      })
      t.equal(response.statusCode, status, what)
      t.equal(response.headers['content-type'], 'application/problem+json', what)
      const body = response.json()
      t.match(body, { type: String, title: String, status, detail: String, code: String }, what)
      if (code !== undefined) t.equal(body.code, code, what)
      // So that the limit of attempts from one address is not reached.
      place.advance(3_000)
    }
    for (const [url, cases] of Object.entries(bodies)) {
      for (const [status, body, code] of cases) {
        const payload = JSON.stringify(body)
        await answers(`${url} ${payload.slice(0, 80)}`, status, { url, payload }, code)
      }
      for (const [status, what, options] of raw) await answers(`${url} ${what}`, status, { url, ...options })
    }
    const unknown = { ...json, 'x-api-key': 'unknown-key' }
    for (const url of ['/v1/sms', '/v1/mail'])
      await answers('unknown key', 401, { url, headers: unknown, payload: '{}' }, 'API_KEY_UNKNOWN')
    t.same(app.outbox?.messages, [])

    const sent = [
      await post(app, '/v1/captcha', captcha),
      await post(app, '/v1/sms', { phone, template, params }),
      await post(app, '/v1/mail', { to, template, params })
    ]
    t.same(
      sent.map(({ status }) => status),
      [202, 202, 202]
    )
    t.match(sent[0]?.headers.ratelimit, '"ip-60s";r=4;t=60, "ip-1h";r=19;t=3600, "ip-24h";r=49;t=86400')
    // One account has sent all three.
    const left = sent.map(({ headers }) => /"account";r=(\d+)/.exec(String(headers.ratelimit))?.[1])
    t.same(left, ['999', '998', '997'])
  })
}

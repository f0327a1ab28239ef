import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import { captchaExample } from '../../app/schemas/captcha.js'
import type { Param, Template, TemplateFiles } from '../../app/templates/schema.js'
import { loadTemplates, templatesOf } from '../../app/templates/templates.js'
import { heardOn } from '../helper/channel.js'
import { filesWithPayment, operator, PAYMENT, payment } from './bound.js'
import { ask, cancel, E164, PHONE, resend, verify } from './captcha.js'
import { ADMIN_KEY, type App, inject, lastCode, places, post, reload } from './helper.js'
import { provider } from './provider.js'

const pay = (app: App, params: object = PAYMENT, more: object = {}, headers = {}) =>
  post(app, '/v1/captcha', { phone: PHONE, purpose: 'payment', params, ...more }, { headers })
const newest = (app: App) => app.outbox?.messages[0]

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a message shows what its code is bound to, and the code confirms that alone', async t => {
      const place = await open(t)
      const app = await place.start(operator(t).env)
      const told = heardOn<Record<string, unknown>>(t, 'verification-api:audit')
      const { id } = (await pay(app, { payee: ' Zoe\u0308  & Söhne', amount: PAYMENT.amount })).body
      t.match(newest(app)?.text, /^\d{6} is your code to pay EUR 12\.50 to Zoë & Söhne, for 5 min\.$/)
      const code = lastCode(app, E164)
      const others = [
        undefined,
        {},
        { ...PAYMENT, amount: 'EUR 12.51' },
        { amount: PAYMENT.payee, payee: PAYMENT.amount }
      ]
      let triesLeft = 5
      for (const params of others)
        t.match(await verify(app, id, code, { params }), {
          status: 422,
          body: { code: 'CODE_WRONG', triesLeft: --triesLeft }
        })
      t.match(
        await verify(app, id, code, {
          purpose: 'payment',
          // In another order than the purpose names them in.
          params: { payee: 'Zoë\u00a0& Söhne', amount: PAYMENT.amount }
        }),
        {
          status: 200,
          body: { verified: true, purpose: 'payment', params: PAYMENT }
        }
      )
      t.match(await verify(app, id, code, { params: PAYMENT }), { status: 422, body: { triesLeft: 0 } })
      t.equal((await cancel(app, id)).status, 410)
      const [sent, none, , , swapped, verified, , cancelled] = told.map(({ paramsHash }) => paramsHash)
      t.match(sent, /^[\w-]{22}$/)
      t.equal(none, undefined)
      t.equal(verified, sent, 'the params that were confirmed have the hash of those that were sent')
      t.equal(cancelled, sent, 'the params of the code that was to be cancelled have the hash of those sent')
      t.not(swapped, sent)
      t.notMatch(JSON.stringify(told), /12\.5|hne/)
    })

    await t.test('five tries with other params end the code', async t => {
      const app = await (await open(t)).start(operator(t).env)
      const { id } = (await pay(app)).body
      const code = lastCode(app, E164)
      for (let i = 0; i < 5; i++) await verify(app, id, code, { params: { ...PAYMENT, amount: `EUR ${i}` } })
      t.match(await verify(app, id, code, { params: PAYMENT }), { status: 422, body: { code: 'CODE_WRONG' } })
    })

    await t.test('a code without params does not verify with any', async t => {
      const app = await (await open(t)).start(operator(t).env)
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      t.equal((await verify(app, id, code, { params: PAYMENT })).status, 422)
      const { status, body } = await verify(app, id, code)
      t.equal(status, 200)
      t.notOk('params' in body)
    })

    await t.test('params are shown by mail and in another language, as text without markup', async t => {
      const mail = provider()
      const app = await (await open(t)).start(operator(t).env, { senders: { mail } })
      const to = { phone: undefined, email: 'jane@example.com', locale: 'zh' }
      const params = { ...PAYMENT, payee: '<b>{code}</b>' }
      t.equal((await pay(app, params, to)).status, 202)
      t.match(mail.messages, [
        {
          subject: 'EUR 12.50',
          text: /收款方 <b>\{code\}<\/b>，/,
          html: /EUR 12\.50，收款方 &lt;b&gt;\{code\}&lt;\/b&gt;，/
        }
      ])
    })

    await t.test('wrong params are refused and cost nothing, and callers without a key set none', async t => {
      const app = await (await open(t)).start(operator(t).env)
      const refused: [object | undefined, string, string?][] = [
        [undefined, '#/params/amount REQUIRED'],
        [{ payee: 'x' }, '#/params/amount REQUIRED'],
        [{ ...PAYMENT, iban: 'x' }, '#/params/iban UNEXPECTED'],
        [{ ...PAYMENT, code: '000000' }, '#/params/code UNEXPECTED'],
        [{ ...PAYMENT, action: 'log in' }, '#/params/action UNEXPECTED'],
        [{ ...PAYMENT, amount: 12.5 }, '#/params/amount INEXACT'],
        [{ ...PAYMENT, amount: 'a lot' }, '#/params/amount PATTERN'],
        [{ ...PAYMENT, payee: ['x'] }, '#/params/payee NOT_SCALAR'],
        [{ ...PAYMENT, payee: ' ' }, '#/params/payee EMPTY'],
        [{ ...PAYMENT, payee: 'x'.repeat(151) }, '#/params/payee TOO_LONG'],
        [{ ...PAYMENT, payee: 'Shop\nCode: 1' }, '#/params/payee INVISIBLE'],
        [{ ...PAYMENT, payee: '\u202eEvil' }, '#/params/payee INVISIBLE'],
        [{ ...PAYMENT, payee: 'E\u200dvil' }, '#/params/payee INVISIBLE'],
        [{ ...PAYMENT, payee: 'see https://evil.example' }, '#/params/payee LINK'],
        [{ ...PAYMENT, payee: 'see evil．example' }, '#/params/payee LINK']
      ]
      for (const [params, first] of refused) {
        const { status, body } = await post(app, '/v1/captcha', {
          phone: PHONE,
          purpose: 'payment',
          params
        })
        t.match({ status, code: body.code }, { status: 422, code: 'PARAMS_INVALID' }, first)
        t.equal(`${body.errors[0].pointer} ${body.errors[0].code}`, first)
      }
      t.match(await pay(app, { ...PAYMENT, payee: '字'.repeat(150) }), {
        status: 422,
        body: { code: 'TEXT_TOO_LONG', limit: 3 }
      })
      t.match(await ask(app, { params: PAYMENT } as object), {
        status: 422,
        body: { code: 'PARAMS_INVALID', template: 'captcha', errors: [{ code: 'UNEXPECTED' }, {}] }
      })
      const page = { 'x-api-key': '', origin: 'http://localhost:5173' }
      for (const headers of [page, { 'x-api-key': '' }])
        t.match(await pay(app, PAYMENT, {}, headers), { status: 401, body: { code: 'API_KEY_MISSING' } })
      const offered = await post(app, '/v1/sms', {
        phone: PHONE,
        template: 'captcha-payment',
        params: PAYMENT
      })
      t.match(offered, { status: 422, body: { code: 'TEMPLATE_UNKNOWN' } })
      t.same(app.outbox?.messages, [])
      const sent = await pay(app, { ...PAYMENT, payee: '字'.repeat(120) })
      t.equal(sent.status, 202)
      const { id } = sent.body
      t.match(await verify(app, id, '000000', { params: { payee: 'evil.example' } }), {
        status: 422,
        body: { code: /^INVALID$/, errors: [{ pointer: '#/params/payee', code: 'LINK' }] }
      })
      t.match(await verify(app, id, '000000', { params: PAYMENT }), { body: { triesLeft: 4 } })
    })

    await t.test('a text that is too long in one language is sent in another that is asked for', async t => {
      const { put, env } = operator(t)
      const files = filesWithPayment()
      const { locales } = files.sms['captcha-payment'] as Template
      Object.assign(locales, { zh: { text: `${'字'.repeat(99)}{code}{action}{amount}{payee}{minutes}` } })
      put({ payment }, files)
      const place = await open(t)
      const app = await place.start(env)
      const long = { ...PAYMENT, payee: 'x'.repeat(99) }
      const chinese = { 'accept-language': 'zh' }
      const refused = { status: 422, body: { code: 'TEXT_TOO_LONG' } }
      t.match(await pay(app, long, {}, chinese), refused)
      const { status, body } = await pay(app, long, { locale: 'en' }, chinese)
      t.equal(status, 202)
      place.advance(60_000)
      t.match(await resend(app, body.id, { payload: { locale: 'zh' } }), refused)
      t.equal((await resend(app, body.id, { headers: chinese })).status, 202)
    })

    await t.test('a resend shows the same params, and cannot change them', async t => {
      const place = await open(t)
      const app = await place.start(operator(t).env)
      const { id } = (await pay(app)).body
      const first = lastCode(app, E164)
      place.advance(60_000)
      const other = { params: { ...PAYMENT, amount: 'EUR 99' } }
      t.match(await resend(app, id, { payload: other }), { status: 422, body: { code: /^INVALID$/ } })
      t.equal((await resend(app, id, { payload: { locale: 'zh' } })).status, 202)
      t.match(newest(app)?.text, 'EUR 12.50，收款方 Zoë & Söhne')
      const code = lastCode(app, E164)
      t.not(code, first)
      t.equal((await verify(app, id, code, { params: PAYMENT })).status, 200)
    })

    await t.test('other params make another code, and leave the former one as it is', async t => {
      const place = await open(t)
      const app = await place.start(operator(t).env)
      const key = { 'idempotency-key': 'one' }
      const sent = await pay(app, PAYMENT, {}, key)
      const code = lastCode(app, E164)
      const other = { ...PAYMENT, amount: 'EUR 99' }
      t.match(await pay(app, other, {}, key), { status: 422, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
      t.match((await pay(app, PAYMENT, {}, key)).body, sent.body)
      place.advance(60_000)
      const { id } = (await pay(app, other)).body
      t.equal((await verify(app, id, lastCode(app, E164), { params: PAYMENT })).status, 422)
      t.equal((await verify(app, id, lastCode(app, E164), { params: other })).status, 200)
      t.equal((await verify(app, sent.body.id, code, { params: other })).status, 422)
      t.equal((await verify(app, sent.body.id, code, { params: PAYMENT })).status, 200)
    })

    await t.test('a code stays bound to its params, whatever its purpose has become since', async t => {
      const place = await open(t)
      const { put, env } = operator(t)
      const app = await place.start({ ...env, ADMIN_KEY })
      const { id } = (await pay(app)).body
      const code = lastCode(app, E164)
      const { params: _, ...unbound } = payment
      const { 'captcha-payment': __, ...sms } = filesWithPayment().sms
      const { 'captcha-payment': ___, ...mail } = filesWithPayment().mail
      put({ payment: unbound }, { sms, mail })
      t.equal((await reload(app)).status, 200)
      place.advance(60_000)
      t.match(await resend(app, id), { status: 410, body: { code: 'CAPTCHA_ENDED' } })
      t.equal((await verify(app, id, code)).status, 422)
      t.equal((await verify(app, id, code, { params: PAYMENT })).status, 200)
      const other = (await post(app, '/v1/captcha', { phone: PHONE, purpose: 'payment' })).body.id
      put()
      t.equal((await reload(app)).status, 200)
      place.advance(60_000)
      t.match(await resend(app, other), { status: 410 })
      t.equal((await verify(app, other, lastCode(app, E164), { params: PAYMENT })).status, 422)
      place.advance(60_000)
      const late = (await pay(app)).body.id
      const lateCode = lastCode(app, E164)
      place.advance(60_000)
      const { renew } = app.captchas
      app.captchas.renew = async captcha => {
        put({ payment: unbound }, { sms, mail })
        await reload(app)
        return renew(captcha)
      }
      t.match(await resend(app, late), { status: 410 }, 'a reload while the resend is under way ends it, too')
      t.equal((await verify(app, late, lateCode, { params: PAYMENT })).status, 200)
    })
  })
}

t.test('a policy and its templates name the same parameters, or the start ends', async t => {
  const { put, env } = operator(t)
  const load = () => loadPolicy(env.POLICY_FILE, loadTemplates(env.TEMPLATES_DIR))
  t.same(load().purposes.payment, payment)
  const wrong = (message: string, purpose: object | undefined, change?: (files: TemplateFiles) => void) => {
    const files = structuredClone(filesWithPayment())
    change?.(files)
    put(purpose && { payment: purpose }, files)
    t.throws(
      load,
      { name: 'ConfigError', message: new RegExp(`^${message.replace(/[[\]().]/g, '\\$&')}`) },
      message
    )
  }
  const of = ({ sms }: TemplateFiles) => sms['captcha-payment'] as Template
  const named = (...params: string[]) => ({ ...payment, params })
  wrong(
    'templates.sms.captcha-payment.params.payee is none of policy.purposes.payment.params.',
    named('amount')
  )
  wrong('policy.purposes.payment.params[2] ("iban") is nothing', named('amount', 'payee', 'iban'))
  wrong('policy.purposes.payment.params[0] ("code") is nothing', named('code', 'amount', 'payee'))
  wrong('policy.purposes.payment.params ([]) must', named())
  wrong('policy.purposes.payment.params ', named('amount', 'amount'))
  wrong('policy.purposes.payment.params[0] ("A") is wrong', named('A'))
  wrong('templates.sms.captcha-payment.params.amount is none of policy.purposes.payment.params.', {
    action: payment.action
  })
  wrong(
    'policy.purposes.payment.params needs the template captcha-payment, which mail.json',
    payment,
    files => {
      delete files.mail['captcha-payment']
    }
  )
  wrong('templates.sms.captcha-payment.params must be code, action, minutes, and those', payment, files => {
    delete of(files).params.minutes
    for (const words of Object.values(of(files).locales))
      words.text = String(words.text).replace('{minutes}', '')
  })
  wrong('templates.sms.captcha-payment.params must be code, action, minutes, and those', payment, files => {
    const { code, action, minutes } = of(files).params as Record<string, Param>
    const text = '{code} {action} {minutes}'
    files.sms['captcha-payment'] = {
      params: { code, action, minutes } as Template['params'],
      locales: { en: { text } }
    }
  })
  wrong('templates.sms.captcha-payment.locales.zh.text lacks {payee}.', payment, files => {
    of(files).locales.zh = { text: '{code} {action} {minutes} {amount}' }
  })
  wrong('templates.sms.captcha-payment.params.payee.type must not be url', payment, files => {
    of(files).params.payee = { type: 'url', maxLength: 80, example: 'https://shop.example' }
  })
  const long = { ...payment, action: { en: 'pay', zh: 'x'.repeat(80) } }
  wrong('policy.purposes.payment.action.zh ("x', long, files => {
    of(files).params.payee = { type: 'string', maxLength: 130, example: 'x'.repeat(130) }
  })
})

t.test('callers are not offered the templates of codes', async t => {
  const { offered, ofCodes } = templatesOf(filesWithPayment())
  t.same(Object.keys(ofCodes('mail')), ['captcha', 'captcha-payment'])
  t.same(Object.keys(offered('mail')), ['welcome', 'order-shipped', 'password-changed'])
})

t.test('the OpenAPI document has the params of a purpose whose codes are bound', async t => {
  const app = await (await places.memory(t)).start(operator(t).env)
  const { body } = await inject(app, { url: '/openapi.json' })
  const schema = (path: string) => body.paths[path].post.requestBody.content['application/json'].schema
  for (const path of ['/v1/captcha', '/v1/captcha/verify'])
    t.match(schema(path).properties.params, { type: 'object', maxProperties: 16, examples: [{ payee: /./ }] })
  t.match(schema('/v1/captcha').properties.purpose.description, /, payment { amount, payee }\. /)
})

t.test('the example of a body is for a purpose without params, if there is one', async t => {
  const { purposes } = loadPolicy()
  const { login } = purposes as { login: typeof payment }
  t.match(captchaExample({ payment, login }), { purpose: 'login' })
  t.equal(captchaExample({ payment }), undefined)
})

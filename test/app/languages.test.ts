import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import type { Template, TemplateFiles } from '../../app/templates/schema.js'
import { logStream } from '../helper/log-stream.js'
import { ask, askMail, PHONE, resend } from './captcha.js'
import { ADMIN_KEY, type App, inject, places, post, reload } from './helper.js'
import { provider } from './provider.js'
import { credentials, startProvider } from './senders/servers.js'
import { loadFiles, templatesFolder } from './template-files.js'

/** The text of a code and the action of every purpose, in a language beside English. */
const GERMAN = { text: 'Code {code}: {action}, {minutes} min.', action: 'Anmeldung' }
const TAIWANESE = { text: '驗證碼 {code}（{action}），{minutes} 分鐘內有效。', action: '登入' }
type Languages = Record<string, { text: string; action: string }>

/** The shipped templates, with these languages for codes, and one more for the SMS order-shipped. */
function filesWith(languages: Languages): TemplateFiles {
  const files = loadFiles()
  for (const channel of ['sms', 'mail'] as const) {
    const { locales } = files[channel].captcha as Template
    for (const [locale, { text }] of Object.entries(languages))
      locales[locale] = channel === 'sms' ? { text } : { subject: 'x', text: [text], html: [text] }
  }
  const shipped = (files.sms['order-shipped'] as Template).locales
  shipped['pt-BR'] = { text: 'Seu pedido {order} foi enviado.' }
  return files
}

function policyWith(languages: Languages): Policy {
  const policy = loadPolicy()
  const more = Object.fromEntries(Object.entries(languages).map(([locale, { action }]) => [locale, action]))
  const purposes = Object.entries(policy.purposes).map(([name, purpose]) => [
    name,
    { ...purpose, action: { ...purpose.action, ...more } }
  ])
  return { ...policy, purposes: Object.fromEntries(purposes) }
}

/** Templates and a policy in files, and the variables that name them. */
function operator(t: Test, languages: Languages) {
  const { folder, write } = templatesFolder(t)
  const file = join(folder, 'policy.json')
  const put = (inTexts: Languages, inPolicy = inTexts) => {
    write(filesWith(inTexts))
    writeFileSync(file, JSON.stringify(policyWith(inPolicy)))
  }
  put(languages)
  const env = { TEMPLATES_DIR: folder, POLICY_FILE: file, ADMIN_KEY }
  return { env, put, write, folder }
}

/** The code points of a text. */
const codesOf = (text: string) => [...text].map(each => each.codePointAt(0)?.toString(16)).join(' ')
const lastText = (app: App) => app.outbox?.messages[0]?.text ?? ''

t.test('German is not shipped: otherwise let these tests add another language', async t => {
  for (const { captcha } of Object.values(loadFiles())) t.notOk('de' in (captcha as Template).locales)
})

t.test('a code is sent in the best language that both its text and its purpose have', async t => {
  const { env, put } = operator(t, {})
  // Only the texts have French, only the purposes Spanish.
  put(
    { de: GERMAN, 'zh-Hant': TAIWANESE, fr: { text: 'fr {code} {action} {minutes}', action: '' } },
    { de: GERMAN, 'zh-Hant': TAIWANESE, es: { text: '', action: 'entrar' } }
  )
  const place = await places.memory(t)
  const app = await place.start(env)
  for (const [locale, language, text] of [
    ['de', 'en', /: Anmeldung,/],
    ['de-AT', 'en', /: Anmeldung,/],
    [undefined, 'de-CH, en;q=0.5', /: Anmeldung,/],
    [undefined, 'fr, es, de;q=0.5', /: Anmeldung,/],
    ['zh-Hant-HK', 'en', /（登入）/],
    ['zh-Hans-CN', 'en', /（注册验证码）/],
    ['zh-TW', 'en', /（注册验证码）/],
    ['fr', 'de', /is your code to register/],
    ['es', 'de', /is your code to register/],
    ['ja', 'de', /is your code to register/],
    [undefined, 'ja', /is your code to register/]
  ] as const) {
    const options = { headers: { 'accept-language': language } }
    t.equal((await ask(app, locale === undefined ? {} : { locale }, options)).status, 202)
    t.match(lastText(app), text, `${locale} ${language}`)
    place.advance(86_400_000)
  }
  const { id } = (await ask(app, { locale: 'de-AT' })).body
  place.advance(61_000)
  t.equal((await resend(app, id, { headers: { 'accept-language': 'zh' } })).status, 202)
  t.match(lastText(app), 'Anmeldung', 'a resend is in the language of the first message')
  place.advance(61_000)
  t.equal((await resend(app, id, { payload: { locale: 'zh-Hant-TW' } })).status, 202)
  t.match(lastText(app), '登入', 'a resend is in the language that it asks for')
  t.equal((await askMail(app)).status, 202)
  t.match(lastText(app), 'is your code to register')
})

t.test('a message is sent in the best language that its template has', async t => {
  const { env } = operator(t, {})
  const sms = provider()
  const place = await places.memory(t)
  const app = await place.start(env, { senders: { sms } })
  for (const [locale, template, sent] of [
    ['pt-BR', 'order-shipped', 'pt-BR'],
    ['pt-BR-u-nu-latn', 'order-shipped', 'pt-BR'],
    ['pt', 'order-shipped', 'en'],
    ['pt-BR', 'password-changed', 'en'],
    ['zh-SG', 'order-shipped', 'zh']
  ] as const) {
    const params = template === 'order-shipped' ? { params: { order: 'A-17' } } : {}
    t.equal((await post(app, '/v1/sms', { phone: PHONE, template, locale, ...params })).status, 202)
    t.equal(sms.messages.at(-1)?.locale, sent, `${locale} ${template}`)
    place.advance(60_000)
  }
})

t.test('messages are in LOCALE where the language asked for is missing, errors in English', async t => {
  const { folder, write } = templatesFolder(t)
  const { sms, mail } = filesWith({ de: GERMAN })
  const captcha = ({ params, locales }: Template) => ({
    captcha: { params, locales: { de: locales.de ?? { text: '' } } }
  })
  write({ sms: captcha(sms.captcha as Template), mail: captcha(mail.captcha as Template) })
  const file = join(folder, 'policy.json')
  const env = { TEMPLATES_DIR: folder, POLICY_FILE: file, LOCALE: 'de' }
  writeFileSync(file, JSON.stringify(policyWith({ de: GERMAN })))
  const app = await (await places.memory(t)).start(env)
  t.equal((await ask(app, { locale: 'en' })).status, 202)
  t.match(lastText(app), 'Anmeldung')
  for (const [asked, told] of [
    ['de', 'en'],
    ['zh-HK', 'zh']
  ] as const) {
    const headers = { 'accept-language': asked }
    t.equal((await inject(app, { url: '/nothing', headers })).headers['content-language'], told)
  }
  t.match(await post(app, '/v1/sms', { phone: PHONE, template: 'order-shipped' }), {
    status: 422,
    body: { code: 'TEMPLATE_UNKNOWN', known: [] }
  })
  const chinese = await (await places.memory(t)).start({ LOCALE: 'zh', ADMIN_KEY })
  t.equal((await ask(chinese, { locale: 'fr' })).status, 202)
  t.match(lastText(chinese), '注册', 'LOCALE decides, whichever language is first in the file')
  t.equal((await reload(chinese)).status, 200)
  t.equal((await ask(chinese, { phone: '13900139000', locale: 'fr' })).status, 202)
  t.match(lastText(chinese), '注册', 'LOCALE decides also after a reload')
})

t.test('an action may hold joiners where its script needs them, params of a caller may not', async t => {
  const persian = { text: 'کد {code}: {action} ({minutes})', action: 'ورود به حساب می\u200cشود' }
  const sinhala = { text: '{code} {action} {minutes}', action: 'ශ\u0dca\u200dරී' }
  const { env, put } = operator(t, { fa: persian, si: sinhala })
  const place = await places.memory(t)
  const app = await place.start(env)
  t.equal((await ask(app, { locale: 'fa' })).status, 202)
  t.match(lastText(app), persian.action)
  place.advance(61_000)
  t.equal((await ask(app, { locale: 'si', phone: '13900139000' })).status, 202)
  t.match(lastText(app), sinhala.action)

  const malayalam = 'ന\u0d4d\u200cമ'
  const wrong = [
    'log\u200cin',
    'log\u200din',
    '登\u200c录',
    '\u200cمی',
    'می\u200c',
    'می\u200c شود',
    'می\u200c\u200cشود',
    'می\u200dشود',
    'می\u200ca',
    'م\u200c.com',
    '۱\u200c۲',
    'ක\u0dca\u200d',
    'ක\u0dca\u200d\u200dර',
    'ක\u200dර',
    'a\u200b',
    'می\u200c\u202eشود'
  ]
  for (const action of [malayalam, 'مِ\u200cشود', 'क\u094d\u200dष']) {
    put({ fa: { ...persian, action } })
    t.equal((await reload(app)).status, 200, codesOf(action))
  }
  for (const action of wrong) {
    put({ fa: { ...persian, action } })
    const reason = /^policy\.purposes\.register\.action\.fa .* must not contain .*invisible characters\.$/
    t.match(await reload(app), { status: 422, body: { reason } }, codesOf(action))
  }
  put({ fa: { ...persian, action: 'evil.م\u200cش' } })
  t.match(await reload(app), { status: 422 }, 'a link is refused, with joiners or without')

  const params = { name: 'می\u200cشود' }
  const sent = await post(app, '/v1/mail', { to: 'a@example.com', template: 'welcome', params })
  t.match(sent, { status: 422, body: { errors: [{ pointer: '#/params/name', code: 'INVISIBLE' }] } })
})

t.test('templates or actions that lack LOCALE, or have a mistake, end the start', async t => {
  const place = await places.memory(t)
  const wrong = (env: NodeJS.ProcessEnv, message: RegExp) =>
    t.rejects(place.start(env), { name: 'ConfigError', message })
  await wrong({ LOCALE: 'de' }, /^templates\.sms\.captcha\.locales lacks de, the language of LOCALE\.$/m)
  await wrong({ LOCALE: 'de' }, /^templates\.mail\.welcome\.locales lacks de, the language of LOCALE\.$/m)
  const { env, folder, put, write } = operator(t, {})
  const files = loadFiles()
  for (const channel of ['sms', 'mail'] as const) {
    const { params, locales } = files[channel].captcha as Template
    files[channel] = { captcha: { params, locales: { de: locales.en ?? { text: '' } } } }
  }
  write(files)
  const lacking = /^policy\.purposes\.register\.action lacks de, the language of LOCALE\.$/
  await wrong({ ...env, LOCALE: 'de' }, lacking)
  put({}, { german: GERMAN })
  await wrong(env, /^policy\.purposes\.register\.action\.german is no language tag as in "de"/)
  put({}, { 'zh-hant': TAIWANESE })
  await wrong(env, /^policy\.purposes\.register\.action\.zh-hant must be spelled "zh-Hant"\.$/)
  put({ de: GERMAN }, { de: { text: '', action: 'x'.repeat(81) } })
  await wrong(env, /^policy\.purposes\.register\.action\.de \("x{79}…\) must have 80 characters or fewer\.$/)
  put({ de: { text: `${'ő'.repeat(160)}{code} {action} {minutes}`, action: '' } }, {})
  await t.resolves(place.start(env), 'a text of three SMS is allowed')
  put(
    { de: { text: `${'ő'.repeat(160)}{code} {action} {minutes}`, action: '' } },
    { de: { text: '', action: 'x'.repeat(80) } }
  )
  await wrong(env, /^policy\.purposes\.register\.action\.de \("x{79}…\) fits into no SMS of a code\. /)
  const short = loadFiles()
  Object.assign((short.sms.captcha as Template).params.code as object, { maxLength: 5, example: '12345' })
  write(short)
  await wrong(env, /fits into no SMS of a code\. .* #\/params\/code must have 5 characters or fewer\.$/)
  rmSync(join(folder, 'mail.json'))
  await wrong(env, /^mail\.json of TEMPLATES_DIR cannot be read: ENOENT/)
  write({ ...loadFiles(), mail: {} })
  await wrong(env, /^templates\.mail lacks captcha\.$/)
})

for (const [name, open] of Object.entries(places)) {
  t.test(`a reload replaces templates and policy together, or neither (${name})`, async t => {
    const { env, put, write } = operator(t, { de: GERMAN })
    const place = await open(t)
    const app = await place.start(env)
    const { id } = (await ask(app, { locale: 'de' })).body
    t.match(lastText(app), 'Anmeldung')

    write({ ...filesWith({ de: GERMAN }), mail: {} })
    t.match(await reload(app), { status: 422, body: { reason: 'templates.mail lacks captcha.' } })
    put({ de: { ...GERMAN, text: 'neu {code} {action} {minutes}' } }, { de: { text: '', action: '{}' } })
    t.match(await reload(app), { status: 422, body: { reason: /^policy\.purposes\.register\.action\.de / } })
    place.advance(61_000)
    t.equal((await resend(app, id)).status, 202)
    t.match(lastText(app), /^Code \d+: Anmeldung/, 'the former templates and policy stay in force')

    put({ de: { text: 'neu {code} {action} {minutes}', action: 'Login' } })
    t.equal((await reload(app)).status, 200)
    place.advance(61_000)
    t.equal((await resend(app, id)).status, 202)
    t.match(lastText(app), /^neu \d+ Login/)

    put({})
    t.equal((await reload(app)).status, 200)
    place.advance(61_000)
    t.equal((await resend(app, id)).status, 202)
    t.match(lastText(app), 'is your code to register', 'German is no longer there')
  })
}

t.test('a reload without a template that an account lists is refused', async t => {
  const { env, folder, write } = operator(t, {})
  const ACCOUNTS_FILE = join(folder, 'accounts.json')
  const account = { id: 'shop', keys: ['0'.repeat(64)], templates: ['welcome'] }
  writeFileSync(ACCOUNTS_FILE, JSON.stringify([account]))
  const app = await (await places.memory(t)).start({ ...env, ACCOUNTS_FILE })
  const { sms, mail } = loadFiles()
  const { welcome, ...others } = mail
  write({ sms, mail: others })
  t.match(await reload(app), {
    status: 422,
    body: { reason: /^ACCOUNTS_FILE\[0\]\.templates\[0\] \("welcome"\) names no template; known: / }
  })
  t.ok('welcome' in app.templates.offered('mail'), 'the former templates stay in force')
})

t.test(
  'ALIYUN_TEMPLATES is checked against the templates, at the start and at a reload of these',
  async t => {
    const { env, put } = operator(t, { 'zh-Hant': TAIWANESE })
    const { lines, stream } = logStream()
    const place = await places.memory(t)
    const start = (ALIYUN_TEMPLATES: string) =>
      place.start(
        { ...env, ...credentials, SMS_SENDERS: 'aliyun', ALIYUN_TEMPLATES, LOG_LEVEL: 'warn' },
        { logStream: stream }
      )
    await t.rejects(start('captcha.fr=SMS_1'), {
      name: 'ConfigError',
      message:
        /^ALIYUN_TEMPLATES names captcha\.fr, which is no template and language that there is; known: captcha\.en, captcha\.zh, captcha\.zh-Hant, /
    })
    await t.rejects(start('captcha.zh=SMS_1:cod'), {
      name: 'ConfigError',
      message: /^ALIYUN_TEMPLATES names the parameter cod /
    })
    t.notMatch(lines.join(''), 'has no code')
    const app = await start('captcha.zh-Hant=SMS_1:code')
    t.match(lines.join(''), 'ALIYUN_TEMPLATES has no code for captcha.en, captcha.zh, order-shipped.en,')
    put({})
    t.match(await reload(app), {
      status: 422,
      body: { reason: /^ALIYUN_TEMPLATES names captcha\.zh-Hant, / }
    })
    put({ 'zh-Hant': TAIWANESE, de: GERMAN })
    t.equal((await reload(app)).status, 200)
    t.match(lines.join(''), 'ALIYUN_TEMPLATES has no code for captcha.en, captcha.zh, captcha.de,')
  }
)

t.test('a provider that keeps the texts is asked for the one in the language of the message', async t => {
  const { env } = operator(t, { 'zh-Hant': TAIWANESE })
  const place = await places.memory(t)
  for (const [SMS_SENDERS, ok] of [
    ['aliyun', { Code: 'OK', BizId: '1' }],
    ['tencent', { Response: { SendStatusSet: [{ Code: 'Ok', SerialNo: '1' }], RequestId: 'r' } }]
  ] as const) {
    const asked = await startProvider(t, { body: ok })
    const name = SMS_SENDERS.toUpperCase()
    const codes = 'captcha.zh=CODE_ZH,captcha.zh-Hant=CODE_HANT'
    const app = await place.start({
      ...env,
      ...credentials,
      SMS_SENDERS,
      [`${name}_TEMPLATES`]: codes,
      [`${name}_ENDPOINT`]: asked.url
    })
    for (const [locale, code] of [
      ['zh-Hant-TW', 'CODE_HANT'],
      ['zh-CN', 'CODE_ZH']
    ] as const) {
      t.equal((await ask(app, { locale })).status, 202)
      const { search = '', body = '' } = asked.asked.at(-1) ?? {}
      t.match(`${search}${body}`, code, `${SMS_SENDERS} ${locale}`)
      place.advance(60_000)
    }
    t.match(
      await ask(app, { locale: 'en' }),
      { status: 502, body: { code: 'SEND_FAILED' } },
      'the provider has no code for English'
    )
    t.equal(asked.asked.length, 2)
  }
})

t.test('the log names actions in a language that no text has, at the start and at a reload', async t => {
  const { env, put } = operator(t, {})
  const { lines, stream } = logStream()
  const place = await places.memory(t)
  const app = await place.start({ ...env, LOG_LEVEL: 'warn' }, { logStream: stream })
  t.notMatch(lines.join(''), 'has no text')
  put({ de: GERMAN }, { de: GERMAN, es: { text: '', action: 'entrar' } })
  const told = (channel: string) =>
    `policy.purposes.login.action has es, in which ${channel}.json has no text of captcha`
  t.equal((await reload(app)).status, 200)
  for (const channel of ['sms', 'mail']) t.match(lines.join(''), told(channel))
  lines.length = 0
  await place.start({ ...env, LOG_LEVEL: 'warn' }, { logStream: stream })
  t.match(lines.join(''), told('sms'))
})

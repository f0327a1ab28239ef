import { readFileSync } from 'node:fs'
import fastify, { type InjectOptions } from 'fastify'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { en } from '../../app/locales/en.js'
import { LOCALES, lookUp } from '../../app/locales/locale.js'
import { texts } from '../../app/locales/translate.js'
import locale from '../../app/plugins/locale.js'
import type { ProblemDocument } from '../../app/problem.js'
import { ProblemSchema } from '../../app/schemas/problem.js'
import { blocksOf } from '../docs/blocks.js'
import { gate } from '../helper/gate.js'
import { answersTo, listen } from '../helper/listen.js'
import { type App, inject, KEY, places, post } from './helper.js'
import { thrownProblems } from './problem-codes.js'

const zh = texts.zh
const page = readFileSync(new URL('../../docs/app-errors.md', import.meta.url), 'utf8')
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d{3}|4xx) \| (.+) \| (.+) \|$/gm)]
const names = (text = '') => [...text.matchAll(/\{([\w-]+)\}/g)].map(([, name]) => name).sort()
const { thrown, unclear } = thrownProblems()
/** The refusals of the plugin, which brings their texts. */
const REFUSALS = ['FST_SEND_LIMIT_EXCEEDED', 'FST_SEND_LIMIT_IN_FLIGHT', 'FST_SEND_LIMIT_BLOCKED']
const foreign = Object.entries(en.problems).map(([code, detail]) => ({ code, detail, status: undefined }))
const known = [...thrown, ...foreign]

t.test('every problem that is thrown has its code and text where the sources throw it', async t => {
  // Errors of Fastify and the plugin bring their codes.
  t.same(
    unclear.filter(at => !at.startsWith('failure.ts: problemDocument(statusCode, code')),
    []
  )
  t.ok(thrown.length > 30)
})

t.test('one code has one status and one text', async t => {
  for (const { code, detail, status, at } of thrown) {
    const others = thrown.filter(each => each.code === code)
    for (const other of others) t.same([other.status, other.detail], [status, detail], `${code} ${at}`)
  }
})

t.test('every problem has a text in each language, with the same placeholders', async t => {
  const codes = [...known.map(({ code }) => code), ...REFUSALS]
  for (const [language, { problems }] of Object.entries(texts)) {
    t.same(Object.keys(problems).sort(), [...new Set(codes)].sort(), `${language}: the codes`)
    for (const { code, detail } of known) t.same(names(problems[code]), names(detail), `${language}: ${code}`)
    for (const code of REFUSALS) t.same(names(problems[code]), ['violated-policies'], `${language}: ${code}`)
  }
  for (const [code, text] of Object.entries(zh.problems)) t.match(text, /\p{Script=Han}/u, code)
})

t.test('every member that the text of a problem names is in the schema of problems', async t => {
  const members = Object.keys(ProblemSchema.properties)
  for (const { code, detail } of thrown)
    for (const name of names(detail)) t.ok(members.includes(name as string), `${code}: ${name}`)
})

t.test('every problem has a line in docs/app-errors.md, with its status', async t => {
  const codes = [...known.map(({ code }) => code), ...REFUSALS]
  t.same(rows.map(([, code]) => code).sort(), [...new Set(codes)].sort())
  for (const { code, status } of thrown) {
    const [, , shown] = rows.find(row => row[1] === code) ?? []
    if (status !== undefined) t.equal(shown, status, code)
  }
})

t.test('every status that occurs has a title in each language', async t => {
  for (const [language, { titles }] of Object.entries(texts))
    for (const [, code = '', status] of rows)
      if (status !== '4xx') t.ok(titles[Number(status)], `${language}: ${status} of ${code}`)
})

t.test('every code of an error in a body has texts in each language, and is in the docs', async t => {
  for (const [language, { flaws }] of Object.entries(texts)) {
    t.same(Object.keys(flaws).sort(), Object.keys(en.flaws).sort(), `${language}: the codes`)
    for (const [code, text] of Object.entries(en.flaws))
      t.same(names(flaws[code]), names(text), `${language}: ${code}`)
  }
  for (const code of Object.keys(en.flaws)) {
    t.match(page.slice(page.indexOf('Code in `errors`')), `\`${code}\``)
  }
})

t.test('Accept-Language chooses the language of errors, and LOCALE where it does not', async t => {
  const matrix: [string | undefined, en: string, zh: string][] = [
    // The header; the language of the answer where LOCALE is en; where it is zh.
    [undefined, 'en', 'zh'],
    ['', 'en', 'zh'],
    ['*', 'en', 'zh'],
    ['zh', 'zh', 'zh'],
    ['zh-CN', 'zh', 'zh'],
    ['ZH-tw', 'zh', 'zh'],
    ['zh-Hans', 'zh', 'zh'],
    ['zh-Hant-HK', 'zh', 'zh'],
    ['en', 'en', 'en'],
    ['en-GB,en;q=0.9', 'en', 'en'],
    ['zh-CN,zh;q=0.9,en;q=0.8', 'zh', 'zh'],
    ['zh-CN, en', 'zh', 'zh'],
    ['en, zh-CN', 'en', 'en'],
    ['en;q=0.5, zh-CN;q=0.7', 'zh', 'zh'],
    ['en; q=0.5, zh-CN; q=0.7', 'zh', 'zh'],
    ['en ;\tq=0.5 , zh-CN;Q=0.7', 'zh', 'zh'],
    ['en; q=0, zh', 'zh', 'zh'],
    ['zh; q=0, *', 'en', 'en'],
    ['zh-TW;q=0.1, *;q=0.5', 'en', 'en'],
    ['en;q=x, zh', 'zh', 'zh'],
    ['zh;q=0.5, zh;q=0.9, en;q=0.7', 'zh', 'zh'],
    ['fr, zh;q=0.2', 'zh', 'zh'],
    ['fr, de', 'en', 'zh'],
    ['zh;q=0, en;q=0.1', 'en', 'en'],
    ['en;q=0, *', 'zh', 'zh'],
    ['*, zh;q=0', 'en', 'en'],
    ['*, zh;q=0.5', 'en', 'en'],
    ['fr, *;q=0.5, en;q=0.1', 'zh', 'zh'],
    ['*;q=0', 'en', 'zh'],
    ['zhx', 'en', 'zh'],
    [';;;,q=,--', 'en', 'zh'],
    [`${'fr,'.repeat(332)}zh`, 'zh', 'zh'],
    [`${'fr,'.repeat(333)}zh`, 'en', 'zh']
  ]
  const place = await places.memory(t)
  for (const [i, LOCALE] of LOCALES.entries()) {
    const app = await place.start({ LOCALE })
    for (const [asked, ...answers] of matrix) {
      const headers = asked === undefined ? {} : { 'accept-language': asked }
      const reply = await app.inject({ url: '/nothing', headers })
      t.equal(reply.headers['content-language'], answers[i], `${asked?.slice(0, 40)} with LOCALE=${LOCALE}`)
      t.match(reply.headers.vary, /(^|, )accept-language$/)
    }
  }
})

t.test('an Accept-Language of nothing but * is read three times, however long it is', async t => {
  const app = fastify()
  t.teardown(() => app.close())
  await app.register(locale, { config: { LOCALE: 'en' } })
  app.get('/', async request => {
    let read = 0
    const { headers } = request.raw
    const { 'accept-language': asked } = headers
    const get = () => {
      read++
      return asked
    }
    Object.defineProperty(headers, 'accept-language', { get })
    return { locale: request.locale, read }
  })
  const answer = await app.inject({
    url: '/',
    headers: { 'accept-language': `en;q=0,zh;q=0${',*'.repeat(490)}` }
  })
  t.same(answer.json(), { locale: 'en', read: 3 })
})

t.test('a language tag with extensions, as of platforms, works in a body and in the header', async t => {
  const app = await (await places.memory(t)).start()
  for (const [i, tag] of ['zh-Hans-CN-u-nu-latn', 'en-US-u-fw-mon-mu-celsius'].entries()) {
    const phone = `1380013800${i}`
    const sent = await post(app, '/v1/captcha', { phone, purpose: 'register', locale: tag })
    t.equal(sent.status, 202, tag)
    const { headers } = await inject(app, { url: '/nothing', headers: { 'accept-language': tag } })
    t.equal(headers['content-language'], tag.slice(0, 2))
  }
})

t.test('lookUp finds the best known language for a tag by shortening the tag', async t => {
  const known = ['en', 'zh', 'zh-Hant', 'pt-BR', 'he', 'sr']
  for (const [tag, found] of [
    ['zh-Hant-HK', 'zh-Hant'],
    ['zh-hant', 'zh-Hant'],
    ['ZH-hans-cn', 'zh'],
    ['zh-Hant-u-nu-hanidec', 'zh-Hant'],
    ['ZH-cmn-Hans-CN', 'zh'],
    ['pt-BR', 'pt-BR'],
    ['pt', undefined],
    ['pt-PT', undefined],
    // As old phones name Hebrew, and Serbian.
    ['iw-IL', 'he'],
    ['sh', 'sr'],
    ['zhx', undefined],
    ['', undefined]
  ] as const)
    t.equal(lookUp(tag, known), found, tag)
})

const json = { 'content-type': 'application/json', 'x-api-key': KEY }
const sms = (body: object): InjectOptions => ({
  method: 'POST',
  url: '/v1/sms',
  headers: json,
  payload: body
})
const phone = '13800138000'
const errors: Record<string, [InjectOptions, detail: string | RegExp]> = {
  NOT_FOUND: [{ url: '/nothing' }, '该地址下没有任何内容。'],
  METHOD_NOT_ALLOWED: [{ method: 'DELETE', url: '/healthz' }, '该地址支持的方法：GET、HEAD。'],
  FST_ERR_CTP_INVALID_JSON_BODY: [{ ...sms({}), payload: '{' }, '请求体不是有效的 JSON。'],
  FST_ERR_CTP_EMPTY_JSON_BODY: [{ ...sms({}), payload: '' }, /请求体为空/],
  FST_ERR_CTP_BODY_TOO_LARGE: [{ ...sms({}), payload: `"${'x'.repeat(20_000)}"` }, /最多 16 KiB/],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    { ...sms({}), headers: { ...json, 'content-type': 'text/plain' }, payload: '{}' },
    /请以 JSON 发送/
  ],
  API_KEY_MISSING: [
    { ...sms({}), headers: { 'content-type': 'application/json' } },
    '缺少请求头 x-api-key。'
  ],
  INVALID: [sms({ phone, template: 'order-shipped', extra: 1 }), /与文档不符/],
  PHONE_INVALID: [sms({ phone: '123', template: 'order-shipped' }), '不存在这样的电话号码。'],
  TEMPLATE_UNKNOWN: [
    sms({ phone, template: 'captcha' }),
    '此处没有模板 captcha，可用的有：order-shipped、appointment-reminder、payment-received、password-changed。'
  ],
  PARAMS_INVALID: [sms({ phone, template: 'order-shipped' }), '参数与模板 order-shipped 不符。']
}

async function inBoth(app: App, options: InjectOptions) {
  const answers = []
  for (const language of ['en', 'zh-CN']) {
    const headers = { ...options.headers, 'accept-language': language }
    const reply = await app.inject({ remoteAddress: '192.0.2.1', ...options, headers } as InjectOptions)
    answers.push({
      ...reply,
      headers: reply.headers,
      status: reply.statusCode,
      body: reply.json<ProblemDocument>()
    })
  }
  return answers as [(typeof answers)[0], (typeof answers)[0]]
}

/** What is the same in every language. */
const untold = ({ title, detail, errors, instance, ...document }: ProblemDocument) => ({
  ...document,
  errors: (errors as { detail: string }[] | undefined)?.map(({ detail, ...flaw }) => flaw)
})

t.test('errors in English and Chinese differ in their texts alone', async t => {
  const app = await (await places.memory(t)).start()
  for (const [code, [options, detail]] of Object.entries(errors)) {
    const [english, chinese] = await inBoth(app, options)
    t.equal(english.body.code, code)
    t.equal(chinese.status, english.status, code)
    t.same(untold(chinese.body), untold(english.body), code)
    t.match(chinese.body.detail, detail, code)
    t.match(chinese.body.title, /^\p{Script=Han}+$/u, code)
    t.notMatch(english.body.title, /\p{Script=Han}/u, code)
    t.notMatch(JSON.stringify(english.body), /\p{Script=Han}/u, code)
    t.match(chinese.headers, { 'content-language': 'zh', 'content-type': 'application/problem+json' }, code)
    t.match(english.headers, { 'content-language': 'en' }, code)
  }
})

t.test('docs/app-errors.md shows a problem as it is answered', async t => {
  const app = await (await places.memory(t)).start()
  const [english] = await inBoth(app, sms({ phone, template: 'order-shipped' }))
  const shown = blocksOf('docs/app-errors.md').map(({ text }) => JSON.parse(text))
  t.same(shown, [{ ...english.body, instance: shown[0].instance }])
  for (const { instance } of [shown[0], english.body]) t.match(instance, /^urn:uuid:[0-9a-f]{8}-/)
})

t.test('errors in a body are explained in English and Chinese', async t => {
  const app = await (await places.memory(t)).start()
  const cases: [object, pointer: string, code: string, en: string, zh: string][] = [
    [{ template: 'x' }, '#/phone', 'REQUIRED', 'is missing', '缺失'],
    [
      { phone, template: 'x', 'a/b~\ud800': 1 },
      '#/a~1b~0%EF%BF%BD',
      'UNEXPECTED',
      'is not expected here',
      '不应出现在此处'
    ],
    [{ phone: 1, template: 'x' }, '#/phone', 'NOT_STRING', 'must be a string', '必须是文本'],
    [
      { phone: '1', template: 'x' },
      '#/phone',
      'TOO_SHORT',
      'must have 3 characters or more',
      '至少要有 3 个字符'
    ],
    [{ phone, template: 'x', params: [] }, '#/params', 'NOT_OBJECT', 'must be an object', '必须是对象'],
    [
      { phone, template: 'x', params: { ...Array(17).fill('x') } },
      '#/params',
      'TOO_MANY',
      'must have 16 entries or fewer',
      '最多 16 项'
    ],
    [{ phone, template: 'x', locale: '!' }, '#/locale', 'PATTERN', 'must match the pattern ', '必须匹配 ']
  ]
  for (const [body, pointer, code, inEnglish, inChinese] of cases) {
    const [english, chinese] = await inBoth(app, sms(body))
    t.match(english.body.errors, [{ pointer, code, detail: inEnglish }], `${pointer} ${code}`)
    t.match(chinese.body.errors, [{ pointer, code, detail: inChinese }], `${pointer} ${code}`)
  }
})

t.test('a refusal of the plugin is answered in English and Chinese', async t => {
  const app = await (await places.memory(t)).start()
  const options = sms({ phone, template: 'password-changed', locale: 'en' })
  for (let i = 0; i < 2; i++) t.equal((await app.inject(options)).statusCode, 202)
  const [english, chinese] = await inBoth(app, options)
  t.same(untold(chinese.body), untold(english.body))
  t.match(english.body, { status: 429, title: 'Too many requests', detail: 'limit reached: same-content' })
  t.match(chinese.body, {
    type: /quota-exceeded$/,
    title: '请求过于频繁',
    detail: '已达到上限：same-content。'
  })
  t.equal(chinese.headers['retry-after'], '60')
})

t.test('a message is in the language of `locale`, else in that of Accept-Language', async t => {
  const place = await places.memory(t)
  const app = await place.start()
  const sent = async (url: string, payload: object, language: string) => {
    const headers = { ...json, 'accept-language': language }
    const { statusCode, body } = await app.inject({ method: 'POST', url, headers, payload })
    t.equal(statusCode, 202, body)
    const { text = '' } = app.outbox?.messages[0] ?? {}
    // The text has no word of another language.
    t.not(/\p{Script=Han}/u.test(text), /[a-z]{3}/.test(text), text)
    return { id: JSON.parse(body).id, locale: /\p{Script=Han}/u.test(text) ? 'zh' : 'en' }
  }
  const template = 'password-changed'
  for (const [url, payload] of [
    ['/v1/sms', { phone, template }],
    ['/v1/mail', { to: 'jane@example.com', template }],
    ['/v1/captcha', { phone, purpose: 'login' }]
  ] as const) {
    t.match(await sent(url, payload, 'zh'), { locale: 'zh' }, url)
    place.advance(60_000)
    const { id, locale } = await sent(url, { ...payload, locale: 'en' }, 'zh')
    t.equal(locale, 'en', url)
    place.advance(60_000)
    if (url !== '/v1/captcha') continue
    t.match(
      await sent(`${url}/${id}/resend`, {}, 'zh'),
      { locale: 'en' },
      'a resend is in the language of the first message'
    )
    place.advance(60_000)
    t.match(
      await sent(`${url}/${id}/resend`, { locale: 'zh' }, 'en'),
      { locale: 'zh' },
      'a resend is in the language that it asks for'
    )
  }
})

t.test('what is no valid request is answered in the language of LOCALE', async t => {
  const app = await (await places.memory(t)).start({ LOCALE: 'zh' })
  const port = await listen(app)
  for (const [text, status, title] of [
    ['nonsense\r\n\r\n', 400, '请求无效'],
    ['GET / HTTP/1.1\r\nhost: a\r\nexpect: wonders\r\n\r\n', 417, '预期失败']
  ] as const) {
    const [head = '', body = ''] = (await answersTo(port, text)).split('\r\n\r\n')
    for (const line of [`HTTP/1.1 ${status}`, 'content-language: zh', 'connection: close'])
      t.match(head.toLowerCase(), line.toLowerCase())
    t.match(head.toLowerCase(), `content-length: ${Buffer.byteLength(body)}\r\n`)
    t.match(JSON.parse(body), { status, title })
  }
  const bad = await app.inject('/%zz')
  t.match(bad.json(), { status: 400, code: 'FST_ERR_BAD_URL', title: '请求无效' })
  t.equal(bad.headers['content-language'], 'zh')
})

t.test('while the API closes it answers 503 as a problem, and closes the connection', async t => {
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' }))
  const held = gate()
  app.addHook('preClose', () => held.opened)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const closed = app.close()
  try {
    const english = await fetch(`${url}/healthz`)
    t.equal(english.status, 503)
    t.equal(english.headers.get('connection'), 'close')
    t.match(await english.json(), { status: 503, code: 'SHUTTING_DOWN', title: 'Service Unavailable' })
    const chinese = await fetch(`${url}/nothing`, { headers: { 'accept-language': 'zh-CN' } })
    t.equal(chinese.headers.get('content-type'), 'application/problem+json')
    t.match(await chinese.json(), { title: '服务暂不可用', detail: '服务器正在关闭，请稍后重试。' })
    const origin = 'http://localhost:5173'
    const page = await fetch(`${url}/v1/captcha`, { method: 'POST', headers: { origin } })
    t.equal(page.status, 503)
    t.equal(page.headers.get('access-control-allow-origin'), origin, 'a page can read the problem')
  } finally {
    held.open()
    await closed
  }
})

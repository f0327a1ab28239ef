import t from 'tap'
import { ConfigError } from '../../app/check.js'
import type { ProblemError } from '../../app/problem.js'
import { readParams } from '../../app/templates/params.js'
import type { Param, Template, TemplateFiles } from '../../app/templates/schema.js'
import { loadTemplates, templatesOf } from '../../app/templates/templates.js'
import { loadFiles } from './template-files.js'

const files = loadFiles()
const templates = loadTemplates()
const channels = ['sms', 'mail'] as const
const examples = (template: Template) =>
  Object.fromEntries(Object.entries(template.params).map(([name, { example }]) => [name, example]))

/** The shipped templates and an SMS template `test` of these parameters and texts. */
function withSms(params: Record<string, Param>, text: string, zh = text): TemplateFiles {
  const template = { params, locales: { en: { text }, zh: { text: zh } } }
  return { ...files, sms: { ...files.sms, test: template } }
}

function problemOf(fn: () => unknown): ProblemError['problem'] {
  try {
    fn()
  } catch (error) {
    return (error as ProblemError).problem
  }
  throw new Error('nothing was thrown')
}

for (const channel of channels) {
  for (const [name, template] of Object.entries(files[channel])) {
    for (const locale of Object.keys(template.locales)) {
      t.test(`the ${channel} template ${name} renders its examples in ${locale}`, async t => {
        const values = examples(template)
        const rendered = templates.render(channel, name, locale, values)
        t.match(rendered, { template: name, locale, params: values })
        const parts = [rendered.text, rendered.html].filter(part => part !== undefined)
        t.equal(parts.length, channel === 'mail' ? 2 : 1)
        for (const part of parts) {
          for (const value of Object.values(values)) t.match(part, value)
          t.notMatch(part, /\{\w+\}/, 'no placeholder is left')
          t.equal(/\p{Script=Han}/u.test(part), locale === 'zh', 'the text is in the language asked for')
        }
        t.equal(rendered.segments, channel === 'sms' ? 1 : undefined)
        if (channel === 'sms') return
        t.ok(rendered.subject)
        t.match(rendered.html, `<html lang="${locale}">`)
        t.match(
          rendered.html,
          '<body dir="auto"',
          'the body takes its direction from its text, as of Arabic or Hebrew'
        )
        t.notMatch(rendered.html, /<img|<a |href|http|<script|url\(/)
      })
    }
  }
}

t.test('the longest parameters still make an SMS that is allowed', async t => {
  const longest = ({ type, maximum, maxLength = 0, pattern }: Param) =>
    type === 'integer' ? maximum : (pattern === undefined ? '字' : '1').repeat(maxLength)
  for (const [name, template] of Object.entries(files.sms)) {
    const params = Object.fromEntries(
      Object.entries(template.params).map(([key, param]) => [key, longest(param)])
    )
    for (const locale of Object.keys(template.locales))
      t.ok(templates.render('sms', name, locale, params).segments, `${name} in ${locale}`)
  }
})

t.test('an SMS names its code first', async t => {
  const params = { code: '012345', action: 'log in', minutes: 5 }
  for (const locale of templates.localesOf('sms', 'captcha'))
    t.match(templates.render('sms', 'captcha', locale, params).text, /^012345/, locale)
})

t.test('SMS segments are counted by alphabet and split no character; a fourth is refused', async t => {
  const { render } = templatesOf(
    withSms({ text: { type: 'string', maxLength: 500, example: 'x' } }, '{text}')
  )
  // The pair stands across the end of the first segment, in a text as long as two segments.
  const around = (pair: string) => `${'字'.repeat(66)}${pair}${'字'.repeat(66)}`
  const cases: [string, number | undefined][] = [
    ['x'.repeat(160), 1],
    ['x'.repeat(161), 2],
    ['x'.repeat(459), 3],
    ['x'.repeat(460), undefined],
    ['@ _$Z'.repeat(32), 1],
    ['@ _$Z'.repeat(33), 2],
    ['éÇßΩ'.repeat(40), 1],
    ['éÇßΩ'.repeat(77), 3],
    // These take two septets each.
    ['€'.repeat(80), 1],
    ['€'.repeat(81), 2],
    ['^{|}~\\]['.repeat(10), 1],
    [`${'^{|}~\\]['.repeat(10)}x`, 2],
    // The two septets are not split between segments.
    [`${'x'.repeat(152)}€${'x'.repeat(151)}`, 2],
    [`${'x'.repeat(152)}€${'x'.repeat(152)}`, 3],
    // One character that GSM-7 lacks makes the whole text UCS-2.
    ['字'.repeat(70), 1],
    ['字'.repeat(71), 2],
    ['字'.repeat(201), 3],
    ['字'.repeat(202), undefined],
    [`${'x'.repeat(70)}字`, 2],
    [`${'x'.repeat(70)}\``, 2],
    [`${'x'.repeat(70)}ç`, 2],
    // One letter to the eye, of many code points.
    [`x${'\u0301'.repeat(69)}`, 1],
    [`x${'\u0301'.repeat(200)}`, 3],
    [`x${'\u0301'.repeat(201)}`, undefined],
    ['😀'.repeat(35), 1],
    ['😀'.repeat(36), 2],
    // Two letters may be split between segments; the parts of one letter, and the halves of a character, may not.
    ...['字字', '가각', 'сы', 'ÿ“', 'عر'].map((pair): [string, number] => [around(pair), 2]),
    ...['กำ', '\u1100\u1100', 'ｶﾞ', 'नि', 'x\u0302', '😀'].map((pair): [string, number] => [around(pair), 3])
  ]
  for (const [text, segments] of cases) {
    const called = `${text.slice(0, 4)}… of ${[...text].length}`
    if (segments !== undefined) t.equal(render('sms', 'test', 'en', { text }).segments, segments, called)
    else {
      const problem = problemOf(() => render('sms', 'test', 'en', { text }))
      t.match(problem, { status: 422, code: 'TEXT_TOO_LONG', limit: 3 }, called)
    }
  }
})

t.test('a mail keeps the lines of its template, which must be a list of lines', async t => {
  const lines = ['a {a}', '', 'b']
  const words = { subject: 'x', text: lines, html: lines }
  const test = {
    params: { a: { type: 'string' as const, maxLength: 9, example: 'x' } },
    locales: { en: words, zh: words }
  }
  const { render } = templatesOf({ ...files, mail: { ...files.mail, test } })
  const { text, html } = render('mail', 'test', 'en', { a: 1 })
  t.equal(text, 'a 1\n\nb')
  t.match(html, '>\na 1\n\nb\n</body>')
  for (const member of ['text', 'html'] as const) {
    const one = { ...test, locales: { en: { ...words, [member]: 'a {a}' } } }
    const load = () => templatesOf({ ...files, mail: { ...files.mail, test: one as unknown as Template } })
    t.throws(load, {
      message: new RegExp(`\\.en\\.${member} \\("a {a}"\\) must be array\\. It is a list of`)
    })
  }
})

t.test('an SMS may end with a line that tells a phone for which site its code is', async t => {
  const { params } = files.sms.captcha as Template
  const text = (words: string) => `{code} ${words} {action} {minutes}\n\n@shop.example #{code}`
  const { render } = templatesOf(withSms(params, text('is your code to'), text('验证码')))
  const given = { code: '012345', action: 'log in', minutes: 5 }
  t.match(render('sms', 'test', 'en', given), {
    text: '012345 is your code to log in 5\n\n@shop.example #012345',
    segments: 1
  })
  // 70 and 71 characters, the line ends among them.
  for (const [length, segments] of [
    [34, 1],
    [35, 2]
  ] as const)
    t.match(render('sms', 'test', 'zh', { ...given, action: '登'.repeat(length) }), { segments })
})

t.test('values are escaped in HTML, and in HTML alone', async t => {
  const name = `<b onclick="x('1')">&amp;</b>`
  const { subject, text, html } = templates.render('mail', 'welcome', 'en', { name })
  t.match(subject, name)
  t.match(text, name)
  t.notMatch(html, '<b ')
  t.match(html, 'Hello &lt;b onclick=&quot;x(&#39;1&#39;)&quot;&gt;&amp;amp;&lt;/b&gt;,')
  t.match(html, '<title>Welcome, &lt;b')
})

t.test('a value that looks like a placeholder or a replacement pattern is put in as it is', async t => {
  const { render } = templatesOf(
    withSms(
      {
        a: { type: 'string', maxLength: 9, example: 'x' },
        b: { type: 'string', maxLength: 9, example: 'x' }
      },
      '{a} {b}'
    )
  )
  t.equal(render('sms', 'test', 'en', { a: '{b}', b: "$& $'" }).text, "{b} $& $'")
})

t.test('a value that is empty, no scalar, or holds a link or invisible characters is refused', async t => {
  const welcome = (name: unknown) => () => templates.render('mail', 'welcome', 'en', { name })
  const invisible = [
    'a\nb',
    'a\r\nBcc: x',
    'a\tb',
    'a\u0000',
    '\u007f',
    'a\u0085b',
    'a\u2028b',
    'a\u2029b',
    'a\u200bb',
    'a\u200d',
    'a\u00adb',
    '\u202eabc',
    '\u2066a\u2069',
    '\u061ca',
    '\ufeffa',
    'a\ufe0f',
    'a\u3164',
    'a\u115f',
    'a\u034f',
    'a\u2800',
    'a\ud800',
    'a\ue000',
    'a\u{e0041}',
    '\u0378',
    'a\ufff9'
  ]
  const links = [
    'http://evil.example',
    'HTTPS://evil.example',
    'evil.example',
    'evil-.example',
    'evil_.xn--fiqs8s',
    'you won, see evil.example/x',
    'www.evil.com',
    'ftp://x',
    'ｅｖｉｌ．ｃｏｍ',
    'evil。com',
    'evil｡com',
    '例子.中国',
    'пример.рф',
    'हिन्दी.com',
    'ไทย์.com/abc',
    'हिन्दी。com',
    '💩.la',
    '👍🏽.la',
    '🇨🇳.la',
    'xn--a.xn--b',
    '163.com',
    '163。com',
    'evil。CO',
    '💩。la',
    'x.भारत',
    '10.0.0.1',
    'tel:+19001234567',
    'sms:19001234567',
    'smsto:19001234567',
    'mailto:a',
    'JavaScript:alert(1)',
    'data:,x',
    'jane@localhost',
    '张三@1',
    'weixin:dl',
    'alipay:x',
    'alipays:x'
  ]
  for (const value of invisible) {
    const { errors } = problemOf(welcome(value))
    t.match(errors, [{ pointer: '#/params/name', code: 'INVISIBLE' }], Buffer.from(value).toString('hex'))
  }
  for (const value of links) t.match(problemOf(welcome(value)).errors, [{ code: 'LINK' }], value)
  for (const value of [
    '张三',
    'Mary-Jane O’Neil',
    '12.50 EUR',
    '3:30 p.m.',
    '2026.12.24.18',
    '24.12.18.2026',
    'Hotel:5',
    '3 @ 2 EUR',
    '😀',
    'Zoë',
    '你好。谢谢',
    'J. Smith',
    'नमस्ते. हिन्दी',
    'हिन्दी। नमस्ते',
    '😀. Hi'
  ]) {
    t.equal(templates.render('mail', 'welcome', 'en', { name: value }).params.name, value)
  }
  for (const value of ['', ' ', '\u3000\u00a0'])
    t.match(problemOf(welcome(value)).errors, [{ code: 'EMPTY' }])
  for (const value of [null, true, {}, [], ['x'], { toString: 'x' }]) {
    t.match(problemOf(welcome(value)).errors, [{ code: 'NOT_SCALAR' }], JSON.stringify(value))
  }
})

t.test('a number that JSON does not keep digit by digit must come as a string', async t => {
  const kept = (name: unknown) => templates.render('mail', 'welcome', 'en', { name }).params.name
  for (const given of ['20261122000012345678', '12.50', '1e21']) t.equal(kept(given), given)
  t.equal(kept(Number.MAX_SAFE_INTEGER), '9007199254740991')
  for (const json of ['20261122000012345678', '9007199254740993', '12.50', '1e21', '-9007199254740993']) {
    const { errors } = problemOf(() => kept(JSON.parse(json)))
    t.match(errors, [{ pointer: '#/params/name', code: 'INEXACT', detail: /as a string/ }], json)
  }
})

t.test('a parameter of type url takes https URLs alone', async t => {
  const { render } = templatesOf(
    withSms({ link: { type: 'url', maxLength: 80, example: 'https://shop.example/a' } }, 'See {link}')
  )
  const link = 'https://shop.example/order?id=17&x=1'
  t.equal(render('sms', 'test', 'zh', { link }).text, `See ${link}`)
  for (const wrong of [
    'http://shop.example',
    'javascript:1',
    'shop.example',
    'https://shop.example@evil.example',
    'https://:shop.example@evil.example',
    'https://a b',
    ...[...'<>"\'`{}|\\^'].map(sign => `https://shop.example/${sign}`)
  ]) {
    t.match(
      problemOf(() => render('sms', 'test', 'zh', { link: wrong })).errors,
      [{ code: 'NOT_URL' }],
      wrong
    )
  }
})

t.test('all errors in the parameters are reported at once', async t => {
  const { render } = templatesOf(
    withSms(
      {
        a: { type: 'string', maxLength: 5, example: 'x' },
        b: { type: 'string', maxLength: 5, pattern: '[a-z]+', example: 'x' },
        n: { type: 'integer', minimum: 1, maximum: 60, example: '5' }
      },
      '{a} {b} {n}'
    )
  )
  const errorsOf = (params: Record<string, unknown>) => {
    const problem = problemOf(() => render('sms', 'test', 'en', params))
    t.match(problem, { status: 422, code: 'PARAMS_INVALID', template: 'test' })
    return (problem.errors as { pointer: string; code: string }[]).map(each => `${each.pointer} ${each.code}`)
  }
  t.same(errorsOf({}), ['#/params/a REQUIRED', '#/params/b REQUIRED', '#/params/n REQUIRED'])
  t.same(errorsOf({ a: '123456', b: 'A', n: 61, 'c/d~é#': 1, constructor: 1 }), [
    '#/params/a TOO_LONG',
    '#/params/b PATTERN',
    '#/params/n TOO_LARGE',
    '#/params/c~1d~0%C3%A9%23 UNEXPECTED',
    '#/params/constructor UNEXPECTED'
  ])
  for (const n of ['05', '+5', '5.0', 5.5, '', 'x', '1e1', Number.NaN]) {
    t.same(errorsOf({ a: 'x', b: 'x', n }), ['#/params/n NOT_INTEGER'], String(n))
  }
  for (const n of [0, -1]) t.same(errorsOf({ a: 'x', b: 'x', n }), ['#/params/n TOO_SMALL'], String(n))
  for (const n of [61, 1e15, '1'.repeat(400)])
    t.same(errorsOf({ a: 'x', b: 'x', n }), ['#/params/n TOO_LARGE'])
})

t.test('a parameter that the API sets itself is taken unchecked, and refused from a caller', async t => {
  const text: Param = { type: 'string', maxLength: 9, example: 'x' }
  const params = { a: text, b: text }
  const own = { a: 'می\u200cشود' }
  t.same(readParams(params, { b: 'x' }, own), { values: { ...own, b: 'x' }, flaws: [] })
  const { values, flaws } = readParams(params, { a: 'y', b: own.a }, own)
  t.same(values, own)
  t.match(flaws, [
    { pointer: '#/params/b', code: 'INVISIBLE' },
    { pointer: '#/params/a', code: 'UNEXPECTED' }
  ])
})

t.test('parameters are accepted within their bounds and patterns, and refused beyond', async t => {
  const errorsOf = (param: Param, v: unknown) => readParams({ v: param }, { v }).flaws
  const text: Param = { type: 'string', maxLength: 5, example: 'x' }
  for (const value of ['12345', ' 12345 ', '1   5', '😀'.repeat(5)]) t.same(errorsOf(text, value), [], value)
  // Letters of several code points or code units each.
  for (const value of ['ᾧ'.normalize('NFD'), '\u{1109a}'.normalize('NFD')])
    t.same(errorsOf(text, value.repeat(5)), [], value)
  // To normalize accents in such disorder would take minutes.
  const disordered = '\u0344'.repeat(300_000) + '\u0f73'.repeat(200_000)
  t.match(errorsOf(text, disordered), [{ code: 'TOO_LONG' }])
  t.match(errorsOf(text, '123456'), [{ code: 'TOO_LONG', limit: 5, detail: /5/ }])
  const number: Param = { type: 'integer', minimum: -3, maximum: 60, example: '0' }
  for (const value of [-3, '-3', -0, 60]) t.same(errorsOf(number, value), [], String(value))
  t.match(errorsOf(number, -4), [{ code: 'TOO_SMALL', limit: -3, detail: /-3/ }])
  t.match(errorsOf(number, 61), [{ code: 'TOO_LARGE', limit: 60, detail: /60/ }])
  const either: Param = { ...text, pattern: 'a|\\p{Lu}' }
  for (const value of ['a', 'É']) t.same(errorsOf(either, value), [], value)
  for (const value of ['aa', 'ÉÉ', 'xÉ', 'ax'])
    t.match(errorsOf(either, value), [{ code: 'PATTERN', pattern: either.pattern }], value)
  const shop: Param = { type: 'url', maxLength: 40, pattern: 'https://shop\\.example/.*', example: 'x' }
  t.same(errorsOf(shop, 'https://shop.example/17'), [])
  t.match(errorsOf(shop, 'https://evil.example/17'), [{ code: 'PATTERN' }])
  t.match(errorsOf(shop, 'https://shop.example/ 17'), [{ code: 'NOT_URL' }])
  t.match(readParams({ constructor: text }, {}).flaws, [{ code: 'REQUIRED' }])
})

t.test('values that differ only in type, blanks or Unicode form render alike', async t => {
  const same = (channel: 'sms' | 'mail', name: string, spellings: Record<string, unknown>[]) => {
    const [first, ...others] = spellings.map(params => templates.render(channel, name, 'en', params))
    for (const other of others) t.same(other, first)
  }
  same('sms', 'order-shipped', [{ order: 17 }, { order: '17' }, { order: ' 17 ' }])
  same('mail', 'welcome', [
    { name: 'Zo\u00eb K' },
    { name: 'Zoe\u0308 \u00a0K' },
    { name: '\u3000Zo\u00eb  K' }
  ])
})

t.test('unknown templates are refused with the known ones; callers cannot send codes', async t => {
  const known = ['order-shipped', 'appointment-reminder', 'payment-received', 'password-changed']
  for (const name of ['unknown', 'toString', '__proto__', 'captcha', '']) {
    const problem = problemOf(() => templates.renderOffered('sms', name, 'en', {}))
    t.match(problem, { status: 422, code: 'TEMPLATE_UNKNOWN' }, name)
    t.same(problem.known, known)
  }
  t.same(problemOf(() => templates.localesOf('sms', 'unknown')).known, known)
  const captcha = { code: '123456', action: 'log in', minutes: 5 }
  for (const channel of channels) {
    t.equal(templates.render(channel, 'captcha', 'en', captcha).template, 'captcha')
    t.match(
      problemOf(() => templates.renderOffered(channel, 'captcha', 'en', captcha)),
      { code: 'TEMPLATE_UNKNOWN' },
      `callers cannot use the ${channel} template of codes`
    )
  }
  for (const text of ['captcha.en', 'captcha.zh', 'order-shipped.en']) t.ok(templates.smsParameters.has(text))
  for (const name of ['appointment-reminder', 'toString'])
    t.match(
      problemOf(() => templates.render('mail', name, 'en', {})),
      { code: 'TEMPLATE_UNKNOWN' }
    )
})

t.test('every mistake in the template files is named with its path', async t => {
  const wrong = (given: unknown, ...messages: string[]) => {
    const error = t.throws(() => templatesOf(given as TemplateFiles)) as unknown as Error
    t.type(error, ConfigError)
    for (const message of messages) t.match(error.message, message)
  }
  const text: Param = { type: 'string', maxLength: 9, example: 'x' }
  wrong(
    withSms({ a: text, b: text }, '{a} {c}', '{b}'),
    'templates.sms.test.locales.en.text names {c}, which is no parameter.',
    'templates.sms.test.locales.en.text lacks {b}.',
    'templates.sms.test.locales.zh.text lacks {a}.'
  )
  wrong(
    withSms({ a: text }, '{a} {a', '{a}'),
    'templates.sms.test.locales.en.text has a brace that encloses no name.'
  )
  wrong(withSms({ a: text }, '{a} a}', '{a}'), 'sms.test.locales.en.text has a brace that encloses no name.')
  wrong(withSms({ a: text }, '{a} {constructor}'), 'en.text names {constructor}, which is no parameter.')
  for (const type of ['string', 'url'] as const) {
    const endless = { type, example: 'https://shop.example' }
    wrong(withSms({ a: endless }, '{a}'), 'templates.sms.test.params.a must have a maxLength.')
  }
  for (const bound of [{}, { minimum: 1 }, { maximum: 1 }]) {
    const open: Param = { type: 'integer', ...bound, example: '1' }
    wrong(withSms({ a: open }, '{a}'), 'sms.test.params.a must have a minimum and a maximum.')
  }
  const none: Param = { type: 'integer', minimum: 2, maximum: 1, example: '1' }
  wrong(withSms({ a: none }, '{a}'), 'sms.test.params.a.example ("1") must be 2 or more.')
  const inexact: Param = { type: 'integer', minimum: 0, maximum: 2 ** 53, example: '1' }
  wrong(withSms({ a: inexact }, '{a}'), 'sms.test.params.a.maximum (9007199254740992) must be')
  const least: Param = { ...inexact, minimum: -(2 ** 53), maximum: 9 }
  wrong(withSms({ a: least }, '{a}'), 'sms.test.params.a.minimum (-9007199254740992) must be')
  wrong(withSms({ a: { ...text, example: '' } }, '{a}'), 'sms.test.params.a.example ("") must not be empty.')
  const long = 'x'.repeat(1_000)
  const cut = `("${'x'.repeat(79)}…)`
  wrong(withSms({ a: { ...text, example: long } }, '{a}'), `sms.test.params.a.example ${cut} must`)
  wrong(withSms({ a: { ...text, pattern: `${long}(` } }, '{a}'), `sms.test.params.a.pattern ${cut} must be`)
  for (const maxLength of [0, 501]) {
    wrong(withSms({ a: { ...text, maxLength } }, '{a}'), `sms.test.params.a.maxLength (${maxLength}) must be`)
  }
  wrong(withSms({ a: { ...text, length: 9 } as never }, '{a}'), 'sms.test.params.a.length is not known here')
  for (const name of ['A', '1', 'a b', 'a'.repeat(33), '__proto__'])
    wrong(
      withSms(Object.fromEntries([[name, text]]), 'x'),
      `templates.sms.test.params.${name} is not known here`
    )
  const many = Array.from({ length: 17 }, (_, i) => `a${i}`)
  const all = many.map(name => `{${name}}`).join('')
  wrong(withSms(Object.fromEntries(many.map(name => [name, text])), all), 'templates.sms.test.params ')
  for (const sign of ['\t', '\r', '\u007f', '\u0085', '\u2028', '\u2029']) {
    wrong(withSms({}, `a${sign}b`), 'templates.sms.test.locales.en.text (')
  }
  wrong(withSms({ a: { ...text, pattern: '(' } }, '{a}'), 'templates.sms.test.params.a.pattern ("(") must be')
  // Each has an unmatched parenthesis, but would be a regular expression with others around it.
  wrong(withSms({ a: { ...text, pattern: 'x)|(?:b' } }, '{a}'), 'params.a.pattern ("x)|(?:b") must be')
  wrong(withSms({ a: { ...text, pattern: 'x)|(b' } }, '{a}'), 'params.a.pattern ("x)|(b") must be')
  const count: Param = { type: 'integer', minimum: 0, maximum: 9, example: '1' }
  wrong(withSms({ a: { ...count, pattern: '[0-4]' } }, '{a}'), 'params.a.pattern is not for an integer.')
  wrong(withSms({ a: { ...count, maxLength: 1 } }, '{a}'), 'params.a.maxLength is not for an integer.')
  wrong(withSms({ a: { ...text, minimum: 5 } }, '{a}'), 'params.a.minimum is not for a string.')
  wrong(
    withSms({ a: { ...text, type: 'url', example: 'https://a.example', maximum: 5 } }, '{a}'),
    'params.a.maximum is not for a url.'
  )
  wrong(withSms({ a: { ...text, pattern: 'y' } }, '{a}'), 'params.a.example ("x") must match the pattern y.')
  wrong(
    withSms({ a: { ...text, type: 'text' } as never }, '{a}'),
    'templates.sms.test.params.a.type ("text") must be one of'
  )
  const spoken = (locale: string, text = 'x') => ({
    ...files,
    sms: { ...files.sms, test: { params: {}, locales: { en: { text: 'x' }, [locale]: { text } } } }
  })
  for (const tag of ['german', 'zh_CN', 'd', '__proto__', 'constructor', 'de-a', 'x-de', ''])
    wrong(spoken(tag), `templates.sms.test.locales.${tag} is no language tag as in "de" or "pt-BR" (BCP 47).`)
  for (const [tag, right] of [
    ['DE', 'de'],
    ['zh-hans', 'zh-Hans'],
    ['iw', 'he']
  ] as const)
    wrong(spoken(tag), `templates.sms.test.locales.${tag} must be spelled "${right}".`)
  wrong(spoken('de', 'x{y}'), 'templates.sms.test.locales.de.text names {y}, which is no parameter.')
  wrong(spoken('de', 'ü'.repeat(460)), 'templates.sms.test.locales.de.text takes 4 SMS')
  t.throws(() => templatesOf(spoken('de'), 'de'), {
    message: /^templates\.sms\.captcha\.locales lacks de, the language of LOCALE\.$/m
  })
  t.doesNotThrow(() => templatesOf(spoken('zh-Hant-HK')))
  for (const channel of channels) {
    const { captcha } = files[channel]
    const { action, ...params } = (captcha as Template).params
    const named = { ...files, [channel]: { captcha: { ...captcha, params } } }
    wrong(named, `templates.${channel}.captcha.params must be code, action, minutes.`)
  }
  wrong(withSms({ a: text }, `${'x'.repeat(459)}{a}`, '{a}'), 'en.text takes 4 SMS with the examples of')
  t.doesNotThrow(() => templatesOf(withSms({ a: text }, `${'x'.repeat(458)}{a}`, '{a}')))
  wrong({ ...files, sms: { 'order-shipped': files.sms['order-shipped'] } }, 'templates.sms lacks captcha.')
  const url: Param = { type: 'url', maxLength: 40, example: 'https://shop.example' }
  const mail = (html: string, more = {}, params = { a: text } as Template['params']) => {
    const words = { subject: 'x', text: Object.keys(params).map(name => `{${name}}`), html: [html], ...more }
    return { ...files, mail: { ...files.mail, test: { params, locales: { en: words, zh: words } } } }
  }
  wrong(mail('<p>x</p>'), 'templates.mail.test.locales.zh.html lacks {a}.')
  for (const tag of ['<p class="{a}">', '<p>{a}</p><p class="{a}']) {
    wrong(mail(tag), 'templates.mail.test.locales.en.html has a value inside a tag')
  }
  wrong(mail('<a href="{u}" title="{a}">', {}, { a: text, u: url }), 'en.html has a value inside a tag')
  t.doesNotThrow(() => templatesOf(mail('<a href="{u}">{a}</a>', {}, { a: text, u: url })))
  wrong(mail('{a}', { subject: 'x{y}' }), 'templates.mail.test.locales.en.subject names {y}, which')
  wrong(mail('x', { text: [] }, {}), 'templates.mail.test.locales.en.text ([]) must')
  wrong(mail('x', { text: ['x'], html: [] }, {}), 'templates.mail.test.locales.en.html ([]) must')
  const short = { text: 'x', subject: 'x' }
  wrong(
    { ...files, sms: { ...files.sms, test: { params: {}, locales: { en: short, zh: short } } } },
    'templates.sms.test.locales.en.subject is not known here'
  )
  wrong(mail('{a}', { title: 'x' }), 'templates.mail.test.locales.en.title is not known here')
  wrong({ ...files, mail: {} }, 'templates.mail lacks captcha.')
  wrong({ ...files, sms: { ...files.sms, Test: files.sms.captcha } }, 'templates.sms.Test is not known here')
})

t.test('a template file that is missing or no JSON is named; a byte order mark is ignored', t => {
  const sms = JSON.stringify(files.sms)
  const of = (content: Record<string, string>) => () => loadTemplates(t.testdir(content))
  const unread = (name: string) => ({
    name: 'ConfigError',
    message: new RegExp(`^${name} of TEMPLATES_DIR cannot be read: `)
  })
  t.throws(of({}), unread('sms.json'))
  t.throws(of({ 'sms.json': sms.slice(0, 300) }), unread('sms.json'))
  t.throws(of({ 'sms.json': sms }), unread('mail.json'))
  t.doesNotThrow(of({ 'sms.json': `\ufeff${sms}`, 'mail.json': JSON.stringify(files.mail) }))
  t.end()
})

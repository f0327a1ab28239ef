import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { mayUse } from '../../app/accounts/account.js'
import { openAccounts } from '../../app/accounts/accounts.js'
import browsers from '../../app/accounts/browsers.js'
import type { AuditEvent } from '../../app/audit/event.js'
import { readConfig } from '../../app/config.js'
import { loadPolicy } from '../../app/policy.js'
import { OWN } from '../../app/policy-schema.js'
import type { Rule } from '../../plugin/index.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { isKept } from '../helper/heap.js'
import type { Teardown } from '../helper/teardown.js'
import { post, sha256, startApp } from './helper.js'
import { ask, open } from './operating.js'

const shop = {
  id: 'shop',
  keys: [sha256('key of shop')],
  revoked: [sha256('old key of shop')],
  dailyQuota: 50,
  timeZone: 'Europe/Berlin',
  purposes: ['login'],
  templates: ['order-shipped'],
  origins: ['https://shop.example', 'http://127.0.0.1:8080', 'capacitor://shop.example']
}
const plain = { id: 'plain', keys: [sha256('key of plain'), sha256('next key of plain')] }

function fileOf(t: Teardown, content: unknown): string {
  const file = join(folderOf(t), 'accounts.json')
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

const read = (env: NodeJS.ProcessEnv) => openAccounts(readConfig({ AUDIT_LOG: 'off', ...env }))

t.test('accounts are read from ACCOUNTS_FILE, with defaults, and from API_KEYS', async t => {
  const accounts = read({ ACCOUNTS_FILE: fileOf(t, [shop, plain]), API_KEYS: 'simple:one,simple-2:one' })
  const { keys, revoked, origins, ...account } = shop
  t.match(accounts.byKey('key of shop'), { account, revoked: false })
  t.match(accounts.byKey('old key of shop'), { account, revoked: true })
  t.same(accounts.byKey('key of shop')?.account, account)
  t.same(accounts.byKey('next key of plain')?.account, {
    id: 'plain',
    dailyQuota: 1_000,
    timeZone: 'Asia/Shanghai'
  })
  t.equal(accounts.byKey('simple')?.account, accounts.byKey('simple-2')?.account)
  t.equal(accounts.byKey('simple')?.account.id, 'one')
  for (const key of ['', 'key', 'development-key', sha256('key of shop')])
    t.equal(accounts.byKey(key), undefined)
  const guesses = Array.from({ length: 1_000 }, (_, i) => accounts.byKey(`key ${i}`))
  t.same(new Set(guesses), new Set([undefined]), 'a key is compared by its whole hash')
  t.equal(accounts.byOrigin('https://shop.example')?.id, 'shop')
  for (const origin of ['null', '', 'https://shop.example.evil', 'http://shop.example', 'http://localhost'])
    t.equal(accounts.byOrigin(origin), undefined, origin)
  t.equal(accounts.anonymous, null)
})

t.test('a byte order mark at the start of ACCOUNTS_FILE is ignored', async t => {
  const file = fileOf(t, `\ufeff${JSON.stringify([plain])}`)
  t.equal(read({ ACCOUNTS_FILE: file }).byKey('key of plain')?.account.id, 'plain')
})

t.test('no key is held in clear', async t => {
  const backwards = randomBytes(8).toString('hex')
  const key = () => [...backwards].reverse().join('')
  // In a function of its own, since a running one keeps its temporary values.
  const opened = () => read({ API_KEYS: `${key()}:shop` })
  const accounts = opened()
  t.notOk(await isKept(backwards))
  t.equal(accounts.byKey(key())?.account.id, 'shop')
})

const hash = sha256('x')
const wrong: [content: unknown, message: RegExp][] = [
  ['{', /^ACCOUNTS_FILE is no JSON\.$/],
  [
    `[{"id":"a","keys":["${hash}"]},{"id":"b","keys":["${sha256('y')}"],"revoked":["topsecret"],"revoked":[]}]`,
    /^ACCOUNTS_FILE cannot be read: it has a member twice: \[1\]\.revoked\.$/
  ],
  [{}, /^ACCOUNTS_FILE must be a list of accounts\.$/],
  [['topsecret'], /^ACCOUNTS_FILE\[0\] must be an account: an object\.$/],
  [[null], /^ACCOUNTS_FILE\[0\] must be an account: an object\.$/],
  [[{ keys: [hash] }], /^ACCOUNTS_FILE\[0\]\.id /],
  [[{ id: 'a b', keys: [hash] }], /^ACCOUNTS_FILE\[0\]\.id \("a b"\) is wrong\. It is 1 to 64 letters/],
  [[{ id: 'a' }], /^ACCOUNTS_FILE\[0\]\.keys .* SHA-256/],
  [[{ id: 'a', keys: [] }], /^ACCOUNTS_FILE\[0\]\.keys /],
  [[{ id: 'a', keys: 'topsecret' }], /^ACCOUNTS_FILE\[0\]\.keys must be array\. It is a list of SHA-256/],
  [[{ id: 'a', keys: Array(101).fill('topsecret') }], /^ACCOUNTS_FILE\[0\]\.keys must not have more/],
  [[{ id: 'a', keys: [hash], revoked: 'topsecret' }], /^ACCOUNTS_FILE\[0\]\.revoked must be array\./],
  [
    [{ id: 'a', keys: [hash], key: 'topsecret' }],
    /^ACCOUNTS_FILE\[0\]\.key is not known here; known: id, keys,/
  ],
  [[{ id: 'a', keys: ['topsecret'] }], /^ACCOUNTS_FILE\[0\]\.keys\[0\] must be the SHA-256 hash of a key/],
  [[{ id: 'a', keys: [hash.toUpperCase()] }], /^ACCOUNTS_FILE\[0\]\.keys\[0\] must be the SHA-256/],
  ...[7, [hash], `${hash}0`, `0${hash}`].map(
    each => [[{ id: 'a', keys: [each] }], /^ACCOUNTS_FILE\[0\]\.keys\[0\] must be the SHA-256/] as never
  ),
  [[{ id: 'a', keys: [hash], revoked: ['topsecret'] }], /^ACCOUNTS_FILE\[0\]\.revoked\[0\] must be the SHA/],
  [[{ id: 'a', keys: [hash, hash] }], /^ACCOUNTS_FILE\[0\]\.keys\[1\] is listed before\.$/],
  [[{ id: 'a', keys: [hash], revoked: [hash] }], /^ACCOUNTS_FILE\[0\]\.revoked\[0\] is listed before\.$/],
  [
    [{ id: 'a', keys: [hash, sha256('')] }],
    /^ACCOUNTS_FILE\[0\]\.keys\[1\] is the hash of an empty text, which is no key\.$/
  ],
  [
    [{ id: 'a', keys: [hash], revoked: [sha256('')] }],
    /^ACCOUNTS_FILE\[0\]\.revoked\[0\] is the hash of an empty/
  ],
  [[plain, { id: 'a', keys: plain.keys }], /^ACCOUNTS_FILE\[1\]\.keys\[0\] is listed before\.$/],
  [[plain, { ...shop, id: 'plain' }], /^ACCOUNTS_FILE\[1\]\.id \("plain"\) names another account\.$/],
  [[{ ...plain, dailyQuota: 0 }], /^ACCOUNTS_FILE\[0\]\.dailyQuota \(0\) must be >= 1/],
  [
    [{ ...plain, dailyQuota: 10_000_001 }],
    /^ACCOUNTS_FILE\[0\]\.dailyQuota \(10000001\) must be <= 10000000/
  ],
  [[{ ...plain, dailyQuota: '9' }], /^ACCOUNTS_FILE\[0\]\.dailyQuota \("9"\) must be integer/],
  [
    [{ ...plain, timeZone: 'Asia/Peking' }],
    /^ACCOUNTS_FILE\[0\]\.timeZone \("Asia\/Peking"\) is no time zone/
  ],
  [[{ ...plain, timeZone: 'x'.repeat(100) }], /^ACCOUNTS_FILE\[0\]\.timeZone \("x{79}…\) is no time zone/],
  [[{ ...plain, origins: ['x'.repeat(100)] }], /^ACCOUNTS_FILE\[0\]\.origins\[0\] \("x{79}…\) is no origin/],
  [[{ ...plain, timeZone: 'JST' }], /^ACCOUNTS_FILE\[0\]\.timeZone \("JST"\) is no time zone/],
  [[{ ...plain, timeZone: '+08:00' }], /^ACCOUNTS_FILE\[0\]\.timeZone \("\+08:00"\) is no time zone/],
  [[{ ...plain, id: 'a'.repeat(65) }], /^ACCOUNTS_FILE\[0\]\.id /],
  [[{ ...plain, templates: ['a'.repeat(65)] }], /^ACCOUNTS_FILE\[0\]\.templates\[0\] /],
  ...[
    { purposes: Array.from({ length: 101 }, (_, i) => `p${i}`) },
    { origins: Array.from({ length: 101 }, (_, i) => `https://shop${i}.example`) },
    { revoked: Array.from({ length: 101 }, (_, i) => sha256(`${i}`)) }
  ].map(many => [[{ ...plain, ...many }], / must not have more than 100 items/] as never),
  [[{ ...plain, quota: 5 }], /^ACCOUNTS_FILE\[0\]\.quota /],
  [[{ ...plain, purposes: 'login' }], /^ACCOUNTS_FILE\[0\]\.purposes \("login"\) must be array/],
  [[{ ...plain, purposes: ['login', 'login'] }], /^ACCOUNTS_FILE\[0\]\.purposes .* duplicate/],
  [[{ ...plain, purposes: ['Log in'] }], /^ACCOUNTS_FILE\[0\]\.purposes\[0\] \("Log in"\) is wrong/],
  [
    [shop, { ...plain, origins: [shop.origins[0]] }],
    /^ACCOUNTS_FILE\[1\]\.origins\[0\] .* is listed before\.$/
  ],
  ...['192.0.2.0/33', '192.0.2', 'shop.example', '', '192.0.2.1 ', '::ffff:192.0.2.0/24'].map(
    address => [[{ ...plain, addresses: [address] }], /^ACCOUNTS_FILE\[0\]\.addresses\[0\] /] as never
  ),
  [
    [{ ...plain, countries: ['DE', 'de'] }],
    /^ACCOUNTS_FILE\[0\]\.countries\[1\] \("de"\) is wrong\. It is two capital/
  ],
  [[{ ...plain, countries: ['XX'] }], /^ACCOUNTS_FILE\[0\]\.countries\[0\] \("XX"\) is no country/],
  [[{ ...plain, addresses: '192.0.2.1' }], /^ACCOUNTS_FILE\[0\]\.addresses \("192\.0\.2\.1"\) must be array/],
  ...['https://shop.example/', 'shop.example', '*', 'null', 'https://*.example', 'https://SHOP.example']
    .concat(
      'https:',
      'https://shop.example:443',
      'file://x',
      'https://user@shop.example',
      'ftp://shop.example',
      'ws://shop.example',
      'wss://shop.example',
      'app://',
      'capacitor://localhost/',
      'capacitor://*',
      'capacitor:localhost'
    )
    .map(
      origin =>
        [[{ ...plain, origins: [origin] }], /^ACCOUNTS_FILE\[0\]\.origins\[0\] .* is no origin/] as never
    )
]
for (const [content, message] of wrong) {
  t.test(`ACCOUNTS_FILE is refused: ${JSON.stringify(content).slice(0, 120)}`, async t => {
    const env = { ACCOUNTS_FILE: fileOf(t, content) }
    const error = t.throws(() => read(env), { name: 'ConfigError', message }) as Error
    t.notMatch(error.message, 'topsecret')
  })
}

t.test('a missing ACCOUNTS_FILE, and keys or accounts that are named twice, are refused', async t => {
  t.throws(() => read({ ACCOUNTS_FILE: '/nowhere' }), { message: 'ACCOUNTS_FILE cannot be read: ENOENT.' })
  const ADMIN_KEY = 'a key of 24 characters or more'
  const accounts = [{ ...plain, keys: [sha256(ADMIN_KEY)] }]
  t.throws(() => read({ ADMIN_KEY, ACCOUNTS_FILE: fileOf(t, accounts) }), {
    message: 'ADMIN_KEY is a key of the account plain, too. Make another one.'
  })
  t.throws(() => read({ API_KEYS: 'one:a,one:b' }), {
    message: 'API_KEYS[1] holds a key that is listed before.'
  })
  const file = fileOf(t, [shop])
  const both = { ACCOUNTS_FILE: file, API_KEYS: 'key of shop:b' }
  t.throws(() => read({ ...both, API_KEYS: 'key:shop' }), {
    message: /^API_KEYS names the account shop, which/
  })
  const same = fileOf(t, [{ id: 'a', keys: [sha256('one')] }])
  t.throws(() => read({ ACCOUNTS_FILE: same, API_KEYS: 'one:b' }), {
    message: 'API_KEYS[0] holds a key that is listed before.'
  })
})

t.test('in production, short keys and the key of development are refused', async t => {
  const production = { NODE_ENV: 'production' }
  const accounts = read({ ...production, ACCOUNTS_FILE: fileOf(t, []) })
  t.equal(accounts.byKey('development-key'), undefined)
  t.equal(accounts.anonymous, null)
  const long = 'abcdefghijklmnopqrstuvwx'
  // In the second one, key and account have changed places.
  for (const entry of ['topsecret:shop', 'shop:topsecret']) {
    const short = t.throws(() => read({ ...production, API_KEYS: `${long}:one,${entry}` })) as Error
    t.match(short.message, /^API_KEYS\[1\] holds a key of fewer than 24 characters; write key:account/)
    t.notMatch(short.message, 'topsecret')
  }
  const known = { ...production, API_KEYS: 'development-key:shop' }
  t.throws(() => read(known), { message: /^API_KEYS\[0\] holds the key of development/ })
  const listed = {
    ACCOUNTS_FILE: fileOf(t, [{ ...plain, keys: [...plain.keys, sha256('development-key')] }])
  }
  t.throws(() => read({ ...production, ...listed }), {
    message: 'ACCOUNTS_FILE[0].keys[2] is the hash of the key of development, which everybody knows.'
  })
  t.equal(
    read(listed).byKey('development-key')?.account.id,
    'plain',
    'outside of production the key of development may be listed'
  )
  const former = { ACCOUNTS_FILE: fileOf(t, [{ ...plain, revoked: [sha256('development-key')] }]) }
  t.equal(read({ ...production, ...former }).byKey('development-key')?.revoked, true)
  t.equal(read({ ...production, API_KEYS: `${long}:shop` }).byKey(long)?.account.id, 'shop')
  t.throws(() => readConfig(production), { message: /^AUDIT_LOG is required in production\. It is where/ })
})

t.test('an account with an unknown purpose or template ends the start', async t => {
  const start = (account: object) => startApp(t, { ACCOUNTS_FILE: fileOf(t, [{ ...plain, ...account }]) }, {})
  await t.rejects(start({ purposes: ['login', 'logn'] }), {
    name: 'ConfigError',
    message:
      /^ACCOUNTS_FILE\[0\]\.purposes\[1\] \("logn"\) names no purpose of the policy; known: register, login,/
  })
  await t.rejects(start({ templates: ['order-shiped'] }), {
    name: 'ConfigError',
    message:
      /^ACCOUNTS_FILE\[0\]\.templates\[0\] \("order-shiped"\) names no template; known: (?!.*\b(\S+),.* \1,).*order-shipped/
  })
  await t.resolves(start({ purposes: ['login'], templates: ['order-shipped', 'welcome'] }))
})

t.test('an account may use the purposes and templates of its lists, or all without a list', async t => {
  t.doesNotThrow(() => mayUse(shop, 'purposes', 'login'))
  t.doesNotThrow(() => mayUse({ ...plain, dailyQuota: 1, timeZone: 'UTC' }, 'templates', 'anything'))
  t.throws(() => mayUse(shop, 'purposes', 'register'), {
    statusCode: 403,
    code: 'PURPOSE_FORBIDDEN',
    problem: { account: 'shop', purpose: 'register' }
  })
  t.throws(() => mayUse(shop, 'templates', 'welcome'), { statusCode: 403, code: 'TEMPLATE_FORBIDDEN' })
  t.throws(() => mayUse({ ...shop, purposes: [] }, 'purposes', 'login'), { code: 'PURPOSE_FORBIDDEN' })
})

t.test('an account sends only for its purposes and by its templates', async t => {
  const may = { purposes: ['login'], templates: ['order-shipped'] }
  const app = await startApp(t, { ACCOUNTS_FILE: fileOf(t, [{ ...plain, ...may }]) }, {})
  const send = (url: string, payload: object) =>
    post(app, url, payload, { headers: { 'x-api-key': 'key of plain' } })
  const phone = '13800138000'
  const to = 'jane@example.com'
  const registering = await send('/v1/captcha', { phone, purpose: 'register' })
  t.match(registering, { status: 403, body: { code: 'PURPOSE_FORBIDDEN' } })
  const welcome = { template: 'welcome', params: { name: 'Jane' } }
  t.match(await send('/v1/mail', { to, ...welcome }), { status: 403, body: { code: 'TEMPLATE_FORBIDDEN' } })
  t.same(app.outbox?.messages, [])
  const shipped = { template: 'order-shipped', params: { order: 'A-17' } }
  const right = [
    ['/v1/captcha', { phone, purpose: 'login' }],
    ['/v1/mail', { to, ...shipped }],
    ['/v1/sms', { phone: '13900139000', ...shipped }]
  ] as const
  for (const [url, body] of right)
    t.equal((await send(url, body)).status, 202, 'the refused requests have not counted')
})

t.test('an account sends only to its countries, as far as the policy serves them', async t => {
  const policy = { ...loadPolicy(), countries: ['CN', 'DE'] }
  const origins = ['https://shop.example']
  const file = fileOf(t, [{ ...plain, countries: ['DE', 'SG'], origins }])
  const app = await startApp(t, { ACCOUNTS_FILE: file }, { policy })
  const key = { 'x-api-key': 'key of plain' }
  const send = (url: string, payload: object, headers: Record<string, string> = key) =>
    post(app, url, payload, { headers })
  const refused = { status: 422, body: { code: 'COUNTRY_NOT_SERVED' } }
  const shipped = { template: 'order-shipped', params: { order: 'A-17' } }
  const told = heardOn<AuditEvent>(t, 'verification-api:audit')
  for (const [phone, country] of [
    ['+86 138 0013 8000', 'CN'],
    ['+65 8123 4567', 'SG']
  ] as const) {
    for (const by of [key, { origin: origins[0] as string, 'x-api-key': '' }])
      t.match(await send('/v1/captcha', { phone, purpose: 'login' }, by), refused, phone)
    t.match(await send('/v1/sms', { phone, ...shipped }), refused, phone)
    const events = told.splice(0)
    const event = { outcome: 'not-served', rules: ['countries'], country, account: 'plain' }
    t.match(events, [event, event, event])
  }
  t.same(app.outbox?.messages, [])
  const phone = '+49 1512 3456789'
  const { id } = (await send('/v1/captcha', { phone, purpose: 'login' })).body
  t.equal((await send('/v1/mail', { to: 'jane@example.com', ...shipped })).status, 202)
  writeFileSync(file, JSON.stringify([{ ...plain, countries: [] }]))
  app.reload()
  t.match(await send(`/v1/captcha/${id}/resend`, {}), refused, 'nor resends, after a reload')
  t.equal((await send('/v1/captcha', { email: 'joe@example.com', purpose: 'login' })).status, 202)
})

/** Headers of a request without a key. */
const KEYLESS: Record<string, string>[] = [{}, { 'x-api-key': '' }]

const who = (app: FastifyInstance) => {
  const answer = async ({ account, caller }: { account: { id: string } | null; caller: string | null }) => ({
    account: account?.id,
    caller
  })
  app.post('/keyed', { preParsing: app.authenticate }, answer)
  app.register(
    async scope => {
      await scope.register(browsers)
      scope.post('', { preParsing: scope.identify }, answer)
      scope.post('/verify', { preParsing: scope.identify }, answer)
      scope.get('/:id', { preParsing: scope.identify }, answer)
    },
    { prefix: '/v1/captcha' }
  )
}

t.test('a key gives access to all endpoints, an origin to the captcha endpoints alone', async t => {
  const { app } = await open(t, { env: { ACCOUNTS_FILE: fileOf(t, [shop, plain]) }, routes: who })
  const post = (url: string, headers: Record<string, string>) => ask(app, 'POST', url, { headers })
  const challenge = {
    'www-authenticate': 'ApiKey realm="verification-api", header="x-api-key"',
    'content-type': 'application/problem+json'
  }
  for (const url of ['/keyed', '/v1/captcha']) {
    for (const none of KEYLESS) {
      t.match(await post(url, none), { status: 401, headers: challenge, body: { code: 'API_KEY_MISSING' } })
    }
    const unknown = await post(url, { 'x-api-key': 'development-key' })
    t.match(unknown, { status: 401, headers: challenge, body: { code: 'API_KEY_UNKNOWN' } })
    const revoked = await post(url, { 'x-api-key': 'old key of shop' })
    t.match(revoked, { status: 401, headers: challenge, body: { code: 'API_KEY_REVOKED' } })
    const keyed = await post(url, { 'x-api-key': 'key of plain', origin: 'https://shop.example' })
    t.same(keyed.body, { account: 'plain', caller: 'key' })
  }
  const origin = { origin: 'https://shop.example' }
  t.match(await post('/keyed', origin), { status: 401, body: { code: 'API_KEY_MISSING' } })
  for (const none of KEYLESS) {
    t.same((await post('/v1/captcha', { ...origin, ...none })).body, { account: 'shop', caller: 'origin' })
  }
  for (const other of ['https://evil.example', 'null', 'http://localhost:3000', '']) {
    const refused = await post('/v1/captcha', { origin: other })
    t.match(refused, { status: 403, body: { code: 'ORIGIN_UNKNOWN' } }, other)
    t.notOk(refused.headers['access-control-allow-origin'])
  }
})

t.test('a key is accepted only from the addresses of its account, a page from everywhere', async t => {
  const listed = { ...shop, addresses: ['192.0.2.0/28', '2001:db8::5'] }
  const log: string[] = []
  const { app } = await open(t, {
    env: { ACCOUNTS_FILE: fileOf(t, [listed, plain, { ...plain, id: 'none', keys: [hash], addresses: [] }]) },
    routes: who,
    log
  })
  const post = (url: string, remoteAddress: string, headers: Record<string, string>) =>
    ask(app, 'POST', url, { headers, remoteAddress })
  const page = { origin: 'https://shop.example' }
  const key = { 'x-api-key': 'key of shop' }
  const refused = { status: 403, body: { code: 'ADDRESS_FORBIDDEN' } }
  const warnings = () =>
    log
      .splice(0)
      .map(line => JSON.parse(line))
      .filter(({ level }) => level >= 40)
  for (const url of ['/keyed', '/v1/captcha']) {
    for (const here of ['192.0.2.15', '::ffff:192.0.2.1', '2001:DB8:0::5'])
      t.equal((await post(url, here, key)).status, 200, here)
    t.same(warnings(), [])
    for (const there of ['192.0.2.16', '::ffff:198.51.100.1', '2001:db8::6', '127.0.0.1']) {
      const forged = { 'x-forwarded-for': '192.0.2.1', 'x-end-user-ip': '192.0.2.1' }
      for (const more of [{}, page, forged])
        t.match(await post(url, there, { ...key, ...more }), refused, there)
    }
    const warned = warnings()
    t.equal(warned.length, 12)
    for (const line of warned) t.match(line, { level: 40, account: 'shop', msg: /refused a key/ })
    t.notMatch(JSON.stringify(warned), /key of shop|192\.0\.2/)
    const revoked = await post(url, '127.0.0.1', { 'x-api-key': 'old key of shop' })
    t.match(revoked, { status: 401, body: { code: 'API_KEY_REVOKED' } })
    t.equal((await post(url, '127.0.0.1', { 'x-api-key': 'key of plain' })).status, 200)
  }
  t.match(await post('/keyed', '127.0.0.1', { 'x-api-key': 'x' }), refused, 'an empty list lets no key pass')
  t.equal((await post('/v1/captcha', '127.0.0.1', page)).status, 200)
})

t.test('a preflight tells browsers which origins, methods and headers are allowed', async t => {
  const { app } = await open(t, { env: { ACCOUNTS_FILE: fileOf(t, [shop]) }, routes: who })
  const preflight = (url: string, origin: string) =>
    app.inject({
      method: 'OPTIONS',
      url,
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type'
      }
    })
  for (const url of ['/v1/captcha', '/v1/captcha/verify', '/v1/captcha/some-id']) {
    const { statusCode, headers } = await preflight(url, 'https://shop.example')
    t.equal(statusCode, 204, url)
    t.match(headers, {
      'access-control-allow-origin': 'https://shop.example',
      'access-control-allow-methods': 'GET, POST, DELETE',
      'access-control-allow-headers': 'content-type, idempotency-key, accept-language',
      'access-control-max-age': '600',
      vary: /Origin/
    })
    t.notOk('access-control-allow-credentials' in headers)
    const view = await preflight(url, 'capacitor://shop.example')
    t.equal(view.headers['access-control-allow-origin'], 'capacitor://shop.example', 'the web view of an app')
    const other = await preflight(url, 'https://evil.example')
    t.match(other, { statusCode: /40[45]/, headers: { 'content-type': 'application/problem+json' } })
    t.notOk('access-control-allow-origin' in other.headers)
  }
  t.notOk('access-control-allow-origin' in (await preflight('/keyed', 'https://shop.example')).headers)
  const half = { method: 'OPTIONS', url: '/v1/captcha', headers: { origin: 'https://shop.example' } } as const
  t.equal(
    (await app.inject(half)).statusCode,
    204,
    'an OPTIONS request that is no preflight is answered 204, too'
  )
  // The page can read an error, too.
  const headers = { origin: 'https://shop.example', 'x-api-key': 'wrong' }
  const refused = await ask(app, 'POST', '/v1/captcha', { headers })
  t.match(refused, {
    status: 401,
    headers: { 'access-control-allow-origin': 'https://shop.example', vary: 'Origin, accept-language' }
  })
  t.match(
    refused.headers['access-control-expose-headers'],
    'date, retry-after, ratelimit, ratelimit-policy, idempotency-replayed'
  )
})

t.test('a caller without a key is not told what is left of the quota of its account', async t => {
  const file = join(folderOf(t), 'policy.json')
  const own = JSON.parse(readFileSync(OWN, 'utf8'))
  const write = (change: Partial<Rule>) => {
    const rules = own.rules.map((rule: Rule) => (rule.name === 'account' ? { ...rule, ...change } : rule))
    writeFileSync(file, JSON.stringify({ ...own, rules }))
  }
  const told = async (env: NodeJS.ProcessEnv, caller: Record<string, string>) => {
    const app = await startApp(t, env, {})
    const payload = { purpose: 'login', phone: '+8613800138000' }
    const { statusCode, headers } = await app.inject({
      method: 'POST',
      url: '/v1/captcha',
      payload,
      headers: caller
    })
    t.equal(statusCode, 202)
    const policies = String(headers.ratelimit).match(/(?<=")[a-z]+(?=[-"])/g)
    return [...new Set(policies)]
  }
  const page = { origin: 'http://localhost:5173' }
  t.same(await told({}, page), ['ip'])
  t.same(
    await told({}, {}),
    ['ip'],
    'a caller without key and origin is told the limits of the address alone'
  )
  t.same(await told({}, { 'x-api-key': 'development-key' }), ['ip', 'account'])
  write({ key: { digest: ['request.account.id'] } })
  t.same(await told({ POLICY_FILE: file }, page), ['ip'], 'the key of the rule makes no difference')
  write({ private: false })
  t.same(
    await told({ POLICY_FILE: file }, page),
    ['ip', 'account'],
    'the limits of a rule that is not private are told'
  )
})

t.test('pages may call the captcha endpoints, and no others', async t => {
  const app = await startApp(t, {}, {})
  const headers = { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' }
  const allowed = async (url: string) =>
    (await app.inject({ method: 'OPTIONS', url, headers })).headers['access-control-allow-origin']
  const id = 'A'.repeat(22)
  for (const path of ['', '/verify', `/${id}`, `/${id}/resend`])
    t.equal(await allowed(`/v1/captcha${path}`), headers.origin, path)
  for (const url of ['/v1/sms', '/v1/mail', '/v1/dev/outbox']) t.equal(await allowed(url), undefined, url)
})

t.test('outside of production, with no accounts configured, the captcha endpoints need no key', async t => {
  const { app } = await open(t, { routes: who })
  for (const headers of KEYLESS) {
    const newcomer = await ask(app, 'POST', '/v1/captcha', { headers })
    t.same(newcomer.body, { account: 'development', caller: null })
  }
  t.match(await ask(app, 'POST', '/keyed'), { status: 401, body: { code: 'API_KEY_MISSING' } })
  const mistaken = { headers: { 'x-api-key': 'some-key' } }
  t.match(await ask(app, 'POST', '/v1/captcha', mistaken), { status: 401, body: { code: 'API_KEY_UNKNOWN' } })
  for (const origin of [
    'http://127.0.0.1:3000',
    'https://localhost:5173',
    'http://[::1]:3000',
    'http://localhost'
  ]) {
    const own = await ask(app, 'POST', '/v1/captcha', { headers: { origin } })
    t.same(own.body, { account: 'development', caller: 'origin' })
  }
  for (const origin of [
    'https://evil.example',
    'http://localhost.evil.example',
    'null',
    'xhttp://localhost'
  ]) {
    t.match(await ask(app, 'POST', '/v1/captcha', { headers: { origin } }), { status: 403 })
  }
  for (const API_KEYS of ['some-key:shop', 'some-key:development']) {
    const configured = await open(t, { env: { API_KEYS }, routes: who })
    t.match(await ask(configured.app, 'POST', '/v1/captcha'), { status: 401 }, API_KEYS)
  }
  const production = await open(t, {
    env: { NODE_ENV: 'production', API_KEYS: `${'k'.repeat(24)}:shop` },
    routes: who
  })
  t.match(await ask(production.app, 'POST', '/v1/captcha'), {
    status: 401,
    body: { code: 'API_KEY_MISSING' }
  })
})

import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import type { Key, Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { folderOf } from '../helper/folder.js'
import { listen } from '../helper/listen.js'
import { logStream } from '../helper/log-stream.js'
import { strays } from '../helper/strays.js'
import type { Teardown } from '../helper/teardown.js'

const limits = [{ max: 1, window: '60s' }]

async function route(
  t: Teardown,
  key: Key,
  more: Pick<Rule, 'optional' | 'allow' | 'block'> = {},
  server = {}
) {
  const opened = await open(t, {}, server)
  opened.app.post('/x', { config: { limit: { name: 'a', key, limits, ...more } } }, async () => 'sent')
  return opened
}

t.test('a request whose key is missing is answered with 400, one whose key is invalid with 422', async t => {
  const table: [key: Key, body: unknown, status: number, message?: string][] = [
    [{ phone: 'body.phone' }, {}, 400, 'body.phone is missing or not a scalar value'],
    [{ phone: 'body.phone' }, { phone: null }, 400],
    [{ phone: 'body.phone' }, { phone: {} }, 400],
    [{ phone: 'body.phone' }, { phone: ['13800138000'] }, 400],
    [{ phone: 'body.phone' }, undefined, 400],
    [{ phone: 'body.phone' }, { phone: '' }, 422, 'body.phone is not a valid phone number'],
    [{ phone: 'body.phone' }, { phone: '12' }, 422],
    [{ phone: 'body.phone' }, { phone: true }, 422],
    [{ phone: 'body.phone' }, { phone: '13800138000\u0000' }, 422],
    [{ phone: 'body.phone' }, { phone: '\ud800' }, 422],
    [{ phone: 'body.phone' }, { phone: '9'.repeat(500_000) }, 422],
    [{ phone: 'body.phone' }, { phone: 13_800_138_000 }, 200],
    [{ email: 'body.to' }, { to: 'nobody' }, 422, 'body.to is not a valid mail address'],
    [{ email: 'body.to' }, { to: `${'a'.repeat(500_000)}@example.com` }, 422],
    [{ email: 'body.to' }, { to: 'a@example.com, b@example.com' }, 422],
    [{ ip: 'body.host' }, { host: '999.1.1.1' }, 422, 'body.host is not a valid network address'],
    [{ ip: 'body.host' }, {}, 400],
    [{ value: 'body.id' }, { id: { a: 1 } }, 400, 'body.id is missing or not a scalar value'],
    [{ value: 'body.id' }, { id: '' }, 200],
    [{ value: 'body.id' }, { id: 0 }, 200],
    [{ value: 'body.id' }, { id: false }, 200],
    [{ value: 'body.id' }, { id: '\ud800\u202e\u0000' }, 200],
    [{ value: 'body.id' }, { id: 'x'.repeat(900_000) }, 200],
    [['ip', { value: 'body.id' }], {}, 400],
    [{ digest: ['body.a', 'body.b'] }, {}, 400, 'body.a, body.b is missing or not a scalar value'],
    [{ digest: ['body.a', 'body.b'] }, { a: 1 }, 200],
    [{ digest: ['body.a', 'body.b'] }, { a: null }, 200],
    [
      { digest: ['body'] },
      { deep: JSON.parse(`${'['.repeat(63)}${']'.repeat(63)}`) },
      422,
      'body is not a valid content: it is nested too deeply'
    ],
    [{ digest: ['body'] }, { deep: JSON.parse(`${'['.repeat(62)}${']'.repeat(62)}`) }, 200],
    [
      { digest: [{ phone: 'body.phone' }, 'body.a'] },
      { phone: '12', a: 1 },
      422,
      'body.phone is not a valid phone number'
    ],
    [{ digest: [{ phone: 'body.phone' }, 'body.a'] }, { a: 1 }, 200],
    [{ digest: [{ phone: 'body.phone' }, 'body.a'] }, { phone: null, a: 1 }, 200]
  ]
  for (const [key, body, status, message] of table) {
    const { app, post } = await route(t, key)
    const reply = await post('/x', body)
    t.equal(reply.statusCode, status, `${JSON.stringify(key)} ${JSON.stringify(body)?.slice(0, 60)}`)
    if (message) t.equal(reply.json().detail ?? reply.json().message, message)
    if (status !== 200) t.match(reply.json().code, /^FST_SEND_LIMIT_KEY_/)
    await app.close()
  }
})

t.test('a request whose key is missing or invalid counts under no rule', async t => {
  const { app, post } = await open(t, {
    rules: [
      { name: 'ip', key: 'ip', limits },
      { name: 'mobile', key: { phone: 'body.phone' }, limits }
    ]
  })
  app.post('/x', { config: { limit: ['ip', 'mobile'] } }, async () => 'sent')
  for (const body of [{}, { phone: '12' }, { phone: [] }]) t.not((await post('/x', body)).statusCode, 200)
  t.equal((await app.limit.peek({ ip: '127.0.0.1' })).rules[0]?.limits[0]?.remaining, 1)
  t.equal((await post('/x', { phone: '13800138000' })).statusCode, 200)
})

t.test('an optional rule does not apply when its key is missing', async t => {
  const { post } = await route(t, { phone: 'body.phone' }, { optional: true })
  for (const body of [{}, { phone: null }, {}, {}]) t.equal((await post('/x', body)).statusCode, 200)
  // A key that is there must be valid, so that a wrong spelling is no way around a limit.
  t.equal((await post('/x', { phone: '12' })).statusCode, 422)
  t.equal((await post('/x', { phone: {} })).statusCode, 400)
  t.equal((await post('/x', { phone: '13800138000' })).statusCode, 200)
  t.equal((await post('/x', { phone: '13800138000' })).statusCode, 429)
})

t.test('an optional rule does not apply when one of several parts of its key is missing', async t => {
  const { post } = await route(t, [{ phone: 'body.phone' }, { value: 'body.purpose' }], { optional: true })
  for (const body of [{ phone: '13800138000' }, { purpose: 'a' }, { phone: '13800138000' }])
    t.equal((await post('/x', body)).statusCode, 200)
  for (const status of [200, 429])
    t.equal((await post('/x', { phone: '13800138000', purpose: 'a' })).statusCode, status)
})

t.test('in calls outside of routes a content that is a list is the content of such a body', async t => {
  const { app, post } = await open(t, { rules: [{ name: 'content', key: { digest: ['body'] }, limits }] })
  app.post('/x', { config: { limit: 'content' } }, async () => 'sent')
  await app.limit.block({ content: [['a']] })
  t.equal((await post('/x', ['a'])).statusCode, 403)
  await app.limit.block({ content: ['b', 'c'] })
  t.equal((await post('/x', ['b', 'c'])).statusCode, 403)
  t.equal((await post('/x', ['b'])).statusCode, 200)
})

t.test('in calls outside of routes a content of two values is a list of two', async t => {
  const { app } = await open(t, {
    rules: [{ name: 'content', key: { digest: ['body.a', 'body.b'] }, limits }]
  })
  for (const content of ['a', ['a'], ['a', 'b', 'c']]) {
    await t.rejects(app.limit.block({ content }), {
      code: 'FST_SEND_LIMIT_KEY_INVALID',
      message: 'body.a, body.b is not a valid content: it is a list of 2 values'
    })
  }
  await app.limit.block({ content: ['a', 'b'] })
})

t.test('in calls outside of routes a content without any value is missing, as in a route', async t => {
  const content: Rule = { name: 'content', key: { digest: ['body.a', { phone: 'body.b' }] }, limits }
  const spare: Rule = { ...content, name: 'spare', optional: true }
  const values: Rule = { name: 'values', key: 'ip', distinct: { digest: ['body.a'] }, limits }
  const { app } = await open(t, { rules: [content, spare, values] })
  const missing = { code: 'FST_SEND_LIMIT_KEY_MISSING' }
  await t.rejects(app.limit.peek({ content: [undefined, undefined] }), missing)
  await t.rejects(app.limit.peek({ values: ['192.0.2.1', [undefined]] }), missing)
  t.same((await app.limit.peek({ spare: [undefined, undefined] })).rules, [])
  t.match((await app.limit.peek({ content: ['a', undefined] })).rules, [{ name: 'content' }])
})

t.test('region and network prefixes come from the part, or else from the options', async t => {
  const rules: Rule[] = [
    { name: 'here', key: { phone: 'body.phone' }, limits },
    { name: 'there', key: { phone: 'body.phone', region: 'GB' }, limits },
    { name: 'network', key: 'ip', limits },
    { name: 'wider', key: [{ ip: 'request.ip', ipv6Prefix: 32 }], limits },
    { name: 'widest', key: { ip: 'request.ip', ipv4Prefix: 16 }, limits }
  ]
  const { app } = await open(t, { rules, region: 'US', ipv4Prefix: 24, ipv6Prefix: 48 })
  for (const [name, one, same] of [
    ['here', '212-555-0123', '+12125550123'],
    ['there', '020 7946 0018', '+442079460018'],
    ['network', '2001:db8:1:2::1', '2001:db8:1:3::1'],
    ['wider', '2001:db8:1:2::1', '2001:db8:4:3::1'],
    ['network', '192.0.2.1', '192.0.2.2'],
    ['widest', '192.0.2.1', '192.0.3.1'],
    ['widest', '2001:db8:1:2::1', '2001:db8:1:3::1']
  ] as const) {
    t.ok((await app.limit.reserve({ [name]: one })).allowed, name)
    t.notOk((await app.limit.peek({ [name]: same })).allowed, name)
  }
  t.ok((await app.limit.peek({ network: '2001:db8:2:2::1' })).allowed)
  t.ok((await app.limit.peek({ wider: '2001:db9:1:2::1' })).allowed)
  for (const network of ['192.0.3.1', '::ffff:192.0.3.2'])
    t.equal((await app.limit.reserve({ network })).allowed, network === '192.0.3.1', network)
  t.ok((await app.limit.reserve({ wider: '192.0.2.1' })).allowed)
  t.ok((await app.limit.peek({ wider: '192.0.3.1' })).allowed)
  t.notOk(
    (await app.limit.peek({ wider: '192.0.2.2' })).allowed,
    'by the option, since the part has no ipv4Prefix'
  )
})

t.test('a value that a hook has put on the request may be a promise', async t => {
  const { app, post } = await open(t)
  app.decorateRequest('who', null as unknown)
  app.addHook('preHandler', async request => {
    Object.assign(request, { who: Promise.resolve((request.body as { who: string }).who) })
  })
  const limit: Rule = { name: 'a', key: { value: 'request.who' }, limits }
  app.post('/x', { config: { limit } }, async () => 'sent')
  const ask = async (who: string) => (await post('/x', { who })).statusCode
  t.same([await ask('a'), await ask('a'), await ask('b')], [200, 429, 200])
})

t.test('a path that ends at a function or a symbol is a mistake of the app, not of the client', async t => {
  const { app, post } = await open(t)
  app.decorateRequest('who', null as unknown)
  app.addHook('onRequest', async request => {
    Object.assign(request, { who: { fn: () => 'a', symbol: Symbol('a') } })
  })
  const limitOf = (path: string): Rule => ({ name: 'a', key: { value: path }, limits, optional: true })
  app.post('/fn', { config: { limit: limitOf('request.who.fn') } }, async () => 'sent')
  app.post('/symbol', { config: { limit: limitOf('request.who.symbol') } }, async () => 'sent')
  for (const [url, kind] of [
    ['/fn', 'a function'],
    ['/symbol', 'a symbol']
  ] as const) {
    const message = `${url.replace('/', 'request.who.')} must be a string, number or boolean, but is ${kind}`
    t.match((await post(url)).json(), { statusCode: 500, code: 'FST_SEND_LIMIT_FUNCTION', message })
  }
})

t.test('a content that cannot be compared is invalid', async t => {
  const { app } = await open(t, { rules: [{ name: 'content', key: { digest: ['body'] }, limits }] })
  for (const content of [new Map([['a', 1]]), { toBuffer: () => '' }, { a: Symbol('a') }]) {
    await t.rejects(app.limit.peek({ content }), {
      code: 'FST_SEND_LIMIT_KEY_INVALID',
      message: 'body is not a valid content: it holds what cannot be compared'
    })
  }
})

t.test('an IPv4 address in a content is the same as its IPv6 form', async t => {
  const { post } = await route(t, { digest: ['ip', 'body.a'] })
  const ask = async (remoteAddress: string, a: number) =>
    (await post('/x', { a }, { remoteAddress })).statusCode
  t.same(
    [
      await ask('192.0.2.1', 1),
      await ask('::ffff:192.0.2.1', 1),
      await ask('192.0.2.1', 2),
      await ask('192.0.2.2', 1)
    ],
    [200, 429, 200, 200]
  )
})

t.test('keys of several parts differ when their parts are split differently', async t => {
  const key = [{ value: 'body.a' }, { value: 'body.b' }]
  const { app } = await open(t, { rules: [{ name: 'pair', key, limits }] })
  for (const pair of [
    ['x', 'y5:valuez'],
    ['x5:valuey', 'z']
  ])
    t.ok((await app.limit.reserve({ pair })).allowed, `${pair}`)
})

t.test('the same text has a different key for each kind of identity', async t => {
  const key: Key[] = [{ value: 'body.to' }, { phone: 'body.to' }, () => '', { digest: ['body.to'] }]
  const rules = key.map((key, i) => ({ name: `r${i}`, key, limits }))
  const { app } = await open(t, { rules, secret: '0123456789abcdef' })
  const text = '+8613800138000'
  const { keys } = await app.limit.reserve(Object.fromEntries(rules.map(({ name }) => [name, text])))
  t.equal(new Set(Object.values(keys)).size, rules.length)
})

t.test('"all" is one key, whatever is given for it', async t => {
  const { app } = await open(t, { rules: [{ name: 'service', key: 'all', limits }] })
  t.ok((await app.limit.reserve({ service: undefined })).allowed)
  for (const service of [undefined, null, 'x', 5, {}, ['x', 'y']])
    t.notOk((await app.limit.peek({ service })).allowed, `${service}`)
})

t.test('the option digest changes the keys of contents, and not those of identities', async t => {
  const rules: Rule[] = [
    { name: 'content', key: { digest: ['body'] }, limits },
    { name: 'mobile', key: { phone: 'body.phone' }, limits }
  ]
  const keysBy = async (digest?: 'md5' | 'sha256') => {
    const { app } = await open(t, { rules, ...(digest && { digest }), secret: '0123456789abcdef' })
    return (await app.limit.reserve({ content: 'a', mobile: '13800138000' })).keys
  }
  const [md5, sha256] = [await keysBy('md5'), await keysBy('sha256')]
  t.equal(md5.mobile, sha256.mobile)
  t.not(md5.content, sha256.content)
  t.same(await keysBy(), md5)
})

t.test('without the option each app has a random secret of its own', async t => {
  const rules: Rule[] = [{ name: 'mobile', key: { phone: 'body.phone' }, limits }]
  const keys = async () =>
    (await (await open(t, { rules })).app.limit.reserve({ mobile: '13800138000' })).keys
  t.not((await keys()).mobile, (await keys()).mobile)
})

t.test('IPv6 networks have 64 bits by default', async t => {
  const { app } = await open(t, { rules: [{ name: 'network', key: 'ip', limits }] })
  t.ok((await app.limit.reserve({ network: '2001:db8:0:1::1' })).allowed)
  t.notOk((await app.limit.peek({ network: '2001:db8:0:1:ffff::' })).allowed)
  t.ok((await app.limit.peek({ network: '2001:db8::1' })).allowed)
})

t.test('hostile bodies are refused, and other spellings of one JSON are one content', async t => {
  const { post } = await route(t, { digest: ['body'] })
  const raw = (payload: string, type = 'application/json') =>
    post('/x', payload, { headers: { 'content-type': type } })
  t.equal((await raw('{"__proto__": {"a": 1}}')).statusCode, 400, 'Fastify refuses it')
  t.equal((await raw('{"constructor": {"prototype": {"a": 1}}}')).statusCode, 400)
  t.equal((await raw(`"${'x'.repeat(2 ** 20)}"`)).statusCode, 413, 'a megabyte')
  t.equal((await raw(`${'['.repeat(200_000)}${']'.repeat(200_000)}`)).statusCode, 422, 'nested 200,000 deep')
  t.equal((await raw('{')).statusCode, 400)
  t.equal((await raw('a=1', 'application/x-www-form-urlencoded')).statusCode, 415)
  t.equal((await raw('{"a": 1}')).statusCode, 200)
  t.equal((await raw('{ "a": 1.0 }')).statusCode, 429)
})

t.test('prototype keys that the parser lets through are content, and never read as values', async t => {
  const lax = { onProtoPoisoning: 'ignore', onConstructorPoisoning: 'ignore' } as const
  const whole = await route(t, { digest: ['body'] }, {}, lax)
  const headers = { 'content-type': 'application/json' }
  for (const payload of [
    '{"__proto__": {"a": 1}}',
    '{"__proto__": {"a": 2}}',
    '{"constructor": {"prototype": {"a": 1}}}',
    '{}'
  ]) {
    t.equal(
      (await whole.post('/x', payload, { headers })).statusCode,
      200,
      `${payload} is a content of its own`
    )
    t.equal((await whole.post('/x', payload, { headers })).statusCode, 429)
  }
  const phone = await route(t, { value: 'body.phone' }, {}, lax)
  t.equal((await phone.post('/x', '{"__proto__": {"phone": "1"}}', { headers })).statusCode, 400)
  t.equal(({} as { a?: unknown }).a, undefined)
})

t.test('a key function returns a scalar value, or a promise of one', async t => {
  const never = new Promise<string>(() => {})
  const table: [answer: () => unknown, status: number, message?: RegExp][] = [
    [() => 'a', 200],
    [() => 5, 200],
    [() => 5n, 200],
    [() => true, 200],
    [async () => 'a', 200],
    // biome-ignore lint/suspicious/noThenProperty: a thenable without a catch
    [() => ({ then: (resolve: (answer: string) => void) => resolve('a') }), 200],
    [() => undefined, 400, /^the key of a is missing or not a scalar value$/],
    [() => null, 400],
    [async () => undefined, 400],
    [
      () => ({ id: 1 }),
      500,
      /^POST \/x: config\.limit\.key must return a string, a number or a boolean, but returned an object$/
    ],
    [async () => ['a'], 500, /, but returned an array$/],
    [() => Number.NaN, 500, /, but returned NaN$/],
    [() => -Infinity, 500, /, but returned -Infinity$/],
    [() => Symbol('a'), 500, /, but returned a symbol$/],
    [() => () => 'a', 500, /, but returned a function$/],
    [
      () => {
        throw new Error('database down')
      },
      500,
      /^database down$/
    ],
    [async () => Promise.reject(new Error('database down')), 500, /^database down$/],
    [() => never, 503, /^the key of a took longer than 20 ms$/]
  ]
  for (const counts of ['sends', 'attempts'] as const) {
    for (const [answer, status, message] of table) {
      const { app, post } = await open(t, { timeout: 20 })
      app.post(
        '/x',
        { config: { limit: { name: 'a', key: answer as never, limits, counts } } },
        async () => 'sent'
      )
      const reply = await post('/x', {})
      t.equal(reply.statusCode, status, `${counts} ${answer}`)
      if (message) t.match(reply.json().detail ?? reply.json().message, message)
      if (status === 200) t.equal((await post('/x', {})).statusCode, 429, 'counted')
      await app.close()
    }
  }
})

t.test('a key that is a promise works beside other keys and after another stage', async t => {
  const { app, post } = await open(t)
  const limit: Rule[] = [
    { name: 'flood', key: 'ip', counts: 'attempts', limits: [{ max: 9, window: '60s' }] },
    { name: 'late', key: async () => 'a', limits },
    { name: 'now', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  ]
  app.post('/x', { config: { limit } }, async (_request, reply) => reply.limit)
  t.match(await post('/x', {}).then(reply => reply.json().rules), [
    { name: 'flood', limits: [{ remaining: 8 }] },
    { name: 'late', limits: [{ remaining: 0 }] },
    { name: 'now', limits: [{ remaining: 8 }] }
  ])
  t.equal((await post('/x', {})).statusCode, 429)
})

t.test('a key function gets the request', async t => {
  const { app, post } = await route(t, [
    req => req.headers['x-a'] as string,
    async req => (req.body as { b: string }).b
  ])
  const ask = (a: string, b: string) =>
    post('/x', { b }, { headers: { 'x-a': a } }).then(reply => reply.statusCode)
  t.same(
    [await ask('1', '2'), await ask('1', '2'), await ask('12', ''), await ask('', '12')],
    [200, 429, 200, 200]
  )
  t.same(Object.keys(app.limit.rules), ['a@POST /x'])
})

t.test('a promise that a hook has put on the request is waited for', async t => {
  const later = { value: 'request.later' }
  // The phone number is spelled in two ways.
  for (const [key, answers, statuses] of [
    [later, ['a', 'a', 'b'], [200, 429, 200]],
    [
      ['ip', later],
      ['a', 'a', 'b'],
      [200, 429, 200]
    ],
    [{ digest: ['request.later'] }, ['a', 'a', 'b', undefined], [200, 429, 200, 400]],
    [{ digest: ['body.x', 'request.later'] }, ['a', 'a', 'b', undefined], [200, 429, 200, 200]],
    [{ digest: [{ phone: 'request.later' }] }, ['13800138000', '+86 13800138000', '1'], [200, 429, 422]],
    [
      ['ip', { digest: ['request.later', 'body.x'] }],
      ['a', 'a', 'b'],
      [200, 429, 200]
    ]
  ] as [Key, unknown[], number[]][]) {
    const { app, post } = await route(t, key)
    app.decorateRequest('later', { getter: () => Promise.resolve(answers.shift()) })
    const got: number[] = []
    while (answers.length > 0) got.push((await post('/x', { x: 1 })).statusCode)
    t.same(got, statuses, JSON.stringify(key))
  }
})

t.test('when two key functions fail at once, there is one answer, and no unhandled rejection', async t => {
  const boom = () => {
    throw new Error('now')
  }
  const later = async () => Promise.reject(new Error('later'))
  const stray = strays(t)
  // Both in one rule, or in two rules.
  const onRequest = { value: 'request.later' }
  for (const keys of [
    [[later, boom]],
    [later, boom],
    [[later, 'ip'], boom],
    [[onRequest, boom]],
    [onRequest, boom],
    [{ digest: ['request.later'] }, boom]
  ]) {
    const { app, post } = await open(t)
    app.decorateRequest('later', { getter: () => later() })
    const limit = keys.map((key, i) => ({ name: `${i}`, key, limits })) as Rule[]
    app.post('/x', { config: { limit } }, async () => 'sent')
    t.equal((await post('/x', {})).json().message, 'now')
    await new Promise(resolve => setImmediate(resolve))
    await app.close()
  }
  t.same(stray, [])
})

t.test('a max function counts up to its ceiling, and anything but a number is an error', async t => {
  const table: [answer: (max: string) => unknown, results: (number | string)[]][] = [
    [max => Number(max), [200, 200, 429]],
    [() => 1.9, [200, 429]],
    [() => 100, [200, 200, 200, 429]],
    [() => Infinity, [200, 200, 200, 429]],
    [() => 0, [429]],
    [() => -1, [429]],
    [() => Number.NaN, [500]],
    [() => '2', [500]],
    [() => undefined, [500]],
    [async () => 2, [500]],
    [
      () => {
        throw new Error('no account')
      },
      [500]
    ]
  ]
  for (const counts of ['sends', 'attempts'] as const) {
    for (const [answer, results] of table) {
      const { app } = await open(t)
      const max = (req: { headers: Record<string, unknown> }) =>
        answer(String(req.headers['x-max'])) as number
      const limit = { name: 'paid', key: 'ip' as const, limits: [{ max, ceiling: 3, window: '60s' }], counts }
      app.get('/x', { config: { limit } }, async () => 'sent')
      for (const status of results) {
        const reply = await app.inject({ url: '/x', headers: { 'x-max': '2' } })
        t.equal(reply.statusCode, status, `${counts} ${answer}`)
      }
      await app.close()
    }
  }
})

t.test('a max function is asked at each request', async t => {
  const { app, advance } = await open(t)
  const key = { value: 'headers.x-account' } as const
  const max = (req: { headers: Record<string, unknown> }) => Number(req.headers['x-max'])
  app.get(
    '/x',
    { config: { limit: { name: 'paid', key, limits: [{ max, ceiling: 3, per: 'day' }] } } },
    async (_req, reply) => reply.limit
  )
  const ask = (n: number) => app.inject({ url: '/x', headers: { 'x-account': 'a', 'x-max': `${n}` } })
  t.equal((await ask(1)).json().rules[0].limits[0].max, 1)
  t.equal((await ask(1)).statusCode, 429)
  t.match((await ask(2)).json().rules[0].limits[0], { max: 2, remaining: 0 })
  t.match((await ask(3)).json().rules[0].limits[0], { max: 3, remaining: 0 })
  for (const max of [0, -1]) {
    const none = await ask(max)
    t.equal(none.statusCode, 429)
    t.equal(none.json().retryAfterMs, null, `no time at which ${max} admits`)
    t.notOk('retry-after' in none.headers)
  }
  advance(86_400_000)
  t.equal((await ask(1)).statusCode, 200)
})

t.test(
  'keys on an allow list pass uncounted, keys on a block list are refused, and allow beats block',
  async t => {
    const table: [
      key: Key,
      lists: { allow?: string[]; block?: string[] },
      free: string[],
      blocked: string[],
      counted: string[]
    ][] = [
      [
        { phone: 'body.who' },
        { allow: ['138 0013 8000'], block: ['+86 139 1234 5678'] },
        ['+8613800138000'],
        ['13912345678'],
        ['13700137000']
      ],
      [
        { email: 'body.who' },
        { allow: ['a@example.com'], block: ['B@Example.com'] },
        ['A+tag@EXAMPLE.com'],
        ['b@example.com'],
        ['c@example.com']
      ],
      [{ value: 'body.who' }, { allow: ['1'], block: ['true'] }, ['1'], ['true'], ['2', 'TRUE']],
      [req => (req.body as { who: string }).who, { allow: ['a'], block: ['b'] }, ['a'], ['b'], ['c']],
      [
        { ip: 'body.who' },
        { allow: ['192.0.2.0/24', '2001:db8::/32'], block: ['198.51.100.7', 'fc00::/7'] },
        ['192.0.2.9', '::ffff:192.0.2.200', '2001:db8:1::5'],
        ['198.51.100.7', '::ffff:c633:6407', 'fd00::1'],
        ['198.51.100.8', '2001:db9::1']
      ],
      [{ ip: 'body.who' }, { allow: ['::ffff:192.0.2.0/120'] }, ['192.0.2.1'], [], ['192.0.3.1']],
      // A single address is not taken for its network.
      [{ ip: 'body.who' }, { block: ['2001:db8::1'] }, [], ['2001:DB8:0::1'], ['2001:db8::2']],
      // Allow beats block.
      [
        { ip: 'body.who' },
        { allow: ['10.1.0.0/16'], block: ['10.0.0.0/8'] },
        ['10.1.2.3'],
        ['10.2.0.1'],
        ['11.0.0.1']
      ],
      [{ value: 'body.who' }, { allow: ['a'], block: ['a', 'b'] }, ['a'], ['b'], ['c']]
    ]
    for (const [key, lists, free, blocked, counted] of table) {
      const { post } = await route(t, key, lists)
      const ask = async (who: string) => (await post('/x', { who })).statusCode
      for (const who of free)
        t.same([await ask(who), await ask(who), await ask(who)], [200, 200, 200], `${who} is allowed`)
      for (const who of blocked) t.same([await ask(who), await ask(who)], [403, 403], `${who} is blocked`)
      for (const who of counted) t.same([await ask(who), await ask(who)], [200, 429], `${who} is counted`)
    }
  }
)

t.test('in calls outside of routes a value that is no scalar is missing', async t => {
  const { app } = await open(t, { rules: [{ name: 'a', key: { value: 'body.a' }, limits }] })
  for (const a of [NaN, Infinity, {}, ['a'], new Date(0)])
    await t.rejects(app.limit.peek({ a }), { code: 'FST_SEND_LIMIT_KEY_MISSING' })
})

t.test('values that differ in any character are different keys', async t => {
  const { app } = await open(t, { rules: [{ name: 'a', key: { value: 'body.a' }, limits }] })
  for (const a of ['a', 'A', ' a', 'a ', 'á', 'a\u0301', '', '1', '1.0'])
    t.ok((await app.limit.reserve({ a })).allowed, JSON.stringify(a))
  for (const a of [1, 1n, '1']) t.notOk((await app.limit.peek({ a })).allowed, `${typeof a}`)
})

t.test('a refusal by a block list counts under no other rule, and peek knows the lists', async t => {
  const { app, post } = await open(t, {
    rules: [
      { name: 'ip', key: 'ip', limits },
      {
        name: 'mobile',
        key: { phone: 'body.phone' },
        limits,
        block: ['13800138000'],
        allow: ['13900139000']
      },
      { name: 'seen', key: { phone: 'body.phone' }, limits, mode: 'observe', block: ['13800138001'] }
    ]
  })
  app.post('/x', { config: { limit: ['ip', 'mobile', 'seen'] } }, async () => 'sent')
  t.equal((await post('/x', { phone: '13800138000' })).statusCode, 403)
  t.match(await app.limit.peek({ mobile: '+8613800138000' }), {
    allowed: false,
    refusal: 'blocked',
    retryAfterMs: null,
    violated: [{ rule: 'mobile', windowMs: 0 }]
  })
  const other = await app.limit.peek({ mobile: '13900139000' })
  t.same([other.allowed, other.violated, other.rules], [true, [], []])
  t.match(await app.limit.peek({ seen: '13800138001' }), {
    allowed: true,
    observed: [{ rule: 'seen', windowMs: 0 }]
  })
  t.match(await app.limit.peek({ mobile: '13800138000', seen: '13800138001' }), {
    violated: [{ rule: 'mobile', windowMs: 0 }],
    observed: [{ rule: 'seen', windowMs: 0 }]
  })
  const { rules } = await app.limit.peek({ ip: '127.0.0.1', seen: '13800138001' })
  t.same(
    rules.map(rule => rule.name),
    ['ip'],
    'a rule that does not count is not listed'
  )
  t.match(await app.limit.peek({ ip: '127.0.0.1' }), { rules: [{ limits: [{ remaining: 1 }] }] })
  t.equal((await post('/x', { phone: '13800138001' })).statusCode, 200, 'an observed block refuses nothing')
})

t.test(
  'rules by address do not apply to requests over a Unix socket, which has none',
  { skip: process.platform === 'win32' },
  async t => {
    const folder = folderOf(t)
    const firstHop = (_: string, hop: number) => hop === 0
    const local = (address: string) => address === '127.0.0.1'
    for (const [i, trustProxy] of [false, 'loopback', 1, firstHop, local].entries()) {
      const { lines, stream } = logStream()
      const server = { trustProxy: trustProxy as never, logger: { level: 'warn', stream } }
      const { app } = await open(t, {}, server)
      const limit = [
        { name: 'ip', key: 'ip' as const, limits },
        { name: 'too', key: { ip: 'request.ip' }, limits },
        { name: 'alone', key: { digest: ['request.ip'] }, limits },
        { name: 'flood', key: 'ip' as const, limits, counts: 'attempts' as const }
      ]
      app.get('/x', { config: { limit } }, async () => 'sent')
      const among = { name: 'among', key: { digest: ['ip', 'headers.x-id'] }, limits }
      app.get('/among', { config: { limit: among } }, async () => 'sent')
      const socketPath = join(folder, `${i}`)
      await app.listen({ path: socketPath })
      const ask = async (path: string, headers = {}) => {
        const [response] = await once(request({ socketPath, path, headers }).end(), 'response')
        response.resume()
        return response.statusCode
      }
      const forwarded = { 'x-forwarded-for': '192.0.2.1' }
      const limited = trustProxy === firstHop
      t.same(
        [await ask('/x', forwarded), await ask('/x', forwarded), await ask('/x')],
        [200, limited ? 429 : 200, 200],
        `trustProxy: ${trustProxy}`
      )
      t.equal(await ask('/among'), 400, 'a content without any value is missing')
      const headers = { 'x-id': '1' }
      t.same([await ask('/among', headers), await ask('/among', headers)], [200, 429])

      const warned = lines.flatMap(
        line => /the rule (\S+) counts by address, but requests over a Unix socket/.exec(line)?.[1] ?? []
      )
      t.same(warned, limited ? [] : ['ip', 'too', 'alone', 'flood', 'among'])
      lines.length = 0
      app.limit.replace([{ name: 'later', key: 'ip', limits }])
      t.equal(
        lines.some(line => /the rule later .* over a Unix socket/.test(line)),
        !limited
      )
    }
  }
)

t.test(
  'behind proxies that are counted, a rule by address takes the client that the outermost names',
  async t => {
    for (const [proxies, way] of [
      [1, '192.0.2.1'],
      [2, '192.0.2.1, 198.51.100.7']
    ] as const) {
      const { lines, stream } = logStream()
      const server = {
        trustProxy: (_: string, hop: number) => hop < proxies,
        logger: { level: 'warn', stream }
      }
      const { app } = await route(t, 'ip', {}, server)
      const ask = async (forwarded: string) =>
        (await app.inject({ method: 'POST', url: '/x', headers: { 'x-forwarded-for': forwarded } }))
          .statusCode
      t.same(
        [await ask(way), await ask(`203.0.113.9, ${way}`), await ask(way.replace('192.0.2.1', '192.0.2.2'))],
        [200, 429, 200],
        `${proxies}`
      )
      t.same(
        lines.filter(line => line.includes('counts by address')),
        []
      )
    }
  }
)

t.test('long and many headers are refused, and repeated headers are one text', async t => {
  const { app } = await route(t, { value: 'headers.x-id' })
  const port = await listen(app)
  const ask = async (headers: Record<string, string | string[]>) => {
    const sent = request({ port, path: '/x', method: 'POST', headers }).end()
    const [response] = await Promise.race([once(sent, 'response'), once(sent, 'error')])
    response.resume?.()
    return response.statusCode ?? response.code
  }
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`x-${i}`, '1']))
  t.equal(await ask({ 'x-id': 'x'.repeat(100_000) }), 431)
  t.equal(await ask({ ...many, 'x-more': 'x'.repeat(16_000) }), 431)
  t.equal(await ask({ 'x-id': ['a', 'b', 'a'] }), 200, 'repeated headers are one text')
  t.equal(await ask({ 'x-id': 'a, b, a' }), 429)
  t.equal(await ask({ 'x-id': 'x'.repeat(8_000) }), 200)
})

t.test('a part of a key, or a distinct value, may be a promise', async t => {
  const limits = [{ max: 1, window: '60s' }]
  const account = async ({ headers }: { headers: Record<string, unknown> }) => String(headers['x-account'])
  for (const rule of [
    { name: 'a', key: [{ value: 'body.to' }, account], limits },
    { name: 'b', key: { value: 'body.to' }, distinct: account, limits }
  ] satisfies Rule[]) {
    const { app, post } = await open(t, { rules: [rule] })
    app.post('/x', { config: { limit: rule.name } }, async () => 'sent')
    const send = async (to: string, by: string) =>
      (await post('/x', { to }, { headers: { 'x-account': by } })).statusCode
    const again = rule.name === 'a' ? [200, 429, 200, 200] : [200, 200, 429, 200]
    t.same([await send('1', 'a'), await send('1', 'a'), await send('1', 'b'), await send('2', 'b')], again)
  }
})

t.test('only key functions that take too long are named in the error', async t => {
  const limits = [{ max: 1, window: '60s' }]
  const never = () => new Promise<string>(() => {})
  const rules: Rule[] = [
    { name: 'at-once', key: () => 'a', limits },
    { name: 'first', key: never, limits },
    { name: 'ip', key: 'ip', limits },
    { name: 'second', key: never, limits }
  ]
  const { app, post } = await open(t, { rules, timeout: 20 })
  app.post('/x', { config: { limit: rules.map(({ name }) => name) } }, async () => 'sent')
  t.match((await post('/x', {})).json(), {
    status: 503,
    detail: 'the key of first or second took longer than 20 ms'
  })
})

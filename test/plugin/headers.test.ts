import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { places } from './settlement/places.js'

interface Item {
  value: string
  parameters: Record<string, number>
}

/**
 * Parses a List of Strings with Integer parameters (RFC 9651 section 4.2): what the headers of
 * draft-ietf-httpapi-ratelimit-headers consist of here. Strict: whatever else there is, throws.
 */
function parseList(text: string): Item[] {
  let rest = text
  const take = (pattern: RegExp): string => {
    const [found] = pattern.exec(rest) ?? []
    if (found === undefined) throw new SyntaxError(`${pattern} expected at ${rest}`)
    rest = rest.slice(found.length)
    return found
  }
  const items: Item[] = []
  while (rest !== '') {
    if (items.length > 0) take(/^[ \t]*,[ \t]*/)
    const quoted = take(/^"(?:[ !#-[\]-~]|\\["\\])*"/)
    const item: Item = { value: quoted.slice(1, -1).replace(/\\(.)/g, '$1'), parameters: {} }
    while (rest.startsWith(';')) {
      take(/^; */)
      const name = take(/^[a-z*][a-z0-9_.*-]*/)
      take(/^=/)
      item.parameters[name] = Number(take(/^-?\d{1,15}(?![\d.])/))
    }
    items.push(item)
  }
  return items
}

/** Both headers together: by policy, its quota and window, what remains, and for how long. */
function policies(headers: Record<string, unknown>): Record<string, number[]> {
  const told = (name: string) => parseList(String(headers[name] ?? ''))
  const states = new Map(told('ratelimit').map(item => [item.value, item.parameters]))
  const found = told('ratelimit-policy').map(({ value, parameters }) => {
    const { r = Number.NaN, t: seconds = Number.NaN } = states.get(value) ?? {}
    return [value, [parameters.q, parameters.w, r, seconds]]
  })
  if (found.length !== states.size) throw new Error('the headers tell of different policies')
  return Object.fromEntries(found)
}

const phone = { phone: 'body.phone' } as const
const body = { phone: '13800138000' }
// Opened before the first test: tap would end the file while nothing runs.
const stores = await places(t)

t.test('the parser is strict', async t => {
  t.same(parseList('"a";q=1;w=60, "b-1h";q=5'), [
    { value: 'a', parameters: { q: 1, w: 60 } },
    { value: 'b-1h', parameters: { q: 5 } }
  ])
  for (const bad of ['a;q=1', '"a";q=1.5', '"a";Q=1', '"a" "b"', '"a",', '"a";q', '"a";q=NaN', '"é"']) {
    t.throws(() => parseList(bad), bad)
  }
})

t.test('admitted replies have headers of rules on the caller, and none of rules on others', async t => {
  const { app, post, advance } = await open(t)
  app.decorateRequest('account', null)
  const limit: Rule[] = [
    {
      name: 'ip',
      key: 'ip',
      limits: [
        { max: 3, window: '60s' },
        { max: 5, window: '1h' }
      ]
    },
    { name: 'account', key: { value: 'request.account.id' }, limits: [{ max: 9, per: 'day' }] },
    { name: 'mobile', key: phone, limits: [{ max: 2, window: '60s' }] },
    { name: 'both', key: ['ip', phone], limits: [{ max: 2, window: '60s' }] },
    {
      name: 'content',
      key: { digest: ['request.account.id', 'body.phone'] },
      limits: [{ max: 9, window: '60s' }]
    },
    { name: 'elsewhere', key: { ip: 'body.host' }, limits: [{ max: 2, window: '60s' }], optional: true },
    { name: 'own', key: () => 'a', limits: [{ max: 4, window: '60s' }] },
    { name: 'seen', key: 'ip', limits: [{ max: 1, window: '60s' }], mode: 'observe' },
    { name: 'flight', key: 'ip', lock: '30s' },
    { name: 'flood', key: 'ip', limits: [{ max: 100, window: '60s' }], counts: 'attempts' }
  ]
  const preHandler = async (req: object) => void Object.assign(req, { account: { id: 1 } })
  app.post('/x', { preHandler, config: { limit } }, async () => 'sent')
  const first = await post('/x', { ...body, host: '192.0.2.1' })
  t.equal(first.statusCode, 200)
  t.strictSame(policies(first.headers), {
    flood: [100, 60, 99, 60],
    'ip-60s': [3, 60, 2, 60],
    'ip-1h': [5, 3_600, 4, 3_600],
    account: [9, 86_400, 8, 86_400]
  })
  t.notOk('retry-after' in first.headers)

  advance(500)
  t.equal((await post('/x', body)).statusCode, 200)
  advance(100)
  const refused = await post('/x', body)
  t.equal(refused.statusCode, 429)
  t.strictSame(policies(refused.headers), {
    flood: [100, 60, 97, 60],
    'ip-60s': [3, 60, 1, 60],
    'ip-1h': [5, 3_600, 3, 3_600],
    account: [9, 86_400, 7, 86_400],
    // Of rules on others only those that refuse.
    mobile: [2, 60, 0, 60],
    both: [2, 60, 0, 60]
  })
  t.same(refused.json()['violated-policies'], ['mobile', 'both'])

  advance(60_000)
  const later = await post('/x', body)
  t.equal(later.statusCode, 200)
  t.strictSame(policies(later.headers), {
    flood: [100, 60, 99, 60],
    'ip-60s': [3, 60, 2, 60],
    'ip-1h': [5, 3_600, 2, 3_540],
    account: [9, 86_400, 6, 86_340]
  })
})

for (const place of stores) {
  t.test(`${place.store}: the headers count a slot that was refunded as left`, async t => {
    const key = 'ip' as const
    const { app } = await place.open(t, [
      { name: 'flood', key, limits: [{ max: 9, window: '60s' }], counts: 'attempts' },
      { name: 'send', key, limits: [{ max: 2, window: '60s' }] },
      { name: 'day', key, limits: [{ max: 5, per: 'day' }] },
      { name: 'wrong', key, limits: [{ max: 3, window: '60s' }], counts: 'failures' }
    ])
    const left: unknown[] = []
    const limit = ['flood', 'send', 'day', 'wrong']
    app.get<{ Params: { how: string } }>('/:how', { config: { limit } }, async (request, reply) => {
      const { how } = request.params
      if (how === 'throws') throw Object.assign(new Error('broken'), { statusCode: 502 })
      if (how === 'refunds') {
        left.push(reply.limit?.retryAfterMs)
        await reply.limit?.refund()
        left.push(reply.limit?.retryAfterMs, reply.limit?.rules[1]?.limits[0])
      }
      if (how === 'keeps') reply.limit?.keep()
      reply.code(how === 'refunds' ? 200 : Number(how) || 502)
      return reply.send('')
    })
    const ask = async (how: string) => {
      const { headers } = await app.inject(`/${how}`)
      place.advance(1)
      return Object.entries(policies(headers)).map(([name, [, , left, seconds]]) => [name, left, seconds])
    }
    const day = 43_200
    const none = (flood: number) => [
      ['flood', flood, 60],
      ['send', 2, 60],
      ['day', 5, day],
      ['wrong', 3, 60]
    ]
    t.strictSame(await ask('502'), none(8))
    t.strictSame(await ask('throws'), none(7))
    t.strictSame(await ask('refunds'), none(6))
    t.strictSame(left, [0, 0, { max: 2, remaining: 2, resetMs: 0, windowMs: 60_000 }])
    const wrong = ['wrong', 2, 60]
    t.strictSame(await ask('422'), [...none(5).slice(0, 3), wrong])
    t.strictSame(await ask('200'), [['flood', 4, 60], ['send', 1, 60], ['day', 4, day], wrong])
    t.strictSame(await ask('keeps'), [
      ['flood', 3, 60],
      ['send', 0, 60],
      ['day', 3, day],
      ['wrong', 1, 60]
    ])
  })
}

t.test('headers that the app has set or removed stay so, also when slots are refunded', async t => {
  const { app } = await open(t)
  const limit: Rule = { name: 'ip', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  app.get('/own', { config: { limit } }, async (_, reply) => {
    reply.header('ratelimit', 'mine').removeHeader('ratelimit-policy')
    return reply.code(502).send('')
  })
  app.get('/none', { config: { limit } }, (_, reply) => {
    reply.code(502).send('')
  })
  app.addHook('onSend', async ({ url }, reply) => {
    if (url === '/none') reply.removeHeader('ratelimit').removeHeader('ratelimit-policy')
  })
  const headersOf = async (url: string) => {
    const { headers } = await app.inject(url)
    return [headers.ratelimit, headers['ratelimit-policy']]
  }
  t.strictSame(await headersOf('/own'), ['mine', undefined])
  t.strictSame(await headersOf('/none'), [undefined, undefined])
})

t.test('the headers of a limit on different values say how many more are left', async t => {
  const { app } = await open(t)
  const distinct = { value: 'query.to' } as const
  const limit: Rule = { name: 'ip', key: 'ip', distinct, limits: [{ max: 3, window: '60s' }] }
  app.get<{ Querystring: { code: number } }>('/x', { config: { limit } }, async ({ query }, reply) =>
    reply.code(Number(query.code)).send('')
  )
  const left = async (to: string, code: number) => {
    const { headers } = await app.inject(`/x?to=${to}&code=${code}`)
    return policies(headers).ip?.[2]
  }
  t.same([await left('a', 200), await left('a', 502), await left('b', 200)], [2, 2, 1])
  t.same([await left('c', 200), await left('a', 502), await left('d', 200)], [0, 0, 0])
})

t.test('in a refusal by another rule the values left include the request’s own', async t => {
  const { app } = await open(t)
  const key = { value: 'query.to' } as const
  const limit: Rule[] = [
    { name: 'ip', key: 'ip', distinct: key, limits: [{ max: 2, window: '1h' }] },
    { name: 'each', key, limits: [{ max: 1, window: '60s' }] }
  ]
  app.get('/x', { config: { limit } }, async () => 'sent')
  const left = async (to: string) => policies((await app.inject(`/x?to=${to}`)).headers).ip?.[2]
  t.same([await left('a'), await left('a')], [1, 2], 'value a, and one more')
  t.same([await left('b'), await left('b'), await left('c')], [0, 1, 0], 'value b alone, then no other value')
})

t.test('of a rule on others, the headers name the limit that refuses, and no other', async t => {
  const { app, post } = await open(t)
  const limits = [
    { max: 1, window: '60s' },
    { max: 5, window: '1h' },
    { max: 10, window: '24h' }
  ]
  app.post(
    '/x',
    { config: { limit: { name: 'mail', key: { email: 'body.to' }, limits } } },
    async () => 'sent'
  )
  const first = await post('/x', { to: 'a@example.com' })
  t.same(
    ['ratelimit', 'ratelimit-policy'].filter(name => name in first.headers),
    []
  )
  t.strictSame(policies((await post('/x', { to: 'a@example.com' })).headers), { 'mail-60s': [1, 60, 0, 60] })
})

t.test('a window and a calendar period of the same length are two policies', async t => {
  const { app, post, advance } = await open(t)
  const limits = [
    { max: 2, window: '24h' },
    { max: 1, per: 'day' as const }
  ]
  app.post('/x', { config: { limit: { name: 'a', key: 'ip', limits } } }, async () => 'sent')
  const equal = limits.map(limit => ({ ...limit, max: 1 }))
  app.post('/y', { config: { limit: { name: 'b', key: 'ip', limits: equal } } }, async () => 'sent')
  const first = await post('/x')
  t.strictSame(policies(first.headers), {
    'a-24h': [2, 86_400, 1, 86_400],
    'a-24h-calendar': [1, 86_400, 0, 86_400]
  })
  t.same((await post('/x')).json()['violated-policies'], ['a-24h-calendar'])
  advance(86_400_000 - 1)
  t.same((await post('/x')).json()['violated-policies'], ['a-24h-calendar'])
  t.equal((await post('/y')).statusCode, 200)
  t.same((await post('/y')).json()['violated-policies'], ['b-24h', 'b-24h-calendar'], 'each once')
})

t.test('RateLimit-Policy tells each request its own max', async t => {
  const { app } = await open(t)
  const max = ({ headers }: FastifyRequest) => Number(headers['x-plan'])
  const limit: Rule = { name: 'a', key: 'ip', limits: [{ max, ceiling: 9, window: '60s' }] }
  app.get('/x', { config: { limit } }, async () => 'sent')
  for (const plan of ['3', '5', '3']) {
    const { headers } = await app.inject({ url: '/x', headers: { 'x-plan': plan } })
    t.equal(headers['ratelimit-policy'], `"a";q=${plan};w=60`)
  }
})

t.test('a max of 0 has no reset time in the headers', async t => {
  const { app } = await open(t)
  const limits = [
    { max: () => 0, ceiling: 5, window: '60s' },
    { max: () => 0, ceiling: 5, per: 'day' as const },
    { max: 9, window: '1h' }
  ]
  app.get('/x', { config: { limit: { name: 'a', key: 'ip', limits } } }, async () => 'sent')
  const { statusCode, headers } = await app.inject('/x')
  t.equal(statusCode, 429)
  t.equal(headers['retry-after'], undefined)
  t.equal(headers.ratelimit, '"a-60s";r=0, "a-1h";r=9;t=3600, "a-24h";r=0')
})

t.test('Retry-After is rounded up: whoever waits that long is admitted', async t => {
  const table: [windowMs: number, passed: number, seconds: string][] = [
    [60_000, 0, '60'],
    [60_000, 1, '60'],
    [60_000, 999, '60'],
    [60_000, 1_000, '59'],
    [60_000, 1_001, '59'],
    [60_000, 59_999, '1'],
    [1, 0, '1'],
    [1_500, 0, '2']
  ]
  for (const [window, passed, seconds] of table) {
    const { app, advance } = await open(t)
    app.get(
      '/x',
      { config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, window }] } } },
      async () => 'sent'
    )
    await app.inject('/x')
    advance(passed)
    const refused = await app.inject('/x')
    t.equal(refused.headers['retry-after'], seconds, `${window} ms, after ${passed}`)
    t.equal(refused.json().retryAfterMs, window - passed)
    t.match(policies(refused.headers), { a: [1, Math.ceil(window / 1_000), 0, Number(seconds)] })
    advance(Number(seconds) * 1_000)
    t.equal((await app.inject('/x')).statusCode, 200)
    await app.close()
  }
})

t.test('any rule name makes headers that parse', async t => {
  const { app } = await open(t)
  const limits = [
    { max: 1_000, window: 1_234 },
    { max: 7, per: 'week' as const },
    { max: 10 ** 12, per: 'month' as const }
  ]
  app.get('/x', { config: { limit: { name: '0aZ._-', key: 'ip', limits } } }, async () => 'sent')
  const { headers } = await app.inject('/x')
  t.match(policies(headers), {
    '0aZ._--1234ms': [1_000, 2, 999, 2],
    '0aZ._--7d': [7, 604_800, 6],
    '0aZ._--30d': [10 ** 12, 2_592_000, 10 ** 12 - 1]
  })
})

t.test('the reply to a blocked caller has neither rate-limit headers nor Retry-After', async t => {
  const { app } = await open(t)
  app.get(
    '/x',
    {
      config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, window: '60s' }], block: ['127.0.0.1'] } }
    },
    async () => 'sent'
  )
  const { headers, statusCode } = await app.inject('/x')
  t.equal(statusCode, 403)
  t.same(
    ['ratelimit', 'ratelimit-policy', 'retry-after'].filter(name => name in headers),
    []
  )
})

t.test('a rule on others that blocks is not in the headers', async t => {
  const { app, post } = await open(t, {
    rules: [
      { name: 'mobile', key: phone, limits: [{ max: 2, window: '60s' }] },
      { name: 'ip', key: 'ip', limits: [{ max: 9, window: '60s' }] }
    ]
  })
  app.post('/x', { config: { limit: ['mobile', 'ip'] } }, async () => 'sent')
  await post('/x', body)
  await app.limit.block({ mobile: body.phone })
  const blocked = await post('/x', body)
  t.equal(blocked.statusCode, 403)
  t.same(blocked.json()['violated-policies'], ['mobile'])
  t.strictSame(policies(blocked.headers), { ip: [9, 60, 8, 60] })
})

t.test('the reply to a caller on an allow list has no rate-limit headers', async t => {
  const { app } = await open(t)
  app.get(
    '/x',
    {
      config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, window: '60s' }], allow: ['127.0.0.0/8'] } }
    },
    async () => 'sent'
  )
  const { headers, statusCode } = await app.inject('/x')
  t.equal(statusCode, 200)
  t.notOk('ratelimit' in headers)
})

import t from 'tap'
import type { Limit, Rule } from '../../plugin/index.js'
import { RuleCompiler } from '../../plugin/rules.js'
import { open } from '../helper/face.js'
import { logStream } from '../helper/log-stream.js'
import { until } from '../helper/until.js'
import { DAY, places } from './settlement/places.js'

const key = { value: 'query.id' } as const
const id = 'somebody'
const url = `/send?id=${id}`
const send = (max: number, more: object = {}): Rule => ({
  name: 'send',
  key,
  limits: [{ max, window: '60s' }],
  ...more
})
const flood = (max: number): Rule => send(max, { name: 'flood', counts: 'attempts' })

for (const place of await places(t)) {
  t.test(`${place.store}: counts go on under the new rules`, async t => {
    const { app } = await place.open(t, [send(2)])
    app.get('/send', { config: { limit: 'send' } }, async () => '')
    const ask = async () => (await app.inject(url)).statusCode
    const look = async () => (await app.limit.peek({ send: id })).rules[0]?.limits
    t.same([await ask(), await ask(), await ask()], [200, 200, 429])
    app.limit.replace([send(3)])
    t.match(await look(), [{ max: 3, remaining: 1 }])
    t.same([await ask(), await ask()], [200, 429], 'after max is raised')
    place.advance(1_000)
    app.limit.replace([send(1)])
    t.match(
      await look(),
      [{ max: 1, remaining: 0, resetMs: 59_001 }],
      'after max is lowered, a slot returns when the newest of three leaves the window'
    )
    const day = { max: 4, per: 'day' } as const
    app.limit.replace([
      { name: 'send', key, limits: [{ max: 9, window: '60s' }, { max: 5, window: '1h' }, day] }
    ])
    t.match(
      await look(),
      [
        { max: 9, remaining: 6 },
        { max: 5, remaining: 2 },
        { max: 4, remaining: 4 }
      ],
      'a new window counts the stamps there are, and a new period begins at 0'
    )
    t.same([await ask(), await ask(), await ask()], [200, 200, 429])
    app.limit.replace([
      { name: 'send', key: { value: 'params.id' }, limits: [{ max: 9, window: '1h' }, day] }
    ])
    t.match(
      await look(),
      [{ remaining: 4 }, { remaining: 2 }],
      'an identity is its value, whatever path it is read from'
    )
    place.advance(DAY)
    t.match(await look(), [{ remaining: 9 }, { remaining: 4 }])
  })

  t.test(`${place.store}: under a key of another kind neither counts nor blocks go on`, async t => {
    const [one, other]: Rule['key'][] = [key, () => id]
    const { app } = await place.open(t, [send(2, { key: one })])
    const look = async () => {
      const { rules, refusal } = await app.limit.peek({ send: id })
      return [rules[0]?.limits[0]?.remaining, refusal]
    }
    ;(await app.limit.reserve({ send: id })).keep()
    app.limit.replace([send(2, { key: other })])
    t.same(await look(), [2, null])
    await app.limit.block({ send: id })
    app.limit.replace([send(2, { key: one })])
    t.same(await look(), [1, null], 'under the first kind of key again')
  })

  t.test(
    `${place.store}: the counts and the block of a removed limit are there again when the limit is`,
    async t => {
      const window: Limit = { max: 3, window: '60s' }
      const day: Limit = { max: 3, per: 'day' }
      const rules = (...limits: Limit[]): Rule[] => [{ name: 'send', key, limits }]
      const { app } = await place.open(t, rules(window, day))
      const look = async () => {
        const { rules, refusal } = await app.limit.peek({ send: id })
        return [...(rules[0]?.limits.map(({ remaining }) => remaining) ?? []), refusal]
      }
      ;(await app.limit.reserve({ send: id })).keep()
      app.limit.replace(rules(window))
      await app.limit.clear({ send: id })
      t.same(await look(), [3, null])
      app.limit.replace(rules(window, day))
      t.same(await look(), [3, 2, null], 'the removed limit was not cleared')

      app.limit.replace(rules(window))
      await app.limit.block({ send: id })
      app.limit.replace(rules(day))
      t.same(await look(), [2, null], 'the rule has none of the limits that were blocked')
      app.limit.replace(rules(day, window))
      t.same(await look(), [3, 2, 'blocked'], 'the rule has a limit that was blocked')
      await app.limit.unblock({ send: id })
      app.limit.replace(rules(window))
      t.same(await look(), [3, null])
    }
  )

  t.test(`${place.store}: a request under way ends under the rules that it began with`, async t => {
    const { app, used } = await place.open(t, [flood(9), send(1)])
    const inside: (() => void)[] = []
    const wait = () => new Promise<void>(resolve => void inside.push(resolve))
    app.get(
      '/send',
      { config: { limit: ['flood', 'send'] }, preHandler: async () => wait() },
      async (_, reply) => {
        const rules = reply.limit?.rules.map(({ name, limits }) => `${name} ${limits[0]?.max}`)
        await wait()
        return reply.code(502).send(rules)
      }
    )
    const first = app.inject(url)
    await until(() => inside.length === 1, 'a request between the stages')
    app.limit.replace([send(7), send(8, { name: 'flood' })])
    inside[0]?.()
    await until(() => inside.length === 2, 'a request in its handler')
    t.same(await used({ flood: id, send: id }), [1, 1])
    app.limit.replace([send(5, { counts: 'attempts' }), send(6, { name: 'flood' })])
    inside[1]?.()
    t.same((await first).json(), ['flood 9', 'send 1'])
    t.same(await used({ flood: id, send: id }), [1, 0], 'its slot is refunded, and its attempt is not')
    const second = app.inject(url)
    await until(() => inside.length === 3, 'the next request between the stages')
    t.same(await used({ flood: id, send: id }), [1, 1])
    inside[2]?.()
    await until(() => inside.length === 4, 'the next request in its handler')
    inside[3]?.()
    t.same((await second).json(), ['send 5', 'flood 6'])
    t.same(await used({ flood: id, send: id }), [1, 1])
  })

  t.test(
    `${place.store}: what a request under way counts is kept for the windows of the new rule`,
    async t => {
      const rules = (max: number, window: string, lock: string): Rule[] => {
        const limits = [{ max, window }]
        const reach = { name: 'reach', key, distinct: { value: 'query.to' }, limits } as const
        return [send(max, { limits }), reach, { name: 'lock', key, lock }]
      }
      const { app } = await place.open(t, rules(1, '60s', '30s'))
      const inside: (() => void)[] = []
      const preHandler = () => new Promise<void>(resolve => void inside.push(resolve))
      app.get('/send', { config: { limit: ['send', 'reach', 'lock'] }, preHandler }, async () =>
        String((await app.limit.peek({ lock: id })).retryAfterMs)
      )
      await app.limit.reserve({ send: 'before', reach: ['before', 'x'], lock: 'before' })
      const first = app.inject(`${url}&to=x`)
      await until(() => inside.length === 1, 'a request under the old rules')
      app.limit.replace(rules(9, '1h', '5s'))
      const count = async (who: string, to: string) =>
        (await app.limit.reserve({ send: who, reach: [who, to] })).keep()
      for (const to of ['a', 'b', 'c']) await count(id, to)
      await count('another', 'a')
      place.advance(61_000)
      inside[0]?.()
      t.equal((await first).body, '30000', 'its lock lasts as long as under the old rule')
      const left = async () => {
        const [one, another] = await Promise.all([
          app.limit.peek({ send: id, reach: [id, 'new'] }),
          app.limit.peek({ send: 'another' })
        ])
        return [...one.rules, ...another.rules].map(rule => rule.limits[0]?.remaining)
      }
      t.same(await left(), [5, 5, 8])
      place.advance(61_000)
      await app.limit.reserve({ send: 'a third' })
      t.same(await left(), [5, 5, 8], 'for the whole window of the new rule')
    }
  )

  t.test(`${place.store}: a request under way is decided by the window of its own rule`, async t => {
    const reach = (max: number, window: string): Rule[] => [
      { name: 'reach', key, distinct: { value: 'query.to' }, limits: [{ max, window }] }
    ]
    const { app } = await place.open(t, reach(1, '1h'))
    const inside: (() => void)[] = []
    const preHandler = () => new Promise<void>(resolve => void inside.push(resolve))
    app.get('/send', { config: { limit: 'reach' }, preHandler }, async () => '')
    await (await app.limit.reserve({ reach: [id, 'a'] })).keep()
    const first = app.inject(`${url}&to=b`)
    await until(() => inside.length === 1, 'a request under the old rule')
    app.limit.replace(reach(3, '60s'))
    place.advance(61_000)
    inside[0]?.()
    t.equal((await first).statusCode, 429)
  })

  t.test(`${place.store}: the refund of a request under way leaves the sends before it counted`, async t => {
    const rules = (max: number, window: string): Rule[] => [{ name: 'send', key, limits: [{ max, window }] }]
    const { app } = await place.open(t, rules(1, '1s'))
    const inside: (() => void)[] = []
    const preHandler = () => new Promise<void>(resolve => void inside.push(resolve))
    app.get('/send', { config: { limit: 'send' }, preHandler }, async (_, reply) => reply.code(502).send())
    const first = app.inject(url)
    await until(() => inside.length === 1, 'a request under the old rule')
    app.limit.replace(rules(3, '1h'))
    for (let i = 0; i < 3; i++) {
      ;(await app.limit.reserve({ send: id })).keep()
      place.advance(1_100)
    }
    inside[0]?.()
    t.equal((await first).statusCode, 502)
    t.notOk((await app.limit.reserve({ send: id })).allowed)
  })

  t.test(`${place.store}: a receipt ends a cached refusal under a rule that has become a lock`, async t => {
    const { app } = await place.open(t, [send(1)], { refusalCache: '1m' })
    const inside: (() => void)[] = []
    const preHandler = () => new Promise<void>(resolve => void inside.push(resolve))
    app.get('/send', { config: { limit: 'send' }, preHandler }, async () => '')
    const decision = await app.limit.reserve({ send: id })
    t.notOk((await app.limit.reserve({ send: id })).allowed)
    const first = app.inject(url)
    await until(() => inside.length === 1, 'a request under the old rule')
    app.limit.replace([{ name: 'send', key, lock: '30s' }])
    await app.limit.refund(decision.receipt())
    inside[0]?.()
    t.equal((await first).statusCode, 200)
  })

  t.test(`${place.store}: an observed rule that is enforced goes on from what it has counted`, async t => {
    const { app } = await place.open(t, [send(1, { mode: 'observe' })])
    app.get('/send', { config: { limit: 'send' } }, async (_, reply) => String(reply.limit?.observed.length))
    const ask = async () => {
      const { statusCode, body } = await app.inject(url)
      return statusCode === 200 ? body : statusCode
    }
    t.same([await ask(), await ask()], ['0', '1'])
    app.limit.replace([send(1)])
    t.equal(await ask(), 429)
    app.limit.replace([send(2)])
    t.same([await ask(), await ask()], ['0', 429], 'sends beyond max of the observed rule were not counted')
    app.limit.replace([send(2, { mode: 'observe' })])
    t.equal(await ask(), '1')
  })

  t.test(`${place.store}: a rule may become a lock, and have limits again`, async t => {
    const { app } = await place.open(t, [send(1)])
    const status: (number | undefined)[] = []
    app.get('/send', { config: { limit: 'send' } }, async () => {
      status.push((await app.inject('/other?id=somebody')).statusCode)
      return ''
    })
    app.get('/other', { config: { limit: 'send' } }, async () => '')
    await app.inject(url)
    app.limit.replace([{ name: 'send', key, lock: '30s' }])
    await app.inject(url)
    await until(async () => (await app.limit.peek({ send: id })).allowed, 'a free lock')
    app.limit.replace([send(2)])
    await app.inject(url)
    t.same(status, [429, 409, 429])
  })
}

t.test('a replaced rule may move to the other stage', async t => {
  const { app, post, advance } = await open(t, { rules: [flood(1), send(1)] })
  app.post('/flood', { config: { limit: 'flood' } }, async (_, reply) => reply.limit?.rules ?? [])
  app.post('/send', { config: { limit: 'send' } }, async (_, reply) => reply.limit?.rules ?? [])
  const bad = { headers: { 'content-type': 'application/json' } }
  const status = async (url: string) => [
    (await post(`${url}?id=1`, '{', bad)).statusCode,
    (await post(`${url}?id=1`)).statusCode,
    (await post(`${url}?id=1`)).statusCode
  ]
  t.same(await status('/flood'), [400, 429, 429], 'before the body')
  t.same(await status('/send'), [400, 200, 429], 'after the body')
  advance(60_000)
  app.limit.replace([send(1, { name: 'flood' }), { ...flood(1), name: 'send' }])
  t.same(await status('/flood'), [400, 200, 429])
  t.same(await status('/send'), [400, 429, 429])
})

t.test('a replace with wrong rules changes nothing, and says where the error is', async t => {
  const filters = ['captcha', 'send-1h'].map(name => ({ name, check: () => undefined }))
  const { app, post } = await open(t, { rules: [send(1), flood(5)], filters })
  const inline: Rule = { name: 'mine', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  app.post('/send', { config: { limit: ['captcha', 'send', inline, 'send-1h'] } }, async () => '')
  app.post('/flood', { config: { limit: 'flood' } }, async () => '')
  const before = app.limit.rules
  const wrong: [rules: unknown, message: RegExp, code?: string][] = [
    [null, /^rules: null is wrong\. Write a list of rules\.$/],
    [{ send: send(1) }, /^rules: \{.*Write a list of rules\.$/],
    [[5], /^rules\[0\]: 5 is wrong/],
    [[send(2), flood(0)], /^rules\[1\]\.limits\[0\]\.max: 0 is wrong/],
    [[send(2), { ...flood(5), mod: 1 }], /^rules\[1\]\.mod: 1 is wrong/],
    [[send(2), { ...flood(5), key: { value: 'body.id' } }], /^rules\[1\]\.key: "body\.id" is wrong/],
    [[send(2), flood(5), send(3)], /^rules\[2\]\.name: "send" is wrong\. Each rule and filter has/],
    [[send(2), flood(5), send(2, { name: 'captcha' })], /^rules\[2\]\.name: "captcha" is wrong/],
    [
      [send(2, { limits: [60, 3_600].map(s => ({ max: 2, window: `${s}s` })) }), flood(5)],
      /^POST \/send: config\.limit\[3\]: "send-1h" is wrong\. Each rule, filter and limit/
    ],
    [
      [send(2)],
      /^POST \/flood: config\.limit: there is no rule or filter named "flood"; known: send, mine@POST \/send, captcha, send-1h$/,
      'FST_SEND_LIMIT_RULE_UNKNOWN'
    ],
    [
      [flood(5)],
      /^POST \/send: config\.limit\[1\]: there is no rule or filter named "send"/,
      'FST_SEND_LIMIT_RULE_UNKNOWN'
    ]
  ]
  for (const [rules, message, code = 'FST_SEND_LIMIT_OPTION'] of wrong) {
    t.throws(() => app.limit.replace(rules as Rule[]), { message, code })
    t.strictSame(app.limit.rules, before)
  }
  t.same([(await post('/send?id=1')).statusCode, (await post('/send?id=1')).statusCode], [200, 429])
  app.limit.replace([send(3), flood(5), send(1, { name: 'new' })])
  t.strictSame(app.limit.rules, {
    send: send(3),
    flood: flood(5),
    new: send(1, { name: 'new' }),
    'mine@POST /send': inline
  } as object)
  app.limit.replace([send(3), flood(5)])
  t.notOk('new' in app.limit.rules, 'a rule that is not among the next ones is gone')
  app.limit.replace([send(4), flood(5)])
  t.strictSame(app.limit.rules.send, send(4), 'no more rules than before, and no fewer')
  t.match(await app.limit.peek({ 'mine@POST /send': '127.0.0.1' }), {
    rules: [{ limits: [{ remaining: 8 }] }]
  })
})

t.test('HEAD changes with its GET, and headers are of the new rules', async t => {
  const limits = [{ max: 5, window: '60s' }]
  const { app } = await open(t, { rules: [{ name: 'send', key, limits }] })
  app.get('/send', { config: { limit: 'send' } }, async () => '')
  t.notOk((await app.inject(url)).headers.ratelimit)
  app.limit.replace([{ name: 'send', key: 'ip', limits: [{ max: 7, window: '60s' }] }])
  t.equal((await app.inject({ method: 'HEAD', url })).headers.ratelimit, '"send";r=6;t=60')
  t.equal((await app.inject(url)).headers.ratelimit, '"send";r=5;t=60')
})

t.test('a route keeps its own error handler after a replace', async t => {
  const { app } = await open(t, { rules: [send(1)] })
  app.get(
    '/send',
    {
      config: { limit: 'send' },
      errorHandler: (error, _, reply) => void reply.code(418).send(error.message)
    },
    async () => ''
  )
  app.limit.replace([send(1, { mode: 'enforce' })])
  t.equal((await app.inject(url)).statusCode, 200)
  const refused = await app.inject(url)
  t.same([refused.statusCode, refused.body], [418, 'limit reached: send'])
})

t.test('when a rule no longer counts attempts, its keys are not forgotten any more', async t => {
  const { app } = await open(t, { rules: [flood(1)], maxKeys: 2 })
  for (const who of ['a', 'b', 'c']) t.ok((await app.limit.reserve({ flood: who })).allowed)
  for (const counts of ['sends', 'failures']) {
    app.limit.replace([send(1, { name: 'flood', counts })])
    await t.rejects(app.limit.reserve({ flood: 'd' }), { code: 'FST_SEND_LIMIT_STORE_FULL' }, counts)
  }
  t.notOk((await app.limit.peek({ flood: 'c' })).allowed)
  app.limit.replace([flood(2)])
  t.ok((await app.limit.reserve({ flood: 'd' })).allowed)
  t.ok(
    (await app.limit.reserve({ flood: 'e' })).allowed,
    'keys of a rule that counts attempts again are forgotten'
  )
})

t.test(
  'when a rule no longer counts attempts, a key that was only looked at since is not forgotten',
  async t => {
    const once = send(1, { name: 'flood' })
    const other: Rule = { ...once, name: 'other' }
    const { app } = await open(t, { rules: [{ ...once, counts: 'attempts' }, other], maxKeys: 3 })
    t.ok((await app.limit.reserve({ flood: 'a' })).allowed)
    app.limit.replace([once, other])
    t.notOk((await app.limit.peek({ flood: 'a' })).allowed)
    for (const who of ['b', 'c']) t.ok((await app.limit.reserve({ other: who })).allowed)
    await t.rejects(app.limit.reserve({ other: 'd' }), { code: 'FST_SEND_LIMIT_STORE_FULL' })
  }
)

t.test('when an observed rule is enforced, what a request under way counts is not forgotten', async t => {
  const observed = send(1, { mode: 'observe' })
  const other = send(1, { name: 'other' })
  const { app } = await open(t, { rules: [observed, other], maxKeys: 3 })
  const inside: (() => void)[] = []
  const preHandler = () => new Promise<void>(resolve => void inside.push(resolve))
  app.get('/send', { config: { limit: 'send' }, preHandler }, async () => '')
  const first = app.inject(url)
  await until(() => inside.length === 1, 'a request under the old rules')
  app.limit.replace([send(1), other])
  t.ok((await app.limit.reserve({ send: 'a' })).allowed)
  inside[0]?.()
  t.equal((await first).statusCode, 200)
  t.ok((await app.limit.reserve({ other: 'b' })).allowed)
  await t.rejects(app.limit.reserve({ other: 'c' }), { code: 'FST_SEND_LIMIT_STORE_FULL' })
})

t.test('a new rule by address under trustProxy true is warned of', async t => {
  const { lines, stream } = logStream()
  const server = { trustProxy: true, logger: { level: 'warn', stream } }
  const { app } = await open(t, { rules: [send(1)] }, server)
  await app.ready()
  t.same(lines, [])
  app.limit.replace([send(1), send(1, { name: 'by-ip', key: 'ip' })])
  t.equal(lines.length, 1)
  t.match(lines[0], /the rule by-ip counts by address/)
})

t.test('rules of the same name keep their series, however often they are compiled', t => {
  const compiler = new RuleCompiler({
    secret: 'x'.repeat(16),
    digest: 'md5',
    region: 'CN',
    ipv4Prefix: 32,
    ipv6Prefix: 64
  })
  const limits: Limit[] = [{ max: 1, window: '60s' }]
  for (const per of ['hour', 'day', 'week', 'month'] as const) limits.push({ max: 1, per })
  const make = (name: string, owner = '') => compiler.compile({ name, key: 'ip', limits } as Rule, 'r', owner)
  const series = (rule: ReturnType<typeof make>) => rule.specs.map(each => each.series)
  const first = make('a')
  t.equal(new Set([...series(first), ...series(make('b'))]).size, 10)
  t.same(series(make('a')), series(first))
  t.equal(make('a').specs[0]?.rule, first.specs[0]?.rule)
  t.not(make('a', '@x').specs[0]?.rule, first.specs[0]?.rule)
  const { series: numbers } = compiler as unknown as { series: { of(name: string): number } }
  for (let n = 0; numbers.of(`another ${n}`) < 0xffff - 5; ) n++
  make('last')
  t.throws(() => make('more'), {
    code: 'FST_SEND_LIMIT_OPTION',
    message: /^r\.name: "more" is wrong\. This process has counted under too many names/
  })
  t.same(series(make('a')), series(first), 'known names can still be compiled')
  t.end()
})

t.test('a named rule beside an inline one may begin to count attempts', async t => {
  const limits = [{ max: 1, window: '60s' }]
  const named: Rule = { name: 'named', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  const inline: Rule = { name: 'inline', key: { value: 'body.id' }, limits }
  const { app, post } = await open(t, { rules: [named] })
  app.post('/x', { config: { limit: ['named', inline] } }, async () => 'sent')
  t.equal((await post('/x', { id: 'a' })).statusCode, 200)
  app.limit.replace([{ ...named, counts: 'attempts', limits: [{ max: 3, window: '60s' }] }])
  t.equal(
    (await post('/x', { id: 'a' })).statusCode,
    429,
    'refused by the inline rule, and counted as an attempt'
  )
  t.equal((await post('/x', { id: 'b' })).statusCode, 200)
  t.match(await post('/x', { id: 'c' }), { statusCode: 429, body: /"named"/ })
})

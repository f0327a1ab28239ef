import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply, onRequestHookHandler, RouteOptions } from 'fastify'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import {
  errors,
  type Filter,
  type Keys,
  type Limit,
  limitPlugin,
  type Rule,
  type Verdict
} from '../../plugin/index.js'
import { appOf, open } from '../helper/face.js'
import { startRedis } from '../helper/redis.js'

const limits = [{ max: 1, window: '60s' }]
const mobile: Rule = { name: 'mobile', key: { phone: 'body.phone' }, limits }
const pair: Rule = { name: 'pair', key: [{ value: 'query.a' }, { value: 'query.b' }], limits }
const flight: Rule = { name: 'flight', key: { value: 'query.a' }, lock: '30s' }

t.test('reserve: a decision is kept, refunded or ended', async t => {
  const { app, advance } = await open(t, { rules: [mobile, flight] })
  const free = async () => (await app.limit.peek({ mobile: '13800138000' })).rules[0]?.limits[0]?.remaining
  const kept = await app.limit.reserve({ mobile: '138 0013 8000' })
  t.match(kept, {
    allowed: true,
    violated: [],
    rules: [{ name: 'mobile', limits: [{ max: 1, remaining: 0 }] }]
  })
  t.equal(await free(), 0)
  kept.keep()
  await kept.refund()
  t.equal(await free(), 0, 'the first settlement wins')
  t.match(await app.limit.reserve({ mobile: '+8613800138000' }), {
    allowed: false,
    retryAfterMs: 60_000,
    violated: [{ rule: 'mobile' }]
  })

  advance(60_000)
  const refunded = await app.limit.reserve({ mobile: '13800138000' })
  await refunded.refund()
  t.notOk(refunded.pending, 'nothing is left to give back')
  refunded.keep()
  t.equal(await free(), 1)

  const held = await app.limit.reserve({ flight: 'a' })
  t.match(await app.limit.reserve({ flight: 'a' }), { allowed: false, refusal: 'in-flight' })
  held.end()
  const next = await app.limit.reserve({ flight: 'a', mobile: '13800138000' })
  t.ok(next.allowed)
  next.end()
  t.equal(await free(), 0, 'a slot that is not settled at the end is kept')
})

t.test('run: settles by how its function ends, as a route does', async t => {
  const wrong: Rule = {
    name: 'wrong',
    key: { phone: 'body.phone' },
    counts: 'failures',
    limits: [{ max: 2, window: '60s' }]
  }
  const { app } = await open(t, {
    rules: [{ ...mobile, limits: [{ max: 2, window: '60s' }] }, wrong, flight]
  })
  const phone = '13800138000'
  const keys = { mobile: phone, wrong: phone, flight: 'a' }
  const used = async () => {
    const { rules } = await app.limit.peek({ mobile: phone, wrong: phone })
    const [sends, failures] = rules.map(({ limits }) => 2 - (limits[0]?.remaining ?? 0))
    const free = (await app.limit.peek({ flight: 'a' })).allowed
    await app.limit.clear({ mobile: phone, wrong: phone })
    return { sends, failures, free }
  }
  const failing = (error: unknown) => app.limit.run(keys, () => Promise.reject(error))

  const answer = await app.limit.run(keys, async decision => {
    t.notOk((await app.limit.peek({ flight: 'a' })).allowed, 'the lock is held')
    t.notOk(decision.signal.aborted)
    return 'sent'
  })
  t.equal(answer, 'sent')
  t.same(await used(), { sends: 1, failures: 0, free: true })
  t.equal(await app.limit.run(keys, () => 7), 7, 'a function without a promise')
  t.same(await used(), { sends: 1, failures: 0, free: true })

  const down = new Error('the provider is down')
  await t.rejects(failing(down), down)
  t.same(await used(), { sends: 0, failures: 0, free: true })
  const nothing = () => {
    throw undefined
  }
  const [ending] = await Promise.allSettled([app.limit.run(keys, nothing)])
  t.strictSame(ending, { status: 'rejected', reason: undefined })
  t.same(await used(), { sends: 0, failures: 0, free: true })
  for (const statusCode of [401, '401']) {
    await t.rejects(failing(Object.assign(new Error('wrong code'), { statusCode })))
    t.same(await used(), { sends: 0, failures: 1, free: true })
  }
  await t.rejects(failing(new DOMException('no answer', 'TimeoutError')))
  t.same(await used(), { sends: 1, failures: 1, free: true }, 'an unclear ending keeps')
  await app.limit.run(keys, decision => decision.refund())
  t.same(await used(), { sends: 0, failures: 0, free: true }, 'what the function settles itself stays so')
  const ended = await app.limit.run(keys, decision => decision)
  await ended.refund()
  t.same(await used(), { sends: 1, failures: 0, free: true }, 'a decision that has ended is settled')
})

t.test('run: a refusal is thrown, and the function does not run', async t => {
  const guard: Rule = {
    name: 'guard',
    key: 'ip',
    limits,
    private: ({ headers }) => headers['x-who'] === 'page'
  }
  const { app, post, advance } = await open(t, { rules: [mobile, guard, flight] })
  const keys = { mobile: '13800138000', guard: '192.0.2.1' }
  let sent = 0
  const send = () => ++sent
  await app.limit.run(keys, send)
  for (const request of [undefined, null]) {
    const refused = await app.limit.run(keys, send, request as never).catch(error => error)
    t.ok(refused instanceof errors.ExceededError)
    // Without a request to ask about, `private` hides the guard.
    const headers = { 'retry-after': '60', 'ratelimit-policy': '"mobile";q=1;w=60' }
    t.same(refused.headers, { ...headers, ratelimit: '"mobile";r=0;t=60' })
    t.match(refused, {
      statusCode: 429,
      problem: { status: 429, 'violated-policies': ['mobile', 'guard'], retryAfterMs: 60_000 },
      decision: { allowed: false, refusal: 'exceeded' }
    })
  }
  await t.rejects(
    app.limit.run({ flight: 'a' }, () => app.limit.run({ flight: 'a' }, send)),
    { code: 'FST_SEND_LIMIT_IN_FLIGHT' }
  )
  await app.limit.block({ mobile: '13800138001' })
  await t.rejects(app.limit.run({ mobile: '13800138001' }, send), { code: 'FST_SEND_LIMIT_BLOCKED' })
  await t.rejects(app.limit.run({ mobile: '12' }, send), { code: 'FST_SEND_LIMIT_KEY_INVALID' })
  await t.rejects(app.limit.run({ nobody: '1' }, send), { code: 'FST_SEND_LIMIT_RULE_UNKNOWN' })
  t.equal(sent, 1)

  // A handler that throws the refusal answers it as it is.
  app.post('/graphql', async request => app.limit.run({ guard: '192.0.2.1' }, send, request))
  const answer = (who: string) => post('/graphql', {}, { headers: { 'x-who': who } })
  t.match(await answer('anybody'), {
    statusCode: 429,
    headers: { ratelimit: '"guard";r=0;t=60', 'retry-after': '60' }
  })
  t.notOk('ratelimit' in (await answer('page')).headers, 'the rule is private for this request')
  advance(60_000)
  t.equal((await answer('anybody')).statusCode, 200)
})

t.test('run: a refusal by rules of the same name on different routes has no rate-limit headers', async t => {
  const { app } = await open(t, { rules: [mobile] })
  const hourly: Limit = { max: 1, window: '1h' }
  for (const [url, more] of Object.entries({ '/a': [], '/b': [hourly] })) {
    const limit: Rule = { name: 'mobile', key: 'ip', limits: [...limits, ...more] }
    app.get(url, { config: { limit } }, async () => 'sent')
  }
  const ip = '192.0.2.1'
  const keys = { 'mobile@GET /a': ip, 'mobile@GET /b': ip }
  await app.limit.run(keys, () => 'sent')
  const backwards = { 'mobile@GET /b': ip, 'mobile@GET /a': ip, mobile: '13800138000' }
  for (const named of [keys, backwards]) {
    const refused = await app.limit.run(named, () => 'sent').catch(error => error)
    t.same([refused.code, refused.headers], ['FST_SEND_LIMIT_EXCEEDED', { 'retry-after': '3600' }])
    t.same(refused.problem['violated-policies'], ['mobile'])
  }
})

t.test(
  'run: when rules are replaced during the first check of Redis, the refusal names the new ones',
  async t => {
    const once: Rule = { name: 'once', key: { value: 'query.a' }, limits }
    const twice: Rule = { ...once, limits: [...limits, { max: 1, window: '1h' }] }
    const { url } = await startRedis(t)
    const join = async (rule: Rule) => {
      const client = new Redis(url, { autoResendUnfulfilledCommands: false })
      t.teardown(() => client.disconnect())
      const { app } = await open(t, { client, secret: '0123456789abcdef', rules: [rule] })
      return app.limit
    }
    const keys = { once: 'a' }
    await (await join(twice)).run(keys, () => 'sent')
    const limit = await join(once)
    const running = limit.run(keys, () => 'sent')
    limit.replace([twice])
    await t.rejects(running, { code: 'FST_SEND_LIMIT_EXCEEDED', message: 'limit reached: once-60s, once-1h' })
  }
)

t.test('an attempt is not refunded', async t => {
  const { app } = await open(t, { rules: [{ name: 'login', key: 'ip', limits, counts: 'attempts' }] })
  const keys = { login: '192.0.2.1' }
  const attempt = await app.limit.reserve(keys)
  t.notOk(attempt.pending)
  await attempt.refund()
  t.notOk(attempt.refunded)
  t.match(await app.limit.peek(keys), { rules: [{ limits: [{ remaining: 0 }] }] })
})

t.test('all or nothing over several rules', async t => {
  const { app } = await open(t, { rules: [mobile, pair] })
  await app.limit.reserve({ mobile: '13800138000' })
  t.notOk((await app.limit.reserve({ pair: ['1', '2'], mobile: '13800138000' })).allowed)
  t.match(await app.limit.peek({ pair: ['1', '2'] }), { rules: [{ limits: [{ remaining: 1 }] }] })
})

t.test('reserve and peek count the same identity as a route does', async t => {
  const { app, post } = await open(t, { rules: [mobile] })
  app.post('/x', { config: { limit: ['mobile', { ...pair, optional: true }] } }, async () => 'sent')
  await app.limit.reserve({ mobile: '+86 138-0013-8000' })
  t.equal((await post('/x?a=1&b=2', { phone: '13800138000' })).statusCode, 429)
  t.equal((await post('/x?a=1&b=2', { phone: '13900139000' })).statusCode, 200)
  t.match(await app.limit.peek({ 'pair@POST /x': ['1', '2'] }), { allowed: false })
  t.match(await app.limit.peek({ 'pair@POST /x': ['12', ''] }), { allowed: true })
})

t.test('peek changes nothing', async t => {
  const { app } = await open(t, { rules: [mobile] })
  for (let i = 0; i < 3; i++) {
    t.match(await app.limit.peek({ mobile: '13800138000' }), {
      allowed: true,
      retryAfterMs: 0,
      rules: [{ limits: [{ max: 1, remaining: 1, resetMs: 0 }] }]
    })
  }
})

t.test(
  'peek answers also where Redis has nothing to tell: on no rules, and on listed identities',
  async t => {
    const { client } = await startRedis(t)
    const app = appOf(t)
    const listed: Rule = { ...mobile, allow: ['13800138000'], block: ['13900139000'] }
    await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules: [listed] })
    await app.ready()
    t.match(await app.limit.peek({}), { allowed: true, rules: [] })
    t.match(await app.limit.peek({ mobile: '13800138000' }), { allowed: true, rules: [] })
    t.match(await app.limit.peek({ mobile: '13900139000' }), {
      allowed: false,
      refusal: 'blocked',
      rules: []
    })
  }
)

t.test('clear forgets what one key has counted', async t => {
  const { app } = await open(t, { rules: [mobile] })
  const decision = await app.limit.reserve({ mobile: '13800138000' })
  await app.limit.reserve({ mobile: '13900139000' })
  await app.limit.clear({ mobile: '+8613800138000' })
  t.ok((await app.limit.peek({ mobile: '13800138000' })).allowed)
  t.notOk((await app.limit.peek({ mobile: '13900139000' })).allowed)
  await app.limit.reserve({ mobile: '13800138000' })
  await decision.refund()
  t.notOk(
    (await app.limit.peek({ mobile: '13800138000' })).allowed,
    'a refund from before the clear gives back no later slot'
  )
})

t.test('block refuses with 403 for its time or until unblock', async t => {
  const { app, advance, post } = await open(t, { rules: [mobile] })
  app.post('/x', { config: { limit: 'mobile' } }, async () => 'sent')
  const ask = async () => (await post('/x', { phone: '13800138000' })).statusCode
  const violated = async () => (await app.limit.peek({ mobile: '13800138000' })).violated
  await app.limit.block({ mobile: '13800138000' }, '1h')
  t.equal(await ask(), 403)
  t.match(await app.limit.peek({ mobile: '13800138000' }), {
    allowed: false,
    refusal: 'blocked',
    retryAfterMs: null,
    violated: [{ rule: 'mobile', windowMs: 0, blockedMs: 3_600_000 }]
  })
  advance(3_599_999)
  t.equal(await ask(), 403)
  t.same(await violated(), [{ rule: 'mobile', windowMs: 0, blockedMs: 1 }])
  await app.limit.clear({ mobile: '13800138000' })
  t.equal(await ask(), 403, 'a clear leaves blocks')
  advance(1)
  t.equal(await ask(), 200)
  await app.limit.block({ mobile: '13800138000' })
  advance(400 * 86_400_000)
  t.equal(await ask(), 403)
  t.same(await violated(), [{ rule: 'mobile', windowMs: 0, blockedMs: null }], 'a block without end')
  await app.limit.unblock({ mobile: '13800138000' })
  t.equal(await ask(), 200)
})

t.test('a lock cannot be blocked, and then no key in the call is', async t => {
  const flight: Rule = { name: 'flight', key: mobile.key, lock: '1s' }
  const { app } = await open(t, { rules: [mobile, flight] })
  const keys = { mobile: '13800138000', flight: '13800138000' }
  await t.rejects(app.limit.block(keys), {
    message: 'keys: "flight" is wrong. A lock blocks nobody for good; name a rule with limits.'
  })
  t.ok((await app.limit.peek(keys)).allowed)
})

t.test(
  'an undefined address makes every call fail, and null stands for a missing one in reserve and peek',
  async t => {
    const limits = [{ max: 1, window: '60s' }]
    for (const key of ['ip', { ip: 'request.ip' }] as const) {
      const { app } = await open(t, { rules: [{ name: 'ip', key, limits }] })
      const { reserve, peek, block, unblock, clear } = app.limit
      for (const call of [reserve, peek, block, unblock, clear])
        await t.rejects(async () => void (await call({ ip: undefined })), {
          code: 'FST_SEND_LIMIT_KEY_MISSING'
        })
      for (const call of [block, unblock, clear])
        await t.rejects(call({ ip: null }), { code: 'FST_SEND_LIMIT_KEY_MISSING' })
      for (const call of [reserve, peek])
        t.match(await call({ ip: null }), { allowed: true }, 'null says that there is no address')
    }
  }
)

t.test('calls with wrong rules, keys, requests or durations fail, and change nothing', async t => {
  const { app: empty } = await open(t)
  await t.rejects(empty.limit.peek({ nobody: '1' }), {
    message: 'keys: there is no rule named "nobody"; known: none'
  })
  const dynamic: Rule = { name: 'paid', key: 'ip', limits: [{ max: () => 1, ceiling: 5, window: '60s' }] }
  const spare: Rule = { ...mobile, name: 'spare', optional: true }
  const content = { digest: ['body.title', 'body.text'] }
  const same: Rule = { name: 'same', key: { value: 'query.a' }, distinct: content, limits }
  const filter: Filter = { name: 'quiet', check: () => ({ allowed: true }) }
  const { app } = await open(t, { rules: [mobile, pair, dynamic, spare, same], filters: [filter] })
  const { limit } = app
  const calls: ((keys: Keys, request?: never) => Promise<unknown>)[] = [
    limit.reserve,
    limit.peek,
    limit.clear,
    limit.block,
    limit.unblock
  ]
  for (const call of calls) {
    await t.rejects(call({ nobody: '1' }), {
      code: 'FST_SEND_LIMIT_RULE_UNKNOWN',
      message: 'keys: there is no rule named "nobody"; known: mobile, pair, paid, spare, same'
    })
    await t.rejects(call({ mobile: '13800138000', quiet: '13800138000' }), {
      message: 'keys: there is no rule named "quiet"; known: mobile, pair, paid, spare, same'
    })
    const wrong: [keys: unknown, shown: string][] = [
      [undefined, 'undefined'],
      [null, 'null'],
      [13800138000, 'the number given'],
      ['13800138000', 'the string given'],
      [['13800138000'], 'the array given'],
      [new Map([['mobile', '13800138000']]), 'the object given'],
      [Promise.resolve({ mobile: '13800138000' }), 'the object given']
    ]
    for (const [keys, shown] of wrong)
      await t.rejects(call(keys as never), {
        code: 'FST_SEND_LIMIT_OPTION',
        message: `keys: ${shown} is wrong. Write values by rule, as in { mobile: "+8613800138000" }.`
      })
    await t.rejects(call({ mobile: '12' }), {
      code: 'FST_SEND_LIMIT_KEY_INVALID',
      message: 'body.phone is not a valid phone number'
    })
    await t.rejects(call({ mobile: undefined }), { code: 'FST_SEND_LIMIT_KEY_MISSING' })
    await t.rejects(call({ mobile: {} }), { code: 'FST_SEND_LIMIT_KEY_MISSING' })
    await t.rejects(call({ pair: '1' }), {
      code: 'FST_SEND_LIMIT_KEY_MISSING',
      message: 'query.b is missing or not a scalar value'
    })
    // A list may come from a client: it is no number, and it does not count as a missing one either.
    for (const list of [[], [null], ['13800138000'], ['13800138000', '13900139000']]) {
      await t.rejects(call({ mobile: list }), { code: 'FST_SEND_LIMIT_KEY_MISSING', statusCode: 400 })
      await t.rejects(call({ spare: list }), { code: 'FST_SEND_LIMIT_KEY_MISSING', statusCode: 400 })
    }
    await t.rejects(call({ pair: ['1', '2', '3'] }), {
      code: 'FST_SEND_LIMIT_OPTION',
      message: 'keys.pair.length: 3 is wrong. Name one identity at a time, by 2 values: [query.a, query.b].'
    })
    await t.rejects(call({ same: ['1', 'title', 'text'] }), {
      code: 'FST_SEND_LIMIT_OPTION',
      message:
        'keys.same.length: 3 is wrong. Name one identity at a time, by 2 values: [query.a, [body.title, body.text]].'
    })
    await t.rejects(call({ pair: ['1', '2', '3'], nobody: '1' }), {
      code: 'FST_SEND_LIMIT_RULE_UNKNOWN'
    })
  }
  for (const call of calls.slice(0, 2)) {
    for (const request of [undefined, null])
      await t.rejects(call({ paid: '192.0.2.1' }, request as never), {
        code: 'FST_SEND_LIMIT_OPTION',
        message:
          'request: undefined is wrong. The rule paid takes its "max" from the request: pass the request.'
      })
  }
  for (const duration of [0, -1, 'soon', '400d', 1.5]) {
    await t.rejects(limit.block({ mobile: '13800138000' }, duration), {
      code: 'FST_SEND_LIMIT_OPTION',
      message: /^duration: /
    })
  }
  t.ok((await limit.peek({ mobile: '13800138000' })).allowed, 'none of the calls changed anything')
  const nothing = await limit.reserve({})
  t.same(
    [nothing.allowed, nothing.rules, nothing.store],
    [true, [], 'none'],
    'without rules there is nothing to decide'
  )
})

t.test('the log that rolling limits share is as long as the largest max needs', async t => {
  for (const order of [1, -1]) {
    const limits = [
      { max: 1, window: '1m' },
      { max: 3, window: '1h' }
    ].sort((a, b) => order * (a.max - b.max))
    const { app, advance } = await open(t, { rules: [{ name: 'both', key: 'all', limits }] })
    for (const allowed of [true, true, true, false]) {
      t.equal((await app.limit.reserve({ both: '' })).allowed, allowed)
      advance(60_000)
    }
  }
})

t.test('each limit has its own ceiling', async t => {
  const max = () => 9
  const limits: Rule['limits'] = [
    { max: 1, window: '1m' },
    { max, ceiling: 2, window: '1h' },
    { max, ceiling: 5, per: 'day' }
  ]
  const { app } = await open(t, { rules: [{ name: 'own', key: 'all', limits }] })
  const { rules } = await app.limit.peek({ own: '' }, {} as never)
  t.same(
    rules[0]?.limits.map(({ max }) => max),
    [1, 2, 5]
  )
})

t.test('a max function gets the request, up to the ceiling of each limit', async t => {
  const { app } = await open(t)
  const max = (req: { headers: Record<string, unknown> }) => Number(req.headers['x-max'])
  const limits: Limit[] = [
    { max, ceiling: 5, window: '60s' },
    { max, ceiling: 2, window: '1h' },
    { max: 7, per: 'day' },
    { max, ceiling: 9, per: 'month', timeZone: () => 'Asia/Shanghai' }
  ]
  app.get('/x', { config: { limit: { name: 'paid', key: 'ip', limits } } }, async req => {
    const { rules } = await app.limit.peek({ 'paid@GET /x': req.ip }, req)
    return rules
  })
  const told = (max: number) =>
    `"paid-60s";q=${max};w=60, "paid-1h";q=2;w=3600, "paid-24h";q=7;w=86400, "paid-30d";q=${max};w=2592000`
  const first = await app.inject({ url: '/x', headers: { 'x-max': '3' } })
  t.equal(first.headers['ratelimit-policy'], told(3))
  t.match(first.json(), [
    {
      limits: [
        { max: 3, remaining: 2 },
        { max: 2, remaining: 1 },
        { max: 7, remaining: 6, resetMs: 24 * 3_600_000 },
        { max: 3, remaining: 2, resetMs: (30 * 24 + 16) * 3_600_000 }
      ]
    }
  ])
  const ask = async (max: string) => {
    const { statusCode, headers, body } = await app.inject({ url: '/x', headers: { 'x-max': max } })
    const { retryAfterMs, message } = JSON.parse(body)
    return [statusCode, headers['retry-after'], retryAfterMs ?? message]
  }
  const nan = '"max" of the rule paid must return a number, but returned NaN'
  t.equal((await app.inject({ url: '/x', headers: { 'x-max': '2' } })).headers['ratelimit-policy'], told(2))
  t.same(await ask('many'), [500, undefined, nan])
  t.same(await ask('-3'), [429, undefined, undefined], 'a negative max counts as 0')
})

t.test('routes that name a rule share it, and each route that writes a rule has its own', async t => {
  const shared: Rule = { name: 'send', key: 'ip', limits }
  const { app } = await open(t, { rules: [shared] })
  const inline = { limit: { ...shared } }
  const ask = async (url: string, more: object = {}) => (await app.inject({ url, ...more })).statusCode
  app.get('/s1', { config: { limit: 'send' } }, async () => '')
  app.get('/s2', { config: { limit: ['send'] } }, async () => '')
  app.get('/i1', { config: inline }, async () => '')
  app.get('/i2', { config: inline }, async () => '')
  app.post('/i2', { config: inline }, async () => '')
  app.route({ method: ['PUT', 'PATCH'], url: '/i2', config: inline, handler: async () => '' })
  app.get('/host', { config: inline, constraints: { host: 'a.example' } }, async () => '')
  app.get('/host', { config: inline, constraints: { host: 'b.example' } }, async () => '')
  app.get('/item/:id', { config: inline }, async () => '')
  await app.register(
    async scope => {
      scope.get('/i1', { config: inline }, async () => '')
      scope.get('/', { config: inline }, async () => '')
    },
    { prefix: '/v1' }
  )
  t.same([await ask('/s1'), await ask('/s2')], [200, 429], 'a named rule is shared')
  t.same(
    [await ask('/i1'), await ask('/i2'), await ask('/i1'), await ask('/i2')],
    [200, 200, 429, 429],
    'one rule for each URL'
  )
  t.same(
    [await ask('/i2', { method: 'POST' }), await ask('/i2', { method: 'POST' })],
    [200, 429],
    'one rule for each method'
  )
  t.same(
    [await ask('/i2', { method: 'PUT' }), await ask('/i2', { method: 'PATCH' })],
    [200, 429],
    'several methods are one route'
  )
  for (const host of ['a.example', 'b.example']) {
    t.same(
      [await ask('/host', { headers: { host } }), await ask('/host', { headers: { host } })],
      [200, 429],
      host
    )
  }
  t.same([await ask('/item/1'), await ask('/item/2')], [200, 429], 'a route is its pattern')
  t.same([await ask('/v1/i1'), await ask('/v1/i1')], [200, 429], 'one rule for each prefix')
  t.same(
    [
      await ask('/v1'),
      await ask('/v1/'),
      await ask('/v1', { method: 'HEAD' }),
      await ask('/v1/', { method: 'HEAD' })
    ],
    [200, 429, 429, 429],
    'both spellings of a prefix are one route'
  )
})

t.test('HEAD shares the limits of its GET', async t => {
  const { app } = await open(t)
  const limit: Rule[] = [
    { name: 'send', key: 'ip', limits: [{ max: 3, window: '60s' }] },
    { name: 'flood', key: 'ip', limits: [{ max: 9, window: '60s' }], counts: 'attempts' }
  ]
  let calls = 0
  app.get('/x', { config: { limit } }, async (_req, reply) => {
    calls++
    return reply.limit
  })
  app.route({ method: ['GET', 'POST'], url: '/two', config: { limit }, handler: async () => '' })
  for (const method of ['GET', ['HEAD']])
    app.route({ method, url: '/own', exposeHeadRoute: false, config: { limit }, handler: async () => '' })
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 200)
  t.match((await app.inject('/x')).json().rules, [
    { name: 'flood', limits: [{ remaining: 7 }] },
    { name: 'send', limits: [{ remaining: 1 }] }
  ])
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 200)
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 429)
  t.equal(calls, 3)
  for (const method of ['GET', 'POST', 'HEAD'] as const)
    t.equal((await app.inject({ method, url: '/two' })).statusCode, 200)
  t.equal((await app.inject({ method: 'HEAD', url: '/two' })).statusCode, 429)
  for (let i = 0; i < 3; i++) t.equal((await app.inject('/own')).statusCode, 200)
  t.equal(
    (await app.inject({ method: 'HEAD', url: '/own' })).statusCode,
    429,
    'a HEAD route that the app declares shares them as well'
  )
})

t.test('HEAD shares the limits of its GET even when a hook writes a new rule for each route', async t => {
  const app = appOf(t)
  app.addHook('onRoute', route => {
    const own: Rule = { name: 'a', key: 'ip', limits: [{ max: 2, window: '60s' }] }
    route.config = { ...route.config, limit: route.url === '/list' ? [own] : own }
  })
  await app.register(limitPlugin)
  for (const url of ['/one', '/list']) app.get(url, async () => '')
  for (const url of ['/one', '/list']) {
    const ask = async (method: 'GET' | 'HEAD') => (await app.inject({ method, url })).statusCode
    t.same([await ask('GET'), await ask('HEAD'), await ask('HEAD'), await ask('GET')], [200, 200, 429, 429])
  }
})

t.test('a HEAD route with a rule of its own, or without a GET for its host, has its own limits', async t => {
  const { app } = await open(t)
  const limit = (max: number): Rule => ({ name: 'send', key: 'ip', limits: [{ max, window: '60s' }] })
  app.get('/x', { exposeHeadRoute: false, config: { limit: limit(9) } }, async () => '')
  app.head('/x', { config: { limit: limit(1) } }, async () => '')
  const one = limit(1)
  app.post('/y', { config: { limit: one } }, async () => '')
  app.head('/y', { config: { limit: one } }, async () => '')
  for (const host of ['a.example', 'b.example'])
    app.get('/z', { exposeHeadRoute: false, constraints: { host }, config: { limit: one } }, async () => '')
  app.head('/z', { constraints: { host: 'a.example' }, config: { limit: one } }, async () => '')
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 200)
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 429)
  t.equal((await app.inject({ method: 'POST', url: '/y' })).statusCode, 200)
  t.equal(
    (await app.inject({ method: 'HEAD', url: '/y' })).statusCode,
    200,
    'HEAD does not share the limits of a POST'
  )
  const ask = async (method: 'GET' | 'HEAD', host: string) =>
    (await app.inject({ method, url: '/z', headers: { host } })).statusCode
  t.equal(await ask('GET', 'b.example'), 200)
  t.equal(await ask('HEAD', 'a.example'), 200, 'HEAD does not share the limits of a GET of another host')
  t.equal(await ask('GET', 'a.example'), 429)
})

t.test('a route for HEAD and POST does not share the limits of a GET', async t => {
  const { app } = await open(t, {}, { exposeHeadRoutes: false })
  const config = { limit: { ...mobile, key: 'ip' as const } }
  app.get('/x', { config }, async () => 'sent')
  app.route({ method: ['HEAD', 'POST'], url: '/x', config, handler: async () => 'sent' })
  for (const method of ['GET', 'POST'] as const)
    t.equal((await app.inject({ method, url: '/x' })).statusCode, 200, method)
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 429, 'HEAD counts with its POST')
})

t.test('a HEAD route shares the limits of the GET with its own final slash', async t => {
  const { app } = await open(t)
  const config = { limit: { name: 'send', key: 'ip', limits } } as const
  for (const url of ['/x', '/x/', '/y/', '/y'])
    app.get(url, { exposeHeadRoute: false, config }, async () => '')
  for (const url of ['/x', '/x/', '/y/', '/y']) app.head(url, { config }, async () => '')
  for (const url of ['/x', '/x/', '/y/', '/y']) {
    t.equal((await app.inject(url)).statusCode, 200)
    t.equal((await app.inject({ method: 'HEAD', url })).statusCode, 429)
  }
})

t.test(
  'each value of a constraint of your own makes a route with limits of its own, whatever its type',
  async t => {
    const values = [1n, 2n, Symbol.for('a'), Symbol.for('b'), () => true, () => false, /a/, /b/]
    const kind = {
      name: 'kind',
      storage: () => {
        const routes = new Map()
        return {
          get: (value: unknown) => routes.get(value) ?? null,
          set: (value: unknown, route: unknown) => void routes.set(value, route)
        }
      },
      deriveConstraint: ({ headers }: { headers: IncomingHttpHeaders }) =>
        values[Number(headers.kind)] as never,
      validate() {}
    }
    const { app } = await open(t, {}, { routerOptions: { constraints: { kind } } })
    const config = { limit: { name: 'send', key: 'ip', limits } } as const
    for (const kind of values) app.get('/x', { constraints: { kind }, config }, async () => '')
    for (const [i, value] of values.entries()) {
      const ask = async () => (await app.inject({ url: '/x', headers: { kind: `${i}` } })).statusCode
      t.same([await ask(), await ask()], [200, 429], String(value))
    }
  }
)

t.test(
  'a HEAD route shares the limits of its GET in whatever order the two name their constraints',
  async t => {
    const { app } = await open(t)
    const config = { limit: { name: 'send', key: 'ip', limits } } as const
    const [host, version] = ['a.example', '1.0.0']
    app.get('/x', { exposeHeadRoute: false, constraints: { version, host }, config }, async () => '')
    app.head('/x', { constraints: { host, version }, config }, async () => '')
    const headers = { host, 'accept-version': version }
    t.equal((await app.inject({ url: '/x', headers })).statusCode, 200)
    t.equal((await app.inject({ method: 'HEAD', url: '/x', headers })).statusCode, 429)
  }
)

t.test('an empty constraints object is the same as none', async t => {
  const { app } = await open(t)
  const config = { limit: { name: 'send', key: 'ip', limits } } as const
  app.get('/x', { exposeHeadRoute: false, constraints: {}, config }, async () => '')
  app.head('/x', { config }, async () => '')
  t.same(Object.keys(app.limit.rules), ['send@GET /x'])
  t.equal((await app.inject('/x')).statusCode, 200)
  t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 429, 'shared with GET')
})

t.test('a HEAD route that a hook makes from a limited GET counts once', async t => {
  const lock: Rule = { name: 'lock', key: 'ip', lock: '30s' }
  const flood: Rule = { name: 'flood', key: 'ip', limits: [{ max: 9, window: '60s' }], counts: 'attempts' }
  const send: Rule = { name: 'send', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  const { app } = await open(t)
  app.addHook('onRoute', route => {
    if (route.method === 'GET') app.route({ ...route, method: 'HEAD' })
  })
  app.get('/x', { exposeHeadRoute: false, config: { limit: [flood, send, lock] } }, async () => '')
  const { statusCode, headers } = await app.inject({ method: 'HEAD', url: '/x' })
  t.equal(statusCode, 200, 'it is not refused by its own lock')
  t.equal(headers.ratelimit, '"flood";r=8;t=60, "send";r=8;t=60')
  t.equal((await app.inject('/x')).headers.ratelimit, '"flood";r=7;t=60, "send";r=7;t=60', 'shared with GET')
})

t.test(
  'a HEAD route that shares the limits of its GET keeps its error handler, and its name in events',
  async t => {
    const routes: (string | null)[] = []
    const { app } = await open(t, { onDecision: ({ route }) => void routes.push(route) })
    const limit: Rule = { name: 'send', key: 'ip', limits: [{ max: 1, window: '60s' }] }
    app.get('/x', { exposeHeadRoute: false, config: { limit } }, async () => '')
    const errorHandler = (_error: unknown, _request: unknown, reply: FastifyReply) => reply.code(418).send()
    app.head('/x', { config: { limit }, errorHandler }, async () => '')
    t.equal((await app.inject('/x')).statusCode, 200)
    t.equal((await app.inject({ method: 'HEAD', url: '/x' })).statusCode, 418)
    t.same(routes, ['GET /x', 'HEAD /x'])
  }
)

t.test('a route that a hook makes from a limited one counts once', t => countsOnce(t, false))
t.test('a route that a hook makes from a limited one with wrapped handlers counts once', t =>
  countsOnce(t, true)
)

async function countsOnce(t: Test, wrapped: boolean): Promise<void> {
  const flood: Rule = { name: 'flood', key: 'ip', limits: [{ max: 9, window: '60s' }], counts: 'attempts' }
  const send: Rule = { name: 'send', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  const { app } = await open(t, { rules: [flood, send, flight] })
  const only: Rule = { name: 'only', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  app.addHook('onRoute', route => {
    if (wrapped) wrap(route)
    if (route.url !== '/x') return
    app.route({ ...route, url: '/same' })
    app.route({ ...route, url: '/other', config: { limit: only } })
    app.route({ ...route, url: '/alias', config: {} })
  })
  const limit = ['flood', 'send', 'flight']
  const left = async (url: string) => {
    const { rules } = (await app.inject(url)).json<Verdict>()
    return rules.map(({ name, limits: [limit] }) => `${name} ${limit?.remaining}`)
  }
  app.get('/x', { exposeHeadRoute: false, config: { limit } }, async (_request, reply) => reply.limit)
  t.same(await left('/x?a=1'), ['flood 8', 'send 8', 'flight 0'])
  t.same(await left('/same?a=1'), ['flood 7', 'send 7', 'flight 0'])
  t.same(await left('/other'), ['only 8'])
  t.same(
    await left('/alias?a=1'),
    ['flood 6', 'send 6', 'flight 0'],
    'another URL is no way around the limits'
  )
}

/** Wraps handler and hooks, as a plugin does that measures what runs. */
function wrap(route: RouteOptions): void {
  const { handler, onRequest } = route
  route.handler = function (...args) {
    return handler.apply(this, args)
  }
  route.onRequest = [onRequest ?? []].flat().map(
    hook =>
      function (this: FastifyInstance, ...args: Parameters<onRequestHookHandler>) {
        return hook.apply(this, args)
      }
  )
}

t.test('routes without limits keep their handler and get no hooks', async t => {
  const { app } = await open(t, {}, { exposeHeadRoutes: false })
  const hooks = [
    'onRequest',
    'preParsing',
    'preValidation',
    'preHandler',
    'preSerialization',
    'onSend',
    'onResponse',
    'onError',
    'onTimeout',
    'onRequestAbort'
  ]
  const seen: Record<string, unknown>[] = []
  app.addHook('onRoute', route => void seen.push({ ...route }))
  const handler = async () => 'free'
  app.get('/free', handler)
  app.get('/other', { config: { other: true } as object }, handler)
  app.get('/limited', { config: { limit: mobile } }, handler)
  app.get('/attempts', { config: { limit: { name: 'a', key: 'ip', limits, counts: 'attempts' } } }, handler)
  for (const route of seen) {
    const own = hooks.filter(name => route[name] !== undefined && route[name] !== null)
    const limited = ['/limited', '/attempts'].includes(route.url as string)
    t.equal(route.handler === handler, !limited, `${route.method} ${route.url}`)
    t.same(own, route.url === '/attempts' ? ['onRequest'] : [])
  }
  await app.ready()
  t.same((await app.inject('/free')).headers['ratelimit-policy'], undefined)
})

t.test('errors are exported by name', async t => {
  for (const refusal of [errors.ExceededError, errors.InFlightError, errors.BlockedError])
    t.ok(new refusal('x') instanceof errors.LimitError && new refusal('x') instanceof Error)
  t.notOk(new errors.BlockedError('x') instanceof errors.ExceededError)
  for (const other of [new errors.KeyMissingError('x'), new Error('x'), null, 5])
    t.notOk(other instanceof errors.LimitError)
  t.equal(new errors.KeyMissingError('x').statusCode, 400)
})

import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { Limit, Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { NOON, places, redis } from './settlement/places.js'

interface Account {
  id: string
  dailyQuota?: unknown
  timeZone?: unknown
}

const HOUR = 3_600_000
const accountOf = (request: FastifyRequest) => (request as unknown as { account: Account }).account

// A rule as written in a file.
const daily = JSON.parse(`{
  "name": "daily",
  "key": { "value": "request.account.id" },
  "limits": [{
    "max": { "value": "request.account.dailyQuota" }, "ceiling": 5,
    "per": "day", "timeZone": { "value": "request.account.timeZone" }
  }]
}`) as Rule

/** Adds a route for these accounts. @returns sends as the account with this id */
function accounts(app: FastifyInstance, limit: string | Rule | (string | Rule)[], all: Account[]) {
  app.decorateRequest('account', null)
  app.addHook('onRequest', async request => {
    const { id } = request.query as { id: string }
    Object.assign(request, { account: all.find(each => each.id === id) })
  })
  app.get('/send', { config: { limit } }, async (_, reply) => reply.limit?.rules[0]?.limits ?? null)
  return async (id: string) => {
    const reply = await app.inject(`/send?id=${id}`)
    return reply.statusCode === 200 ? reply.json()[0].remaining : reply.statusCode
  }
}

for (const place of await places(t)) {
  t.test(`${place.store}: under one rule each account has its own quota and its own midnight`, async t => {
    const { app } = await place.open(t, [daily])
    const shanghai: Account = { id: 'shanghai', dailyQuota: 2, timeZone: 'Asia/Shanghai' }
    const york: Account = { id: 'york', dailyQuota: 1.9, timeZone: 'America/New_York' }
    const send = accounts(app, 'daily', [shanghai, york])
    t.same([await send('shanghai'), await send('shanghai'), await send('shanghai')], [1, 0, 429])
    t.same([await send('york'), await send('york')], [0, 429])
    const waits = async (account: Account) =>
      (await app.limit.peek({ daily: account.id }, { account } as unknown as FastifyRequest)).retryAfterMs
    t.same([await waits(shanghai), await waits(york)], [4 * HOUR, 17 * HOUR], 'from noon, UTC')
    place.advance(4 * HOUR - 1)
    t.same([await send('shanghai'), await send('york')], [429, 429])
    place.advance(1)
    t.same([await send('shanghai'), await send('york')], [1, 429], 'midnight in Shanghai')
    place.advance(13 * HOUR - 1)
    t.same([await send('shanghai'), await send('york')], [0, 429])
    place.advance(1)
    t.same([await send('shanghai'), await send('york')], [429, 0], 'midnight in New York')
    place.advance(11 * HOUR)
    t.same([await send('shanghai'), await send('york')], [1, 429])
  })

  t.test(
    `${place.store}: when the time zone of a rule changes, a period that has begun keeps its end`,
    async t => {
      const { app, used } = await place.open(t, [
        {
          name: 'daily',
          key: { value: 'query.id' },
          limits: [{ max: 2, per: 'day', timeZone: 'Asia/Shanghai' }]
        }
      ])
      const state = async () => (await app.limit.peek({ daily: 'a' })).rules[0]?.limits[0]
      const midnight = (await state())?.resetMs as number
      place.advance(midnight + 20 * HOUR) // to noon, UTC
      const first = await app.limit.reserve({ daily: 'a' })
      const [rule] = Object.values(app.limit.rules)
      const inZone = (timeZone: string) =>
        app.limit.replace([{ ...rule, limits: [{ max: 2, per: 'day', timeZone }] } as Rule])
      inZone('America/New_York')
      const second = await app.limit.reserve({ daily: 'a' })
      t.same([first.allowed, second.allowed, second.retryAfterMs], [true, true, 4 * HOUR])
      t.match(await state(), { remaining: 0, resetMs: 4 * HOUR }, 'at midnight in Shanghai, where it began')
      await first.refund()
      t.same(await used({ daily: 'a' }), [1], 'its slot is refunded all the same')
      place.advance(4 * HOUR)
      t.ok((await app.limit.reserve({ daily: 'a' })).allowed)
      t.match(
        await state(),
        { remaining: 1, resetMs: 13 * HOUR },
        'the next period ends at midnight in New York'
      )
    }
  )

  t.test(`${place.store}: an invalid quota or time zone is an error, and nothing is counted`, async t => {
    const flood: Rule = { name: 'flood', key: 'ip', limits: [{ max: 99, window: '1h' }] }
    const { app, used } = await place.open(t, [daily, flood])
    const wrong: [account: Omit<Account, 'id'>, message: string][] = [
      ...[
        [undefined, 'undefined'],
        ['5', 'a string'],
        [null, 'null'],
        [Number.NaN, 'NaN'],
        [5n, 'a bigint'],
        [{}, 'an object'],
        [true, 'a boolean']
      ].map(([dailyQuota, is]): [Omit<Account, 'id'>, string] => [
        { dailyQuota, timeZone: 'UTC' },
        `options.rules[0].limits[0].max: request.account.dailyQuota must be a number, but is ${is}`
      ]),
      ...[undefined, null, 8, '', 'Mars/Phobos', '+08:00', {}].map(
        (timeZone): [Omit<Account, 'id'>, string] => [
          { dailyQuota: 5, timeZone },
          'options.rules[0].limits[0].timeZone: request.account.timeZone must be an IANA time zone such as "Asia/Shanghai", but is '
        ]
      )
    ]
    accounts(
      app,
      ['daily', 'flood'],
      wrong.map(([account], i) => ({ ...account, id: `${i}` }))
    )
    for (const [i, [, message]] of wrong.entries()) {
      const reply = await app.inject(`/send?id=${i}`)
      t.match(reply.json(), { statusCode: 500, code: 'FST_SEND_LIMIT_FUNCTION', message }, message)
    }
    t.same(await used({ flood: '127.0.0.1' }), [0])
  })

  t.test(`${place.store}: a rule with the key "all" has one count for everybody`, async t => {
    const service: Rule = { name: 'service', key: 'all', limits: [{ max: 3, per: 'day' }] }
    const key: Rule['key'] = ['all', { value: 'query.purpose' }]
    const purpose: Rule = { name: 'purpose', key, limits: [{ max: 2, window: '1h' }] }
    const { app, used } = await place.open(t, [service, purpose])
    app.get('/send', { config: { limit: ['service', 'purpose'] } }, async () => '')
    app.get('/early', { config: { limit: { ...service, counts: 'attempts' } } }, async () => '')
    const ask = (query: string, remoteAddress: string) =>
      app.inject({ url: `/send?purpose=${query}`, remoteAddress })
    const first = await ask('login', '192.0.2.1')
    t.equal(first.statusCode, 200)
    t.notOk('ratelimit' in first.headers, 'a rule on all is no rule on the caller')
    t.equal((await ask('login', '192.0.2.2')).statusCode, 200)
    t.same((await ask('login', '192.0.2.3')).json()['violated-policies'], ['purpose'])
    t.equal((await ask('reset', '192.0.2.4')).statusCode, 200)
    t.same((await ask('reset', '192.0.2.5')).json()['violated-policies'], ['service'])
    t.same(await used({ service: null, purpose: [null, 'login'] }), [3, 2], 'whatever is given for "all"')
    t.same(await used({ service: 'anything', purpose: ['x', 'reset'] }), [3, 1])
    t.equal((await app.inject('/early')).statusCode, 200)
    await app.limit.block({ service: true })
    t.equal((await ask('other', '192.0.2.6')).statusCode, 403)
  })
}

t.test(
  'redis: a period that a clock change makes longer is counted to its end, even after a block',
  async t => {
    const place = await redis(t)
    const table = [
      ['hour', 'Australia/Lord_Howe', '2026-04-04T14:00Z', '2026-04-04T15:30Z'],
      ['day', 'Antarctica/Troll', '2026-10-24T22:00Z', '2026-10-26T00:00Z'],
      ['week', 'Antarctica/Troll', '2027-10-24T22:00Z', '2027-11-01T00:00Z'],
      ['month', 'Antarctica/Troll', '2028-09-30T22:00Z', '2028-11-01T00:00Z']
    ] as const
    const { app } = await place.open(
      t,
      table.map(([per, timeZone]) => ({ name: per, key: 'all', limits: [{ max: 1, per, timeZone }] }))
    )
    let now = NOON
    const moveTo = (time: number) => {
      place.advance(time - now)
      now = time
    }
    for (const [per, , start, end] of table) {
      const admitted = async () => (await app.limit.reserve({ [per]: '' })).allowed
      moveTo(Date.parse(start))
      t.ok(await admitted(), per)
      await app.limit.block({ [per]: '' })
      await app.limit.unblock({ [per]: '' })
      moveTo(Date.parse(end) - 1)
      t.notOk(await admitted(), `${per}: one millisecond before its end`)
      moveTo(Date.parse(end))
      t.ok(await admitted(), `${per}: the next period`)
    }
  }
)

t.test('a time zone may be a function of the request', async t => {
  const { app } = await open(t)
  const zones = new Map([
    ['a', 'Asia/Shanghai'],
    ['b', 'Asia/Nowhere']
  ])
  const timeZone = (request: FastifyRequest) => zones.get(accountOf(request).id) as string
  const limit: Rule = { ...daily, limits: [{ max: 1, per: 'day', timeZone }] } as Rule
  const send = accounts(app, limit, [{ id: 'a' }, { id: 'b' }])
  t.same([await send('a'), await send('a')], [0, 429])
  t.match((await app.inject('/send?id=b')).json(), {
    statusCode: 500,
    message:
      '"timeZone" of the rule daily must return an IANA time zone such as "Asia/Shanghai", but returned a string'
  })
  await t.rejects(app.limit.peek({ 'daily@GET /send': 'a' }), {
    code: 'FST_SEND_LIMIT_OPTION',
    message:
      'request: undefined is wrong. The rule daily takes its "timeZone" from the request: pass the request.'
  })
  await app.limit.clear({ 'daily@GET /send': 'a' })
  t.equal(await send('a'), 0, 'clear needs no request')
})

t.test('an async function for max or timeZone is an error, and its rejection is handled', async t => {
  const later = async () => {
    throw new Error('nobody waits for this')
  }
  const limits: Record<string, Limit> = {
    max: { max: later as never, ceiling: 1, window: '60s' },
    timeZone: { max: 1, per: 'day', timeZone: later as never }
  }
  for (const [name, limit] of Object.entries(limits)) {
    const { app, post } = await open(t, { rules: [{ name, key: 'ip', limits: [limit] }] })
    app.post('/send', { config: { limit: name } }, async () => '')
    t.match((await post('/send', {})).json(), { statusCode: 500, code: 'FST_SEND_LIMIT_FUNCTION' }, name)
  }
})

t.test('an allow function that returns true lets a request pass uncounted', async t => {
  const answers: Record<string, () => unknown> = {
    staff: () => true,
    other: () => false,
    later: async () => true,
    never: async () => {
      throw new Error('of nobody')
    }
  }
  const limit: Rule = {
    name: 'send',
    key: { phone: 'body.phone' },
    limits: [{ max: 1, window: '60s' }],
    allow: request => answers[String(request.headers['x-who'])]?.() as boolean,
    block: ['13800138009']
  }
  const { app, post } = await open(t, { rules: [limit] })
  app.post('/send', { config: { limit: 'send' } }, async (_, reply) => reply.limit?.keys ?? {})
  const send = (who: string, phone?: string) => post('/send', { phone }, { headers: { 'x-who': who } })
  const status = async (who: string, phone?: string) => (await send(who, phone)).statusCode
  const phone = '13800138000'
  t.same([await status('staff', phone), await status('staff', phone)], [200, 200])
  t.same((await send('staff', phone)).json(), {}, 'the rule did not apply')
  t.same([await status('staff'), await status('staff', '13800138009')], [200, 200], 'nor does the block list')
  t.same([await status('other', phone), await status('other', phone)], [200, 429])
  t.same([await status('other'), await status('other', '13800138009')], [400, 403])
  for (const who of ['later', 'never', 'nobody']) {
    t.match(
      (await send(who, '13800138001')).json(),
      {
        code: 'FST_SEND_LIMIT_FUNCTION',
        message: '"allow" of the rule send must return true or false'
      },
      'a promise or undefined is an error'
    )
  }
  t.notOk((await app.limit.reserve({ send: phone })).allowed, 'without a request the rule applies')
  const staff = { headers: { 'x-who': 'staff' } } as unknown as FastifyRequest
  for (const ask of ['reserve', 'peek'] as const) {
    const { allowed, rules } = await app.limit[ask]({ send: phone }, staff)
    t.same([allowed, rules], [true, []], ask)
  }
})

t.test('a private rule is in no rate-limit header', async t => {
  const limits = [{ max: 1, window: '60s' }]
  const rules: Rule[] = [
    { name: 'told', key: 'ip', limits: [{ max: 5, window: '60s' }] },
    { name: 'hidden', key: 'ip', limits, private: true },
    { name: 'mail', key: { email: 'body.to' }, limits, private: true },
    { name: 'tries', key: 'ip', counts: 'attempts', limits: [{ max: 3, window: '60s' }], private: true }
  ]
  const { app, post } = await open(t, { rules })
  app.post('/send', { config: { limit: rules.map(rule => rule.name) } }, async () => '')
  app.post('/alone', { config: { limit: 'hidden' } }, async () => '')
  const told = async (url: string) => {
    const { statusCode, headers, body } = await post(url, { to: 'a@example.com' })
    const policies = statusCode === 200 ? null : JSON.parse(body)['violated-policies']
    return [statusCode, headers['ratelimit-policy'], headers.ratelimit, headers['retry-after'], policies]
  }
  const policy = '"told";q=5;w=60'
  t.same(await told('/send'), [200, policy, '"told";r=4;t=60', undefined, null])
  t.same(await told('/send'), [429, policy, '"told";r=4;t=60', '60', ['hidden', 'mail']])
  t.same(await told('/alone'), [429, undefined, undefined, '60', ['hidden']])
  await told('/send')
  t.same(await told('/send'), [429, undefined, undefined, '60', ['tries']])
})

t.test('a private function hides its rule from the headers of some requests', async t => {
  const limits = [{ max: 3, window: '60s' }]
  const hides = (request: FastifyRequest) => request.headers['x-who'] === 'page'
  const rules: Rule[] = [
    { name: 'shown', key: 'ip', limits: [{ max: 9, window: '60s' }] },
    { name: 'quota', key: { value: 'request.who' }, limits, private: request => hides(request) },
    { name: 'tries', key: 'ip', counts: 'attempts', limits, private: hides }
  ]
  const { app, post } = await open(t, { rules })
  app.decorateRequest('who', '')
  app.addHook('preHandler', async request => {
    Object.assign(request, { who: 'shop' })
  })
  app.post('/send', { config: { limit: ['shown', 'quota', 'tries'] } }, async (request, reply) => {
    if (request.headers['x-fails']) return reply.code(502).send()
  })
  const told = async (who: string, headers = {}) => {
    const answer = await post('/send', {}, { headers: { 'x-who': who, ...headers } })
    return [answer.statusCode, answer.headers.ratelimit, answer.headers['ratelimit-policy']]
  }
  const shown = '"shown";q=9;w=60'
  t.same(await told('page'), [200, '"shown";r=8;t=60', shown])
  t.same(
    await told('page', { 'x-fails': 'yes' }),
    [502, '"shown";r=8;t=60', shown],
    'nor in headers after a refund'
  )
  t.same(await told('key'), [
    200,
    '"tries";r=0;t=60, "shown";r=7;t=60, "quota";r=1;t=60',
    `"tries";q=3;w=60, ${shown}, "quota";q=3;w=60`
  ])
  t.same(await told('key'), [429, '"tries";r=0;t=60', '"tries";q=3;w=60'])
  t.same(await told('page'), [429, undefined, undefined], 'nor in a refusal')
})

t.test(
  'a private function that returns neither true nor false is an error, and nothing is counted',
  async t => {
    const answers: Record<string, () => unknown> = {
      yes: () => true,
      later: async () => true,
      never: () => {},
      throws: () => {
        throw undefined
      }
    }
    const limits = [{ max: 1, window: '60s' }]
    for (const counts of ['sends', 'attempts'] as const) {
      const name = `hidden-${counts}`
      const { app, post } = await open(t, {
        rules: [
          {
            name,
            key: 'ip',
            counts,
            limits,
            private: request => answers[String(request.headers['x-who'])]?.() as boolean
          }
        ]
      })
      app.post('/send', { config: { limit: name } }, async () => '')
      for (const who of ['later', 'never', 'nobody'])
        t.match((await post('/send', {}, { headers: { 'x-who': who } })).json(), {
          statusCode: 500,
          code: 'FST_SEND_LIMIT_FUNCTION',
          message: `"private" of the rule ${name} must return true or false`
        })
      t.equal((await post('/send', {}, { headers: { 'x-who': 'throws' } })).statusCode, 500)
      t.equal((await post('/send', {}, { headers: { 'x-who': 'yes' } })).statusCode, 200)
    }
  }
)

t.test('a private function is asked once, when its rule decides', async t => {
  const asked: string[] = []
  const hides = (name: string) => (request: FastifyRequest) => {
    asked.push(`${name} ${request.body === undefined ? 'before' : 'behind'} the body`)
    return asked.length > 1
  }
  const limits = [{ max: 9, window: '60s' }]
  const rules: Rule[] = [
    { name: 'tries', key: 'ip', counts: 'attempts', limits, private: hides('tries') },
    { name: 'sends', key: 'ip', limits, private: hides('sends') }
  ]
  const { app, post } = await open(t, { rules })
  app.post('/send', { config: { limit: ['tries', 'sends'] } }, async () => '')
  t.equal((await post('/send', {})).headers.ratelimit, '"tries";r=8;t=60')
  t.same(asked, ['tries before the body', 'sends behind the body'])
})

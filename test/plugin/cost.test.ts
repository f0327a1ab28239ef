import type { FastifyInstance, FastifyRequest, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { errors, type Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { DAY, type Place, places } from './settlement/places.js'

const stores = await places(t)
const HALF_DAY = DAY / 2
const budget: Rule = {
  name: 'budget',
  key: { value: 'query.account' },
  limits: [{ max: 100, per: 'day' }],
  cost: request => (request.query as { cost: number }).cost
}
/** What the headers tell. */
const told = ({ headers }: LightMyRequestResponse) => [headers['ratelimit-policy'], headers.ratelimit]
const costing = (cost: unknown) => ({ query: { cost } }) as FastifyRequest

/** Adds a route that answers with the status it is asked for. @returns a request that has this cost */
function route(app: FastifyInstance, limit: string | string[] | Rule) {
  app.get(
    '/send',
    {
      config: { limit },
      schema: { querystring: { type: 'object', properties: { cost: { type: 'number' } } } }
    },
    async (request, reply) => {
      const { status = 200 } = request.query as { status?: number }
      return reply.code(Number(status)).send({ ...reply.limit?.verdict() })
    }
  )
  return (cost: number, more = '') => app.inject(`/send?account=a&cost=${cost}${more}`)
}

for (const place of stores) {
  t.test(`${place.store}: a request takes its cost, and is refused where less is left`, async t => {
    const { app, used } = await place.open(t, [budget])
    const send = route(app, 'budget')
    const first = await send(69.2)
    t.match(first.json(), { allowed: true, retryAfterMs: HALF_DAY })
    t.strictSame(
      first.json().rules[0].limits,
      [{ max: 100, remaining: 30, resetMs: HALF_DAY, windowMs: DAY, cost: 70 }],
      'rounded up'
    )
    const refused = await send(31)
    t.equal(refused.statusCode, 429)
    t.equal(refused.headers['retry-after'], `${HALF_DAY / 1_000}`)
    t.match(refused.json(), { 'violated-policies': ['budget'], retryAfterMs: HALF_DAY })
    t.match((await send(10)).json(), { allowed: true, retryAfterMs: 0 }, 'the same fits once more')
    t.equal((await send(20)).statusCode, 200)
    t.equal((await send(1)).statusCode, 429)
    place.advance(HALF_DAY)
    t.equal((await send(100)).statusCode, 200, 'the next day')
    t.same(await used({ budget: 'b' }).catch(error => error.code), 'FST_SEND_LIMIT_OPTION')
  })

  t.test(`${place.store}: a request that costs more than there is names no time`, async t => {
    const { app } = await place.open(t, [budget])
    const refused = await route(app, 'budget')(101)
    t.equal(refused.statusCode, 429)
    t.notOk('retry-after' in refused.headers)
    t.match(refused.json(), { 'violated-policies': ['budget'], retryAfterMs: null })
  })

  t.test(
    `${place.store}: a request that fails, or whose receipt is refunded, gets its cost back`,
    async t => {
      const { app } = await place.open(t, [budget])
      const send = route(app, 'budget')
      const left = async () =>
        (await app.limit.peek({ budget: 'a' }, costing(1))).rules[0]?.limits[0]?.remaining
      t.equal((await send(40, '&status=502')).statusCode, 502)
      t.equal(await left(), 100)
      const sent = await app.limit.reserve({ budget: 'a' }, costing(60))
      const receipt = sent.receipt()
      sent.keep()
      t.equal((await send(40)).statusCode, 200)
      t.equal(await left(), 0)
      for (let times = 0; times < 2; times++) {
        await app.limit.refund(receipt)
        t.equal(await left(), 60)
      }
    }
  )

  t.test(`${place.store}: a refusal by another rule costs nothing`, async t => {
    const mobile: Rule = { name: 'mobile', key: 'ip', limits: [{ max: 1, window: '60s' }] }
    const { app } = await place.open(t, [budget, mobile])
    const send = route(app, ['budget', 'mobile'])
    t.same([(await send(30)).statusCode, (await send(30)).statusCode], [200, 429])
    t.match(await app.limit.peek({ budget: 'a' }, costing(70)), { allowed: true })
    t.match(await app.limit.peek({ budget: 'a' }, costing(71)), { allowed: false })
  })

  t.test(`${place.store}: a wrong cost is an error, and nothing is counted`, async t => {
    const { app } = await place.open(t, [budget])
    for (const [wrong, is] of [
      [0, 'a number'],
      [-1, 'a number'],
      [10 ** 12 + 1, 'a number'],
      [Number.NaN, 'NaN'],
      [Number.POSITIVE_INFINITY, 'Infinity'],
      ['5', 'a string'],
      [5n, 'a bigint'],
      [undefined, 'undefined']
    ] as const)
      await t.rejects(async () => app.limit.reserve({ budget: 'a' }, costing(wrong)), {
        code: 'FST_SEND_LIMIT_FUNCTION',
        message: `"cost" of the rule budget must return a number above 0, 1000000000000 at most, but returned ${is}`
      })
    await t.rejects(async () => app.limit.reserve({ budget: 'a' }, costing(Promise.reject(new Error()))), {
      message: /but returned a promise$/
    })
    await t.rejects(async () => app.limit.reserve({ budget: 'a' }), {
      code: 'FST_SEND_LIMIT_OPTION',
      message:
        'request: undefined is wrong. The rule budget takes its "cost" from the request: pass the request.'
    })
    t.match(await app.limit.peek({ budget: 'a' }, costing(100)), { allowed: true })
    t.match(await app.limit.peek({ budget: 'a' }, costing(10 ** 12)), { allowed: false, retryAfterMs: null })
    t.ok((await app.limit.reserve({ budget: 'a' }, costing(100))).allowed)
    await app.limit.clear({ budget: 'a' })
    t.ok((await app.limit.reserve({ budget: 'a' }, costing(100))).allowed, 'clear needs no request')
  })
}

t.test('with the refusal cache, a cheaper request is still admitted', async t => {
  const { app } = await (stores[1] as Place).open(t, [budget], { refusalCache: '1m' })
  const reserve = (cost: number) => app.limit.reserve({ budget: 'a' }, costing(cost))
  await reserve(90)
  for (const [cost, allowed] of [
    [11, false],
    [11, false],
    [10, true],
    [1, false]
  ] as const)
    t.match(await reserve(cost), { allowed, store: 'redis' }, `${cost}`)
})

t.test('headers tell what is left of a rule on the caller, also where it is too little', async t => {
  const { app } = await open(t)
  const send = route(app, { ...budget, key: 'ip', limits: [{ max: 100, per: 'hour' }] })
  for (const status of [200, 429]) {
    const reply = await send(70)
    t.equal(reply.statusCode, status)
    t.strictSame(told(reply), ['"budget";q=100;w=3600', '"budget";r=30;t=3600'])
  }
})

t.test('headers name a rule on others when it has too little left', async t => {
  const { app } = await open(t)
  const send = route(app, {
    ...budget,
    limits: [
      { max: 100, per: 'hour' },
      { max: 150, per: 'day' }
    ]
  })
  t.strictSame(told(await send(70)), [undefined, undefined])
  t.strictSame(told(await send(70)), ['"budget-1h";q=100;w=3600', '"budget-1h";r=30;t=3600'])
  t.strictSame((await send(90)).json()['violated-policies'], ['budget-1h', 'budget-24h'])
})

t.test('a rule in a file takes the cost from what a hook has put on the request', async t => {
  const limit = JSON.parse(`{
    "name": "budget", "key": "all", "limits": [{ "max": 100, "per": "month" }],
    "cost": { "value": "request.tariff" }
  }`) as Rule
  const { app } = await open(t)
  app.decorateRequest('tariff', 0)
  app.addHook('onRequest', async request => {
    Object.assign(request, { tariff: Number((request.query as { price: string }).price) })
  })
  app.get('/send', { config: { limit } }, async () => 'sent')
  const statuses = []
  for (const price of [60, 41, 40]) statuses.push((await app.inject(`/send?price=${price}`)).statusCode)
  t.same(statuses, [200, 429, 200])
})

t.test('a cost goes with calendar limits alone, and comes from the request', async t => {
  const limits = [{ max: 9, per: 'day' as const }]
  const right = 'It goes with limits "per" a calendar period alone.'
  const given = 'Write a function or { value: path }.'
  for (const [members, at, message] of [
    [
      { limits: [...limits, { max: 9, window: '1h' }], cost: () => 1 },
      '.cost',
      `a function is wrong. ${right}`
    ],
    [{ lock: '30s', cost: () => 1 }, '.cost', `a function is wrong. ${right}`],
    [{ limits, cost: 5 }, '.cost', `5 is wrong. ${given}`],
    [{ limits, cost: 0 }, '.cost', `0 is wrong. ${given}`],
    [{ limits, cost: 'request.tariff' }, '.cost', `"request.tariff" is wrong. ${given}`],
    [
      { limits, cost: { value: 'body.price' } },
      '.cost.value',
      '"body.price" is wrong. Write a path to what plugins put on the request: what a client sends must not choose its own limit.'
    ]
  ] as const)
    await t.rejects(
      async () => {
        const { app } = await open(t, { rules: [{ name: 'budget', key: 'all', ...members }] as never })
        await app.ready()
      },
      { constructor: errors.OptionError, message: `options.rules[0]${at}: ${message}` }
    )
})

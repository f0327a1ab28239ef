import t from 'tap'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { join } from '../../plugin/stages.js'
import { admittedVerdict, type Verdict } from '../../plugin/verdict.js'
import { open } from '../helper/face.js'

const flood: Rule = { name: 'flood', key: 'ip', limits: [{ max: 3, window: '60s' }], counts: 'attempts' }
const send: Rule = { name: 'send', key: 'ip', limits: [{ max: 1, window: '10s' }] }
const schema = { body: { type: 'object', required: ['phone'], properties: { phone: { type: 'string' } } } }
const verdict = (changes: Partial<Verdict>): Verdict => ({ ...admittedVerdict(), ...changes })
const json = { headers: { 'content-type': 'application/json' } }

t.test('attempts are counted before the body is parsed, sends after it is valid', async t => {
  const { app, post } = await open(t, { rules: [flood, send] })
  app.post('/x', { schema, config: { limit: ['flood', 'send'] } }, async () => 'sent')
  const left = async () =>
    (await app.limit.peek({ flood: '127.0.0.1', send: '127.0.0.1' })).rules.map(
      rule => rule.limits[0]?.remaining
    )
  t.equal((await post('/x', '{', json)).statusCode, 400, 'the body is no JSON')
  t.same(await left(), [2, 1])
  t.equal((await post('/x', {})).statusCode, 400, 'the body does not match its schema')
  t.same(await left(), [1, 1])
  t.equal((await post('/x', { phone: '1' })).statusCode, 200)
  t.same(await left(), [0, 0])
  const refused = await post('/x', '{', json)
  t.equal(refused.statusCode, 429, 'refused before it is parsed')
  t.same(refused.json()['violated-policies'], ['flood'])
  t.equal(refused.headers['content-type'], 'application/problem+json')
})

t.test('a decision has the keys of its attempts and of its sends', async t => {
  const { app, post } = await open(t, { rules: [flood, send] })
  app.post('/x', { config: { limit: ['flood', 'send'] } }, async (_request, { limit }) => [
    limit?.keys,
    { flood: limit?.keyOf('flood'), send: limit?.keyOf('send') },
    limit?.keyOf('other') ?? null
  ])
  const [keys, each, other] = (await post('/x', {})).json()
  t.match(keys, { flood: String, send: String })
  t.same(each, keys)
  t.equal(other, null)
})

t.test('the body of a refused attempt is not parsed', async t => {
  const { app, post } = await open(t)
  let parsed = 0
  app.addContentTypeParser('text/x', { parseAs: 'string' }, (_req, body, done) => {
    parsed++
    done(null, body)
  })
  app.post('/x', { config: { limit: { ...flood, limits: [{ max: 1, window: '60s' }] } } }, async () => 'sent')
  const body = { headers: { 'content-type': 'text/x' } }
  t.equal((await post('/x', 'a', body)).statusCode, 200)
  t.equal((await post('/x', 'a', body)).statusCode, 429)
  t.equal(parsed, 1)
})

t.test('the handler does not run after a refused attempt, even when a hook holds up the reply', async t => {
  const { app } = await open(t)
  // Until such a hook has ended, Fastify does not take the reply for sent.
  app.addHook('onSend', (_req, _reply, payload, done) => void setImmediate(done, null, payload))
  let ran = 0
  const limit: Rule = { ...flood, limits: [{ max: 1, window: '60s' }] }
  app.get('/x', { config: { limit } }, async () => `${++ran}`)
  t.equal((await app.inject('/x')).statusCode, 200)
  t.equal((await app.inject('/x')).statusCode, 429)
  t.equal(ran, 1)
})

t.test('a preHandler that refuses costs no send, and what it finds may be a key', async t => {
  const { app } = await open(t)
  app.decorateRequest('account', null)
  const preHandler = async (req: { headers: Record<string, unknown> }) => {
    if (req.headers['x-key'] === undefined) throw Object.assign(new Error('who?'), { statusCode: 401 })
    Object.assign(req, { account: { id: req.headers['x-key'] } })
  }
  const limit: Rule[] = [
    { ...flood, limits: [{ max: 5, window: '60s' }] },
    { name: 'account', key: { value: 'request.account.id' }, limits: [{ max: 1, window: '60s' }] }
  ]
  app.get('/x', { preHandler, config: { limit } }, async () => 'sent')
  const ask = async (key?: string) =>
    (await app.inject({ url: '/x', ...(key && { headers: { 'x-key': key } }) })).statusCode
  t.same(
    [await ask(), await ask('a'), await ask('a'), await ask('b'), await ask()],
    [401, 200, 429, 200, 401]
  )
  t.equal(await ask('c'), 429, 'the attempts are used up')
})

t.test('the decision on sends is made after every preHandler, including those of the app', async t => {
  const { app } = await open(t)
  const seen: unknown[] = []
  app.addHook('preHandler', async (_req, reply) => void seen.push(reply.limit))
  app.get(
    '/x',
    { preHandler: async (_req, reply) => void seen.push(reply.limit), config: { limit: send } },
    async (_req, reply) => {
      seen.push(reply.limit?.allowed)
      return 'sent'
    }
  )
  await app.inject('/x')
  t.same(seen, [null, null, true])
})

t.test('reply.limit holds both stages, with the longer waiting time', async t => {
  const { app, advance } = await open(t, {
    rules: [
      { name: 'flood', key: 'ip', limits: [{ max: 1, window: '60s' }], counts: 'attempts' },
      { name: 'send', key: 'ip', limits: [{ max: 2, window: '10s' }] }
    ]
  })
  app.get('/both', { config: { limit: ['send', 'flood'] } }, async (_req, reply) => reply.limit)
  app.get('/send', { config: { limit: 'send' } }, async () => 'sent')
  const both = (await app.inject('/both')).json()
  t.match(both, {
    allowed: true,
    retryAfterMs: 60_000,
    violated: [],
    rules: [{ name: 'flood' }, { name: 'send' }]
  })
  await app.inject('/send')
  advance(1_000)
  t.match((await app.inject('/send')).json(), { status: 429, retryAfterMs: 9_000 })
  const refused = await app.inject('/both')
  t.match(refused.json(), { status: 429, retryAfterMs: 59_000, 'violated-policies': ['flood'] })
})

t.test('when the second stage refuses, its answer has the longer waiting time of both', async t => {
  const { app, advance } = await open(t)
  const limit: Rule[] = [
    { name: 'flood', key: 'ip', limits: [{ max: 2, window: '60s' }], counts: 'attempts' },
    { name: 'send', key: 'ip', limits: [{ max: 1, window: '10s' }] }
  ]
  app.get('/x', { config: { limit } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 200)
  advance(1_000)
  const refused = await app.inject('/x')
  t.match(refused.json(), { retryAfterMs: 59_000, 'violated-policies': ['send'] })
  t.equal(refused.headers['retry-after'], '59')
  advance(58_999)
  t.equal((await app.inject('/x')).statusCode, 429, 'one millisecond before')
  advance(1)
  t.equal((await app.inject('/x')).statusCode, 200)
})

t.test('time that passes between the stages shortens the waiting times of the first', async t => {
  const { app, advance } = await open(t)
  const limit: Rule[] = [
    { name: 'flood', key: 'ip', limits: [{ max: 2, window: '60s' }], counts: 'attempts' },
    { name: 'send', key: 'ip', limits: [{ max: 1, window: '10s' }] }
  ]
  const preHandler = async () => advance(4_000)
  app.get('/x', { preHandler, config: { limit } }, async (_req, reply) => reply.limit)
  const admitted = await app.inject('/x')
  t.match(admitted.json(), {
    retryAfterMs: 10_000,
    rules: [{ limits: [{ remaining: 1, resetMs: 56_000 }] }, { limits: [{ resetMs: 10_000 }] }]
  })
  t.equal(admitted.headers.ratelimit, '"flood";r=1;t=56, "send";r=0;t=10')
  const refused = await app.inject('/x')
  t.equal(refused.json().retryAfterMs, 52_000)
  t.equal(refused.headers.ratelimit, '"flood";r=0;t=52, "send";r=0;t=6')
  advance(51_999)
  t.equal((await app.inject('/x')).statusCode, 429, 'one millisecond before')
  advance(1)
  t.equal((await app.inject('/x')).statusCode, 200)
})

t.test('a rule on failures counts only 4xx, and refuses when it is used up', async t => {
  const { app } = await open(t)
  const limit: Rule = {
    name: 'wrong',
    key: { value: 'query.id' },
    limits: [{ max: 2, window: '60s' }],
    counts: 'failures'
  }
  app.get<{ Querystring: { status: string } }>('/x', { config: { limit } }, async (req, reply) =>
    reply.code(Number(req.query.status)).send('x')
  )
  const ask = async (status: number) => (await app.inject(`/x?id=a&status=${status}`)).statusCode
  t.same([await ask(200), await ask(500), await ask(204), await ask(302)], [200, 500, 204, 302])
  t.same([await ask(499), await ask(200), await ask(400)], [499, 200, 400])
  t.same([await ask(200), await ask(200)], [429, 429])
})

t.test('a rule on sends counts only answers below 400', async t => {
  const { app } = await open(t)
  app.get<{ Querystring: { status: string } }>('/x', { config: { limit: send } }, async (req, reply) =>
    reply.code(Number(req.query.status)).send('x')
  )
  const ask = async (status: number) => (await app.inject(`/x?status=${status}`)).statusCode
  t.same([await ask(400), await ask(503), await ask(399), await ask(200)], [400, 503, 399, 429])
})

t.test('observed rules refuse nothing and count what is admitted', async t => {
  const events: DecisionEvent[] = []
  const { app } = await open(t, { onDecision: event => void events.push(event) })
  const limit: Rule[] = [
    { name: 'strict', key: 'ip', limits: [{ max: 1, window: '60s' }], mode: 'observe' },
    { name: 'loose', key: 'ip', limits: [{ max: 2, window: '60s' }] }
  ]
  app.get('/x', { config: { limit } }, async (_req, reply) => reply.limit)
  const first = await app.inject('/x')
  const verdictOf = (reply: typeof first) => {
    const { allowed, observed, violated } = reply.json()
    return [allowed, observed, violated]
  }
  t.same(verdictOf(first), [true, [], []])
  t.notMatch(first.headers.ratelimit, 'strict', 'a rule that is not in force is in no header')
  t.same(verdictOf(await app.inject('/x')), [true, [{ rule: 'strict', windowMs: 60_000 }], []])
  t.same((await app.inject('/x')).json()['violated-policies'], ['loose'])
  t.same(
    events.map(event => [event.allowed, event.observed.length, event.violated.length]),
    [
      [true, 0, 0],
      [true, 1, 0],
      [false, 1, 1]
    ]
  )
})

t.test('reply.limit lists an observed rule on attempts that would refuse', async t => {
  const { app } = await open(t)
  app.get(
    '/x',
    { config: { limit: { ...flood, mode: 'observe', limits: [{ max: 1, window: '60s' }] } } },
    async (_req, reply) => reply.limit
  )
  for (const observed of [0, 1, 1]) t.equal((await app.inject('/x')).json().observed.length, observed)
})

t.test('an observed rule on attempts is reported by the event of the attempts alone', async t => {
  const events: DecisionEvent[] = []
  const { app } = await open(t, { onDecision: event => void events.push(event) })
  const limit: Rule[] = [
    { ...flood, mode: 'observe', limits: [{ max: 1, window: '60s' }] },
    { ...send, limits: [{ max: 9, window: '60s' }] }
  ]
  app.get('/x', { config: { limit } }, async (_req, reply) => reply.limit)
  for (const observed of [0, 1]) t.equal((await app.inject('/x')).json().observed.length, observed)
  t.same(
    events.map(({ stage, observed }) => [stage, observed.length]),
    [
      ['attempts', 0],
      ['sends', 0],
      ['attempts', 1],
      ['sends', 0]
    ]
  )
})

t.test('the verdict of two stages is that of the later, with the longer waiting time', async t => {
  const earlier = verdict({
    retryAfterMs: 5_000,
    rules: [
      { name: 'a', limits: [3_000, 10, 0].map(resetMs => ({ max: 2, remaining: 1, resetMs, windowMs: 1 })) }
    ],
    observed: [
      { rule: 'a', windowMs: 1 },
      { rule: 'a', windowMs: 0, blockedMs: 3_000 },
      { rule: 'c', windowMs: 0, blockedMs: null }
    ]
  })
  const later = verdict({
    allowed: false,
    retryAfterMs: 2_000,
    refusal: 'in-flight',
    violated: [{ rule: 'b', windowMs: 2 }],
    rules: [{ name: 'b', limits: [] }]
  })
  t.strictSame(join(earlier, later, 20.9), {
    allowed: false,
    retryAfterMs: 4_980,
    violated: [{ rule: 'b', windowMs: 2 }],
    observed: [
      { rule: 'a', windowMs: 1 },
      { rule: 'a', windowMs: 0, blockedMs: 2_980 },
      { rule: 'c', windowMs: 0, blockedMs: null }
    ],
    rules: [
      { name: 'a', limits: [2_980, 0, 0].map(resetMs => ({ max: 2, remaining: 1, resetMs, windowMs: 1 })) },
      { name: 'b', limits: [] }
    ],
    refusal: 'in-flight'
  })
  t.equal(join(earlier, { ...later, retryAfterMs: 9_000 }, 20).retryAfterMs, 9_000)
  t.equal(join({ ...earlier, retryAfterMs: null }, later, 20).retryAfterMs, null)
  t.equal(join(earlier, { ...later, refusal: 'blocked', retryAfterMs: null }, 20).retryAfterMs, null)
  t.equal(join(earlier, verdict({}), 6_000).retryAfterMs, 0, 'a waiting time that is over is 0')
  t.equal(earlier.retryAfterMs, 5_000, 'the earlier verdict is not changed')
})

t.test(
  "attempts are counted after the route's own onRequest hooks, which may set the key or answer first",
  async t => {
    const tenant: Rule = {
      name: 'tenant',
      key: { value: 'request.tenant' },
      counts: 'attempts',
      limits: [{ max: 1, window: '60s' }]
    }
    const { app, post } = await open(t, { rules: [tenant] })
    app.decorateRequest('tenant', '')
    let closed = true
    app.post(
      '/x',
      {
        config: { limit: 'tenant' },
        onRequest: async (request, reply) => {
          if (closed) return reply.code(401).send('closed')
          Object.assign(request, { tenant: request.headers['x-tenant'] })
        }
      },
      async () => 'sent'
    )
    const ask = async (name: string) => (await post('/x', {}, { headers: { 'x-tenant': name } })).statusCode
    t.equal(await ask('a'), 401)
    closed = false
    t.same(
      [await ask('a'), await ask('b'), await ask('a')],
      [200, 200, 429],
      'each tenant counts on its own, and the request that a hook answered was not counted'
    )
  }
)

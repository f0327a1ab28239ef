import { once } from 'node:events'
import { request } from 'node:http'
import { mock } from 'node:test'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { errors, type LimitError, type RouteLimit, type Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { listen } from '../helper/listen.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { strays } from '../helper/strays.js'

const send: Rule = { name: 'send', key: 'ip', limits: [{ max: 1, window: '60s' }] }
const flood: Rule = { ...send, name: 'flood', counts: 'attempts' }
const PROBLEM = 'application/problem+json'

/** A handler that answers once `release` is called. */
function held() {
  const [entered, onward] = [gate(), gate()]
  const handler = async () => {
    entered.open()
    await onward.opened
    return 'sent'
  }
  return { handler, inside: entered.opened, release: onward.open }
}

t.test('refusals are answered by problem documents (RFC 9457)', async t => {
  const { app } = await open(t)
  app.get('/x', { config: { limit: send } }, async () => 'sent')
  app.get('/flood', { config: { limit: flood } }, async () => 'sent')
  app.get('/blocked', { config: { limit: { ...send, block: ['127.0.0.1'] } } }, async () => 'sent')
  const { handler, inside, release } = held()
  app.get('/flight', { config: { limit: { name: 'flight', key: 'ip', lock: '30s' } } }, handler)
  await app.inject('/x')
  await app.inject('/flood')
  const exceeded = {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too many requests',
    status: 429,
    code: 'FST_SEND_LIMIT_EXCEEDED',
    retryAfterMs: 60_000
  }
  const first = app.inject('/flight').then(reply => reply.statusCode)
  await inside
  for (const [url, problem] of [
    ['/x', { ...exceeded, detail: 'limit reached: send', 'violated-policies': ['send'] }],
    ['/flood', { ...exceeded, detail: 'limit reached: flood', 'violated-policies': ['flood'] }],
    [
      '/blocked',
      {
        type: 'about:blank',
        title: 'Forbidden',
        status: 403,
        detail: 'blocked by: send',
        code: 'FST_SEND_LIMIT_BLOCKED',
        'violated-policies': ['send'],
        retryAfterMs: null
      }
    ],
    [
      '/flight',
      {
        type: 'about:blank',
        title: 'Conflict',
        status: 409,
        detail: 'already under way: flight',
        code: 'FST_SEND_LIMIT_IN_FLIGHT',
        'violated-policies': ['flight'],
        retryAfterMs: 30_000
      }
    ]
  ] as const) {
    const reply = await app.inject(url)
    t.equal(reply.statusCode, problem.status, url)
    t.equal(reply.headers['content-type'], PROBLEM)
    t.strictSame(reply.json(), problem)
  }
  release()
  t.equal(await first, 200)
})

t.test('a refusal by a lock and a limit together is 429', async t => {
  const { app } = await open(t)
  const { handler, inside, release } = held()
  app.get('/x', { config: { limit: [send, { name: 'flight', key: 'ip', lock: '30s' }] } }, handler)
  const first = app.inject('/x').then(reply => reply.statusCode)
  await inside
  const second = await app.inject('/x')
  t.match(second.json(), { status: 429, 'violated-policies': ['send', 'flight'], retryAfterMs: 60_000 })
  release()
  t.equal(await first, 200)
})

t.test('a refused HEAD has no body', async t => {
  const { app } = await open(t)
  app.get('/x', { config: { limit: send } }, async () => 'sent')
  const port = await listen(app)
  for (const status of [200, 429]) {
    const [response] = await once(request({ port, path: '/x', method: 'HEAD' }).end(), 'response')
    response.resume()
    t.equal(response.statusCode, status)
  }
})

t.test('an error handler can answer a refusal of run as a route does', async t => {
  const answers = []
  for (const handled of [false, true]) {
    const { app } = await open(t, { rules: [{ ...send, name: 'send' }] })
    if (handled)
      app.setErrorHandler<LimitError>((error, _request, reply) =>
        reply
          .code(error.statusCode)
          .headers(error.headers)
          .type('application/problem+json')
          .serializer(JSON.stringify)
          .send(error.problem)
      )
    const schema = { response: { '4xx': { type: 'object', properties: { own: { type: 'string' } } } } }
    app.get('/route', { schema, config: { limit: 'send' } }, async () => 'sent')
    app.get('/run', { schema }, async request => app.limit.run({ send: request.ip }, () => 'sent', request))
    for (const url of handled ? ['/route', '/route', '/run'] : ['/route', '/route']) {
      const { statusCode, headers, body } = await app.inject(url)
      const { date: _, connection: __, ...told } = headers
      answers.push({ statusCode, headers: told, body })
    }
  }
  const [sent, byPlugin, , ...byHandler] = answers
  t.equal(sent?.statusCode, 200)
  t.match(byPlugin, { statusCode: 429, headers: { 'retry-after': '60' } })
  for (const answer of byHandler) t.same(answer, byPlugin)
})

t.test('a refusal of run that leaves a filter or a key function is answered as one of a route', async t => {
  const places = {
    none: {},
    errorResponse: { errorResponse: (error: LimitError) => ({ wait: error.decision.retryAfterMs }) },
    'error handler': {}
  }
  for (const [place, options] of Object.entries(places)) {
    const { app } = await open(t, { rules: [send], ...options })
    if (place === 'error handler')
      app.setErrorHandler<LimitError>(({ statusCode, problem }, _, reply) =>
        reply.code(statusCode).send({ mine: problem })
      )
    const ask = (request: FastifyRequest) => app.limit.run({ send: request.ip }, () => 'asked', request)
    const filter = { name: 'ask', check: async (request: FastifyRequest) => void (await ask(request)) }
    const limits: Record<string, RouteLimit> = {
      route: 'send',
      filter,
      key: { ...send, name: 'other', key: ask }
    }
    for (const [url, limit] of Object.entries(limits))
      app.get(`/${url}`, { config: { limit } }, async () => 'sent')
    await app.inject('/route')
    const [byRoute, ...others] = await Promise.all(
      ['/route', '/filter', '/key'].map(async url => {
        const { statusCode, headers, body } = await app.inject(url)
        return { statusCode, headers: { ...headers, date: '' }, body }
      })
    )
    t.match(byRoute, { statusCode: 429, headers: { 'retry-after': '60' } })
    for (const answer of others) t.same(answer, byRoute, place)
    await app.close()
  }
})

t.test('a refusal of run that leaves the handler of a limited route is left to Fastify', async t => {
  let built = 0
  const errorResponse = () => built++
  const { app } = await open(t, { rules: [send], errorResponse })
  const limit: Rule = { name: 'other', key: 'ip', limits: [{ max: 9, window: '60s' }] }
  app.get('/', { config: { limit } }, request => app.limit.run({ send: request.ip }, () => 'sent', request))
  await app.inject('/')
  const { statusCode, json } = await app.inject('/')
  t.equal(statusCode, 429)
  t.match(json(), { error: 'Too Many Requests', code: 'FST_SEND_LIMIT_EXCEEDED' })
  t.equal(built, 0)
})

t.test('a refusal that a filter throws is answered with its status', async t => {
  const { app } = await open(t)
  const check = () => {
    throw new errors.BlockedError('mine')
  }
  app.get('/x', { config: { limit: { name: 'f', check } } }, async () => 'sent')
  const { statusCode, json } = await app.inject('/x')
  t.equal(statusCode, 403)
  t.match(json(), { status: 403, detail: 'blocked by: mine', code: 'FST_SEND_LIMIT_BLOCKED' })
})

t.test('the error handler of app, scope or route gets the refusal, and the headers are set', async t => {
  for (const rule of [send, flood]) {
    for (const place of ['app', 'scope', 'route', 'hook'] as const) {
      const { app } = await open(t)
      const got: LimitError[] = []
      const handle = (
        error: unknown,
        _req: unknown,
        reply: { status(code: number): { send(payload: unknown): void } }
      ) => {
        got.push(error as LimitError)
        reply.status((error as LimitError).statusCode).send({ mine: (error as LimitError).code })
      }
      if (place === 'app') app.setErrorHandler(handle)
      if (place === 'hook')
        app.addHook('onRoute', route => void Object.assign(route, { errorHandler: handle }))
      await app.register(async scope => {
        if (place === 'scope') scope.setErrorHandler(handle)
        scope.get(
          '/x',
          { config: { limit: rule }, ...(place === 'route' && { errorHandler: handle }) },
          async () => 'sent'
        )
        scope.get(
          '/missing',
          {
            config: { limit: { ...rule, key: { value: 'query.id' } } },
            ...(place === 'route' && { errorHandler: handle })
          },
          async () => 'sent'
        )
      })
      await app.inject('/x')
      const refused = await app.inject('/x')
      t.equal(refused.statusCode, 429, `${rule.name}, ${place}`)
      t.same(refused.json(), { mine: 'FST_SEND_LIMIT_EXCEEDED' })
      t.equal(refused.headers['retry-after'], '60', 'the headers are set already')
      t.equal(refused.headers['ratelimit-policy'], `"${rule.name}";q=1;w=60`)
      const [error] = got
      t.ok(error instanceof errors.ExceededError)
      t.match(error, {
        statusCode: 429,
        message: `limit reached: ${rule.name}`,
        headers: { 'retry-after': '60' },
        problem: { status: 429, 'violated-policies': [rule.name] },
        decision: { allowed: false, retryAfterMs: 60_000, violated: [{ rule: rule.name, windowMs: 60_000 }] }
      })
      t.same((await app.inject('/missing')).json(), { mine: 'FST_SEND_LIMIT_KEY_MISSING' })
      await app.close()
    }
  }
})

t.test('an error handler of another scope does not get the refusal', async t => {
  const { app } = await open(t)
  await app.register(async scope => scope.setErrorHandler(() => 'not mine'))
  app.get('/x', { config: { limit: send } }, async () => 'sent')
  await app.inject('/x')
  t.equal((await app.inject('/x')).headers['content-type'], PROBLEM)
})

t.test(
  'an error handler that came too late for its route does not keep the refusal from its body',
  async t => {
    for (const errorResponse of [undefined, () => ({ mine: true })]) {
      const { app } = await open(t, { ...(errorResponse && { errorResponse }) })
      // Fastify has completed the routes of this scope when the promise settles.
      await app.register(async scope => {
        scope.get('/x', { config: { limit: send } }, async () => 'sent')
        scope.get(
          '/missing',
          { config: { limit: { ...send, key: { value: 'query.id' } } } },
          async () => 'sent'
        )
        scope.get('/broken', () => Promise.reject(new Error('broken')))
      })
      app.setErrorHandler((_error, _request, reply) => reply.code(418).send('late'))
      app.get('/later', () => Promise.reject(new Error('broken')))
      t.equal((await app.inject('/later')).body, 'late')
      t.match((await app.inject('/broken')).json(), { statusCode: 500 }, 'Fastify does not ask it either')
      await app.inject('/x')
      const refused = await app.inject('/x')
      t.equal(refused.statusCode, 429)
      t.match(refused.json(), errorResponse ? { mine: true } : { title: 'Too many requests' })
      t.equal((await app.inject('/missing')).headers['content-type'], PROBLEM)
    }
  }
)

t.test('an error handler that rethrows the refusal ends in a plain answer', async t => {
  const { app } = await open(t)
  app.setErrorHandler(error => {
    throw error
  })
  app.get('/x', { config: { limit: send } }, async () => 'sent')
  await app.inject('/x')
  const refused = await app.inject('/x')
  t.equal(refused.statusCode, 429)
  t.equal(refused.headers['retry-after'], '60')
  t.match(refused.json(), { statusCode: 429, code: 'FST_SEND_LIMIT_EXCEEDED' })
})

t.test('errorResponse makes the body of a refusal, and cannot change its status or headers', async t => {
  for (const rule of [send, flood]) {
    for (const key of ['ip', async () => 'a'] as const) {
      const { app } = await open(t, {
        errorResponse: (error, req, reply) => {
          void reply.headers({ 'x-asked': req.url, 'retry-after': 7 }).code(503)
          return { error: error.code, wait: error.decision.retryAfterMs }
        }
      })
      app.get('/x', { config: { limit: { ...rule, key } } }, async () => 'sent')
      await app.inject('/x')
      const refused = await app.inject('/x')
      t.equal(refused.statusCode, 429)
      t.equal(refused.headers['content-type'], 'application/json; charset=utf-8')
      t.equal(refused.headers['retry-after'], '60')
      t.equal(refused.headers['x-asked'], '/x')
      t.same(refused.json(), { error: 'FST_SEND_LIMIT_EXCEEDED', wait: 60_000 })
      await app.close()
    }
  }
})

t.test('an errorResponse that throws makes the refusal a 500, without unhandled errors', async t => {
  const stray = strays(t)
  for (const rule of [send, flood]) {
    for (const key of ['ip', async () => 'a'] as const) {
      const { app } = await open(t, {
        errorResponse: () => {
          throw new Error('no body')
        }
      })
      app.get('/x', { config: { limit: { ...rule, key } } }, async () => 'sent')
      await app.inject('/x')
      const refused = await app.inject('/x')
      t.equal(refused.statusCode, 500)
      t.equal(refused.json().message, 'no body')
      t.notMatch(refused.headers, { 'retry-after': String })
      await app.close()
    }
  }
  t.same(stray, [])
})

t.test('an errorResponse that returns no body, or throws undefined, makes the refusal a 500', async t => {
  const later = async () => {
    throw new Error('no body')
  }
  const nothing = () => {
    throw undefined
  }
  // Fastify would answer the refusal with its status, 200.
  const whole = () => Response.json({ title: 'wait' })
  const cases: [errorResponse: () => unknown, told: string][] = [
    [later, 'options.errorResponse must return the body of the answer, but returned a promise'],
    [whole, 'options.errorResponse must return the body of the answer, but returned a Response'],
    [nothing, '']
  ]
  for (const rule of [send, flood]) {
    for (const [errorResponse, told] of cases) {
      const { app } = await open(t, { errorResponse })
      app.get('/x', { config: { limit: rule } }, async () => 'sent')
      await app.inject('/x')
      const refused = await app.inject('/x')
      t.equal(refused.statusCode, 500, told)
      if (told) t.match(refused.json().message, told)
      await app.close()
    }
  }
})

t.test('whatever a function of a rule or a filter throws is answered with 500', async t => {
  const thrown: [unknown, string][] = [
    [new DOMException('late', 'TimeoutError'), 'late'],
    [Object.assign(new Error('unavailable'), { code: 14 }), 'unavailable'],
    [undefined, 'but threw undefined'],
    [null, 'but threw null']
  ]
  for (const [error, message] of thrown) {
    const now = () => {
      throw error
    }
    const later = async () => now()
    const { app } = await open(t)
    const limits: [string, RouteLimit][] = [send, flood].flatMap((rule): [string, RouteLimit][] => [
      [`/${rule.name}/key`, { ...rule, key: now }],
      [`/${rule.name}/later`, { ...rule, key: later }],
      [`/${rule.name}/allow`, { ...rule, allow: now }],
      [`/${rule.name}/max`, { ...rule, limits: [{ max: now, ceiling: 3, window: '60s' }] }]
    ])
    limits.push(['/filter', { name: 'filter', check: later }])
    for (const [url, limit] of limits) app.get(url, { config: { limit } }, async () => 'sent')
    for (const [url] of limits) {
      const { statusCode, json } = await app.inject(url)
      t.equal(statusCode, 500, url)
      t.match(json().message, message, url)
    }
    await app.close()
  }
})

t.test('errorResponse builds error.problem for an error handler as well', async t => {
  for (const rule of [send, flood]) {
    const { app } = await open(t, { errorResponse: ({ problem }) => ({ mine: problem.title }) })
    app.setErrorHandler((error, _req, reply) => reply.send((error as LimitError).problem))
    app.get('/x', { config: { limit: rule } }, async () => 'sent')
    await app.inject('/x')
    t.same((await app.inject('/x')).json(), { mine: 'Too many requests' }, rule.name)
    await app.close()
  }
})

t.test('reply.limit is the decision on a limited route, and null elsewhere', async t => {
  const { app } = await open(t)
  const seen: unknown[] = []
  app.addHook('onSend', async (_req, reply) => {
    seen.push(reply.limit && JSON.parse(JSON.stringify(reply.limit)))
    if (reply.limit === null) return
    const { allowed, retryAfterMs, violated, observed, rules, refusal } = reply.limit
    t.strictSame(reply.limit.verdict(), { allowed, retryAfterMs, violated, observed, rules, refusal })
  })
  app.get(
    '/x',
    {
      config: {
        limit: {
          ...send,
          limits: [
            { max: 1, window: '60s' },
            { max: 3, window: '1h' }
          ]
        }
      }
    },
    async (_req, reply) => reply.limit
  )
  app.get('/free', async (_req, reply) => reply.limit)
  const admitted = {
    allowed: true,
    retryAfterMs: 60_000,
    violated: [],
    observed: [],
    rules: [
      {
        name: 'send',
        limits: [
          { max: 1, remaining: 0, resetMs: 60_000, windowMs: 60_000 },
          { max: 3, remaining: 2, resetMs: 3_600_000, windowMs: 3_600_000 }
        ]
      }
    ],
    refusal: null
  }
  t.strictSame((await app.inject('/x')).json(), admitted, 'a decision may be sent as JSON')
  await app.inject('/x')
  t.equal((await app.inject('/free')).body, 'null')
  t.equal((await app.inject('/404')).statusCode, 404)
  t.strictSame(seen, [
    admitted,
    { ...admitted, allowed: false, violated: [{ rule: 'send', windowMs: 60_000 }], refusal: 'exceeded' },
    null,
    null
  ])
})

t.test('when a block list or a filter refuses, no limit is decided or reported', async t => {
  const { app } = await open(t)
  const guards = {
    listed: { ...send, name: 'listed', block: ['127.0.0.1'] },
    filter: { name: 'filter', check: () => ({ allowed: false }) }
  }
  const told: unknown[] = []
  app.addHook('onSend', async (_, { limit }) => void told.push([limit?.violated, limit?.rules]))
  const full: Rule = { ...send, name: 'full', limits: [{ max: () => 0, ceiling: 1, window: '60s' }] }
  for (const [name, guard] of Object.entries(guards))
    app.get(`/${name}`, { config: { limit: [full, guard] } }, async () => 'sent')
  for (const name of Object.keys(guards)) {
    const { statusCode, headers, json } = await app.inject(`/${name}`)
    t.equal(statusCode, 403)
    t.same(json()['violated-policies'], [name])
    t.notOk(headers.ratelimit)
    t.same(told.pop(), [[{ rule: name, windowMs: 0 }], []])
  }
})

t.test('each request has a decision of its own', async t => {
  const { app } = await open(t)
  const seen = new Set<unknown>()
  app.get(
    '/x',
    { config: { limit: { ...send, limits: [{ max: 2, window: '60s' }] } } },
    async (_req, reply) => void seen.add(reply.limit)
  )
  await Promise.all([app.inject('/x'), app.inject('/x')])
  t.equal(seen.size, 2)
})

t.test('of a lost Redis the loss is logged, and not the 503 of each request', async t => {
  const { client, kill } = await startRedis(t)
  const { lines, stream } = logStream()
  const options = { client, secret: '0123456789abcdef', onStoreError: 'deny' } as const
  const { app } = await open(t, options, { logger: { level: 'error', stream } })
  app.get('/x', { config: { limit: send } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 200)
  await kill()
  for (let i = 0; i < 3; i++) t.equal((await app.inject('/x')).statusCode, 503)
  t.match(
    lines.map(line => JSON.parse(line).msg),
    [/^redis does not decide/]
  )
  t.equal(lines.length, 1)
})

t.test('a 503 for a time-out or a full store is logged, each message at most once a second', async t => {
  const { lines, stream } = logStream()
  // A whole number: with a fraction, 999 and 1 may add up to less than 1,000.
  let now = Math.ceil(performance.now())
  const standing = mock.method(performance, 'now', () => now)
  t.teardown(() => standing.mock.restore())
  const { app, post } = await open(t, { timeout: 20, maxKeys: 1 }, { logger: { level: 'error', stream } })
  const never = () => new Promise<string>(() => {})
  const limits = [{ max: 1, window: '60s' }]
  const limit: Rule[] = [
    { name: 'tenant', key: never, limits },
    { name: 'user', key: never, limits },
    { name: 'ip', key: 'ip', limits }
  ]
  app.post('/slow', { config: { limit } }, async () => 'sent')
  const byId: Rule = { name: 'id', key: { value: 'body.id' }, limits }
  app.post('/full', { config: { limit: byId } }, async () => 'sent')
  const full = 'the memory store is full of live limits'
  const { detail } = (await post('/slow', {})).json()
  t.equal(detail, 'the key of tenant or user took longer than 20 ms')
  t.equal((await post('/full', { id: 1 })).statusCode, 200)
  t.equal((await post('/full', { id: 2 })).statusCode, 503)
  for (let i = 3; i < 99; i++)
    t.equal((await post('/full', { id: i })).statusCode, 503, 'a flood does not fill the log')
  t.equal((await post('/full', {})).statusCode, 400)
  now += 999
  t.equal((await post('/full', { id: 99 })).statusCode, 503)
  now += 1
  t.equal((await post('/full', { id: 100 })).statusCode, 503)
  t.same(
    lines.map(line => JSON.parse(line)).map(({ level, msg, err, reqId }) => [level, msg, err.code, reqId]),
    [
      [50, detail, 'FST_SEND_LIMIT_TIMEOUT', 'req-1'],
      [50, full, 'FST_SEND_LIMIT_STORE_FULL', 'req-3'],
      [50, full, 'FST_SEND_LIMIT_STORE_FULL', `req-${(102).toString(36)}`]
    ]
  )
})

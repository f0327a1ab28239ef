import swagger from '@fastify/swagger'
import type { FastifyContextConfig, FastifyInstance, FastifySchema, RouteOptions } from 'fastify'
import * as zodProvider from 'fastify-type-provider-zod'
import t from 'tap'
import { z } from 'zod'
import { limitPlugin, limitTransform, type Rule, type SendLimitOptions } from '../../plugin/index.js'
import { appOf, open } from '../helper/face.js'
import type { Teardown } from '../helper/teardown.js'

type Answers = Record<
  string,
  { description: string; headers?: object; content?: Record<string, { schema: object }> }
>
interface Document {
  paths: Record<string, Record<string, { responses: Answers }>>
}

const openapi = { openapi: { openapi: '3.1.0', info: { title: 'x', version: '1' } } } as const
const send: Rule = { name: 'send', key: 'ip', limits: [{ max: 1, window: '60s' }] }

/** An app with both plugins, @fastify/swagger first. */
async function both(t: Teardown, options: SendLimitOptions = {}, transform?: object) {
  const app = appOf(t)
  await app.register(swagger, { ...openapi, ...(transform && { transform: transform as never }) })
  await app.register(limitPlugin, options)
  return app
}

async function documentedBy(t: Teardown, add: (app: FastifyInstance) => void): Promise<Document> {
  const app = await both(t)
  add(app)
  await app.ready()
  return app.swagger() as unknown as Document
}

t.test('answers and headers are documented from the rules, whichever plugin was first', async t => {
  for (const order of [
    [swagger, limitPlugin],
    [limitPlugin, swagger]
  ]) {
    const app = appOf(t)
    for (const plugin of order)
      await app.register(plugin as typeof swagger, (plugin === swagger ? openapi : {}) as object)
    const limit: Rule[] = [
      {
        name: 'mail',
        key: { email: 'body.to' },
        limits: [
          { max: 1, window: '60s' },
          { max: 5, window: 3_600_000 }
        ]
      },
      {
        name: 'quota',
        key: { value: 'request.account' },
        limits: [{ max: 1_000, per: 'day', timeZone: 'Asia/Shanghai' }]
      },
      { name: 'paid', key: () => 'a', limits: [{ max: () => 1, ceiling: 50, per: 'month' }], cost: () => 2 },
      { name: 'local', key: 'ip', limits: [{ max: 3, per: 'day', timeZone: () => 'Asia/Tokyo' }] },
      { name: 'near', key: { ip: 'request.ip', ipv6Prefix: 48 }, limits: [{ max: 3, window: '60s' }] },
      { name: 'same', key: ['ip', { digest: ['body.a', 'body.b'] }], limits: [{ max: 2, window: '60s' }] },
      { name: 'seen', key: 'ip', limits: [{ max: 2, window: '60s' }], mode: 'observe' },
      { name: 'many', key: 'ip', distinct: { phone: 'body.to' }, limits: [{ max: 5, window: '1h' }] },
      {
        name: 'site',
        key: ['all', { ip: 'request.ip', ipv4Prefix: 24, ipv6Prefix: 48 }],
        limits: [{ max: 9, window: '1h' }]
      },
      { name: 'flight', key: 'ip', lock: '30s' },
      { name: 'flood', key: 'ip', limits: [{ max: 100, window: '60s' }], counts: 'attempts' }
    ]
    app.post('/x', { config: { limit } }, async () => 'sent')
    const watched: Rule = { name: 'watched', key: 'ip', lock: '30s', mode: 'observe' }
    app.get('/one', { config: { limit: [send, watched] } }, async () => 'sent')
    app.get('/free', async () => 'free')
    await app.ready()
    const { paths } = app.swagger() as unknown as Document
    const answers = paths['/x']?.post?.responses as Answers
    t.same(Object.keys(answers), ['200', '400', '403', '409', '422', '429', '503'])
    const { headers: _, ...undocumented } = answers[200] ?? {}
    t.same(
      undocumented,
      paths['/free']?.get?.responses[200],
      'as for any route that documents nothing, nor is its body JSON'
    )
    t.equal(
      answers[429]?.description,
      'A limit is reached. flood: 100 in 60s, counted by ip. mail: 1 in 60s, 5 in 1h, counted by body.to. ' +
        'quota: 1000 per day (Asia/Shanghai), counted by request.account. ' +
        'paid: up to 50 per month (UTC), counted by the key of paid, each request at its cost. ' +
        'local: 3 per day (time zone of the request), counted by ip. ' +
        'near: 3 in 60s, counted by request.ip (IPv6 by /48). ' +
        'same: 2 in 60s, counted by ip and body.a, body.b. many: 5 different body.to in 1h, counted by ip. ' +
        'site: 9 in 1h, counted by all and request.ip (IPv4 by /24, IPv6 by /48). flight: one at a time by ip.'
    )
    const headersOf = (status: number) => Object.keys(answers[status]?.headers ?? {}).sort()
    for (const status of [200, 400, 403, 422, 503])
      t.same(headersOf(status), ['RateLimit', 'RateLimit-Policy'], 'headers of rules on the caller')
    for (const status of [409, 429])
      t.same(headersOf(status), ['RateLimit', 'RateLimit-Policy', 'Retry-After'])
    for (const status of [400, 403, 409, 422, 429, 503]) {
      t.same(Object.keys(answers[status]?.content ?? {}), ['application/problem+json'])
    }
    t.notOk('409' in (paths['/one']?.get?.responses ?? {}), 'without a lock in force there is no 409')
    t.same(Object.keys(paths['/free']?.get?.responses ?? {}), ['200'])
    t.notOk(paths['/free']?.get?.responses[200]?.headers)
  }
})

t.test('a route documents no refusal that its rules never give', async t => {
  const lock: Rule = { name: 'lock', key: 'ip', lock: '30s' }
  const seen: Rule = { ...send, mode: 'observe' }
  const filter = { name: 'f', check() {} }
  const table: [limit: NonNullable<FastifyContextConfig['limit']>, refusals: string[]][] = [
    [seen, []],
    [lock, ['403', '409']],
    [
      [seen, lock],
      ['403', '409']
    ],
    [send, ['403', '429']],
    [
      [lock, filter],
      ['403', '409', '429']
    ],
    [filter, ['403', '429']]
  ]
  for (const [limit, refusals] of table) {
    const { paths } = await documentedBy(t, app => app.get('/x', { config: { limit } }, async () => 'sent'))
    const answers = paths['/x']?.get?.responses as Answers
    t.same(Object.keys(answers), ['200', '400', ...refusals, '422', '503'].sort())
    if (answers[409])
      t.equal(
        answers[409].description,
        'A request under the same lock is still running. lock: one at a time by ip.'
      )
    const tells = answers[403] !== undefined && 'headers' in answers[403]
    t.equal(tells, limit === send, 'a 403 tells of limits only where a limit may refuse as well')
  }
})

t.test('a waiting time may be null, in a form that OpenAPI 3.0 has as well', async t => {
  for (const [version, form] of [
    ['3.0.3', { type: 'number', nullable: true }],
    ['3.1.0', { type: ['number', 'null'], nullable: undefined }]
  ] as const) {
    const app = appOf(t)
    const given: string[] = []
    const transform = ({ schema, url }: { schema: FastifySchema; url: string }) => {
      given.push(JSON.stringify(schema))
      return { schema, url }
    }
    await app.register(swagger, { openapi: { ...openapi.openapi, openapi: version }, transform })
    await app.register(limitPlugin)
    app.get('/x', { config: { limit: send } }, async () => 'sent')
    await app.ready()
    const { responses } = (app.swagger() as unknown as Document).paths['/x']?.get ?? { responses: {} }
    const { schema } = responses[429]?.content?.['application/problem+json'] ?? {}
    t.match(schema, { properties: { retryAfterMs: form } }, version)
    // Before 9.9 @fastify/swagger writes a list of types as it is, which OpenAPI 3.0 does not know.
    t.notMatch(given.join(), /"type":\[/)
  }
})

t.test('answers share no objects, which YAML would write as aliases', async t => {
  const app = await both(t, {}, ({ schema, url }: { schema: FastifySchema; url: string }) => {
    responses.push(schema.response)
    return { schema, url }
  })
  const responses: unknown[] = []
  const lock: Rule = { name: 'lock', key: 'ip', lock: '30s' }
  for (const url of ['/a', '/b']) app.get(url, { config: { limit: [send, lock] } }, async () => 'sent')
  await app.ready()
  app.swagger()
  t.equal(responses.length, 2)
  const seen = new Set<unknown>()
  JSON.stringify(responses, (name, member) => {
    if (typeof member !== 'object' || member === null) return member
    if (seen.has(member)) t.fail(`${name} is shared`)
    seen.add(member)
    return member
  })
})

t.test('bodies that errorResponse makes are not documented', async t => {
  const app = await both(t, { errorResponse: () => ({ wait: 1 }) })
  const lock: Rule = { name: 'one', key: 'ip', lock: '30s' }
  app.post('/', { config: { limit: [send, lock] } }, async () => 'sent')
  await app.ready()
  const { responses } = (app.swagger() as unknown as Document).paths['/']?.post ?? { responses: {} }
  const told = (status: number) => Object.keys(responses[status]?.content ?? {})
  for (const status of [403, 409, 429]) t.same(told(status), [], `${status}`)
  for (const status of [400, 422, 503]) t.same(told(status), ['application/problem+json'], `${status}`)
  t.match(responses[429], { description: /send: 1 in 60s/, headers: { 'Retry-After': {} } })
})

t.test('without @fastify/swagger the schema of a route is not touched', async t => {
  const { app } = await open(t)
  let schema: unknown = 'none'
  app.addHook('onRoute', route => void (schema = route.schema))
  app.get('/x', { config: { limit: send } }, async () => 'sent')
  t.equal(schema, undefined)
})

t.test("a route's own answers stay as documented, and its schema object is not changed", async t => {
  const own = { description: 'mine', type: 'object', properties: { mine: { type: 'string' } } }
  const schema = { description: 'sends', response: { 200: { type: 'string' }, 429: own } }
  const before = structuredClone(schema)
  const { paths } = await documentedBy(t, app =>
    app.get('/x', { schema, config: { limit: send } }, async () => 'sent')
  )
  const operation = paths['/x']?.get as { description?: string; responses: Answers }
  t.equal(operation.description, 'sends')
  t.equal(operation.responses[429]?.description, 'mine')
  t.match(operation.responses[422]?.description, 'A value by which a rule counts is not valid')
  t.same(schema, before)
})

t.test('what the schema of a route inherits is in force, and documented', async t => {
  const body = { type: 'object', required: ['phone'], properties: { phone: { type: 'string' } } }
  class Schema {
    get body() {
      return body
    }
  }
  for (const schema of [new Schema(), Object.create({ body })]) {
    const app = await both(t)
    app.post('/x', { schema, config: { limit: send } }, async () => 'sent')
    t.equal((await app.inject({ method: 'POST', url: '/x', payload: {} })).statusCode, 400)
    const operation = (app.swagger() as unknown as Document).paths['/x']?.post
    t.match(operation, { requestBody: { content: { 'application/json': { schema: body } } } })
    t.same(Object.keys(operation?.responses ?? {}), ['200', '400', '403', '422', '429', '503'])
  }
})

t.test("a route's own answer without a description gets that of the plugin, and its headers", async t => {
  const app = await both(t)
  const content = { 'application/problem+json': { schema: { type: 'object' } } }
  const header = { 'Retry-After': { type: 'string', description: 'mine' } }
  const routes = {
    '/a': { 429: { content } },
    '/b': { 429: { content, headers: header, description: 'mine' } }
  }
  for (const [url, response] of Object.entries(routes))
    app.post(url, { config: { limit: send }, schema: { response } }, async () => 'sent')
  await app.ready()
  const { paths } = app.swagger() as unknown as Document
  const [a, b] = ['/a', '/b'].map(url => paths[url]?.post?.responses[429])
  t.equal(a?.description, 'A limit is reached. send: 1 in 60s, counted by ip.')
  t.same(Object.keys(a?.headers ?? {}).sort(), ['RateLimit', 'RateLimit-Policy', 'Retry-After'])
  t.equal(b?.description, 'mine')
  t.match(b?.headers, { 'Retry-After': { description: 'mine' }, RateLimit: {} })
  for (const its of [a, b]) t.same(its?.content, content)
})

t.test("a route's own answers are documented with the headers that rules on the caller add", async t => {
  const item = { $id: 'item', description: 'one', type: 'object', properties: { id: { type: 'string' } } }
  const whole = { type: 'string', description: 'the whole', headers: { RateLimit: { type: 'integer' } } }
  const response = {
    '2xx': whole,
    201: { description: 'made', content: { 'text/plain': { schema: { type: 'string' } } } },
    202: { $ref: 'item#' },
    204: { description: 'none', type: 'null' },
    302: { description: 'moved', type: 'null' }
  }
  const stranger: Rule = { name: 'stranger', key: { value: 'query.to' }, limits: [{ max: 1, window: '60s' }] }
  const { paths } = await documentedBy(t, app => {
    app.addSchema(item)
    app.get('/x', { schema: { response }, config: { limit: send } }, async () => 'sent')
    app.get('/y', { schema: { response }, config: { limit: stranger } }, async () => 'sent')
    app.get('/z', { config: { limit: { ...send, private: true } } }, async () => 'sent')
  })
  const named = (url: string) =>
    Object.fromEntries(
      Object.entries(paths[url]?.get?.responses ?? {})
        .filter(([, { headers }]) => headers)
        .map(([status, { headers }]) => [status, Object.keys(headers ?? {}).sort()])
    )
  const policies = ['RateLimit', 'RateLimit-Policy']
  const refusal = [...policies, 'Retry-After']
  const own = { 201: policies, 204: policies, '2XX': policies, 302: policies }
  const added = { 400: policies, 403: policies, 422: policies, 429: refusal, 503: policies }
  t.same(named('/x'), { ...own, ...added })
  t.same(
    named('/y'),
    { '2XX': ['RateLimit'], 403: policies, 429: refusal },
    'a rule on others has headers only when it refuses'
  )
  t.same(named('/z'), { 429: ['Retry-After'] }, 'a private rule has none')
  const answers = paths['/x']?.get?.responses as Answers
  t.match(
    answers['2XX']?.headers,
    { RateLimit: { schema: { type: 'integer' } } },
    "the route's own description of a header stays"
  )
  t.equal(answers[201]?.description, 'made')
  t.same(Object.keys(answers[201]?.content ?? {}), ['text/plain'])
})

t.test('a 403 is documented with the headers that it has when a limit refuses as well', async t => {
  const mobile: Rule = { name: 'mobile', key: { value: 'query.to' }, limits: [{ max: 1, window: '60s' }] }
  const app = await both(t, { rules: [mobile] })
  app.get('/x', { config: { limit: 'mobile' } }, async () => 'sent')
  await app.inject('/x?to=a')
  await app.limit.block({ mobile: 'a' })
  const { statusCode, headers } = await app.inject('/x?to=a')
  t.equal(statusCode, 403)
  t.equal(headers.ratelimit, '"mobile";r=0;t=60')
  const { paths } = app.swagger() as unknown as Document
  t.same(Object.keys(paths['/x']?.get?.responses[403]?.headers ?? {}), ['RateLimit', 'RateLimit-Policy'])
})

t.test('a route that documents a whole class of statuses documents those of the plugin', async t => {
  for (const [status, left] of [
    ['4xx', ['503']],
    ['4XX', ['503']],
    ['5xx', ['400', '403', '422', '429']],
    ['default', []]
  ] as const) {
    const { paths } = await documentedBy(t, app =>
      app.get(
        '/x',
        {
          schema: { response: { [status]: { description: 'mine', type: 'object' } } },
          config: { limit: send }
        },
        async () => 'sent'
      )
    )
    const {
      [status.toUpperCase()]: _upper,
      [status]: _own,
      200: _ok,
      ...others
    } = paths['/x']?.get?.responses ?? {}
    t.same(Object.keys(others), left, status)
  }
})

t.test(
  'an answer for a whole class of statuses has the headers of the answers that it stands for',
  async t => {
    const stranger: Rule = {
      name: 'stranger',
      key: { value: 'query.to' },
      limits: [{ max: 1, window: '60s' }]
    }
    const mine = { description: 'mine', type: 'object' }
    const refusal = ['RateLimit', 'RateLimit-Policy', 'Retry-After']
    const policies = ['RateLimit', 'RateLimit-Policy']
    const table: [response: object, headers: object][] = [
      [{ '4xx': mine }, { '4XX': refusal }],
      [{ '4XX': mine, default: mine }, { '4XX': refusal }],
      [{ default: mine }, { default: refusal }],
      [
        { '4xx': mine, 429: mine },
        { '4XX': policies, 429: refusal }
      ],
      [{ '5xx': mine }, { 403: policies, 429: refusal }],
      [{ '2xx': mine, '4xx': { $ref: 'mine#' } }, {}]
    ]
    for (const [response, headers] of table) {
      const app = await both(t)
      app.addSchema({ $id: 'mine', ...mine })
      app.get('/x', { schema: { response }, config: { limit: stranger } }, async () => 'sent')
      await app.inject('/x?to=a')
      const refused = await app.inject('/x?to=a')
      t.match(refused.headers, { ratelimit: '"stranger";r=0;t=60', 'retry-after': '60' })
      const { paths } = app.swagger() as unknown as Document
      const answers = Object.entries(paths['/x']?.get?.responses ?? {}).filter(([, { headers }]) => headers)
      const named = answers.map(([status, { headers }]) => [status, Object.keys(headers ?? {}).sort()])
      t.same(Object.fromEntries(named), headers, JSON.stringify(response))
    }
  }
)

t.test('a header that a route documents in another case is documented once', async t => {
  const headers = { 'retry-after': { type: 'string', description: 'mine' }, ratelimit: { type: 'string' } }
  const response = { 200: { type: 'string', headers }, 429: { type: 'object', headers } }
  const { paths } = await documentedBy(t, app =>
    app.get('/x', { schema: { response }, config: { limit: send } }, async () => 'sent')
  )
  const named = (status: number) => Object.keys(paths['/x']?.get?.responses[status]?.headers ?? {}).sort()
  for (const status of [200, 429]) t.same(named(status), ['RateLimit-Policy', 'ratelimit', 'retry-after'])
})

t.test('the answers of a route are serialized as they would be without the plugin', async t => {
  const shape = { type: 'object', properties: { shown: { type: 'string' } } }
  const table: [response: object, status: number][] = [
    [{ 200: shape }, 200],
    [{ '2xx': shape }, 200],
    [{ 429: shape }, 429],
    [{ '4xx': shape }, 429],
    [{ '4xx': shape }, 422],
    [{ default: shape }, 503],
    [{ 200: true }, 200],
    [{}, 200],
    [{}, 429],
    [{}, 422],
    [{}, 503]
  ]
  for (const [response, status] of table) {
    const bodies: unknown[] = []
    const limited: FastifyContextConfig = { limit: { ...send, limits: [{ max: 9, window: '60s' }] } }
    for (const config of [{}, limited]) {
      const app = await both(t)
      app.get('/x', { schema: { response }, config }, async (_req, reply) =>
        reply
          .code(status)
          .send({ shown: 'a', hidden: 'b', type: 5, at: new Date(0), none: undefined, deep: [{}] })
      )
      app.get('/thrown', { schema: { response }, config }, async () => {
        throw Object.assign(new Error('no'), { statusCode: Math.max(status, 400), code: 'MINE' })
      })
      bodies.push((await app.inject('/x')).body, (await app.inject('/thrown')).body)
    }
    const [plain, plainThrown, written, writtenThrown] = bodies
    t.equal(written, plain, `${JSON.stringify(response)} ${status}`)
    t.equal(writtenThrown, plainThrown)
  }
})

t.test('a refusal has its whole body, whatever the route documents', async t => {
  for (const status of ['429', '4xx', 'default']) {
    const app = await both(t)
    const schema = { response: { [status]: { type: 'object', properties: { mine: { type: 'string' } } } } }
    app.get('/x', { schema, config: { limit: send } }, async () => ({ mine: 'a' }))
    await app.inject('/x')
    t.match((await app.inject('/x')).json(), {
      status: 429,
      code: 'FST_SEND_LIMIT_EXCEEDED',
      retryAfterMs: Number
    })
  }
})

t.test("the app's own answers are serialized as without the documentation", async t => {
  const bodies = async (plugins: object[]) => {
    const app = appOf(t)
    for (const plugin of plugins) await app.register(plugin as typeof swagger, openapi as object)
    await app.register(limitPlugin)
    app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) =>
      reply
        .code(error.statusCode ?? 500)
        .type('application/problem+json')
        .send({ title: error.message, detail: { of: 'an object' } })
    )
    const body = { type: 'object', required: ['phone'] }
    app.post('/send', { config: { limit: send }, schema: { body } }, async (_, reply) =>
      reply.code(422).type('application/problem+json').send({ title: 'mine', code: 7 })
    )
    const answers = [{}, { phone: '1' }, { phone: '1' }].map(async payload => {
      const { statusCode, body } = await app.inject({ method: 'POST', url: '/send', payload })
      return `${statusCode} ${body}`
    })
    return Promise.all(answers)
  }
  const plain = await bodies([])
  t.match(plain, [/^400 .*an object/, /^422 .*mine/])
  t.same(await bodies([swagger]), plain)
})

t.test('no answers are added where schemas are Zod, whose transform reads nothing else', async t => {
  const body = z.object({ phone: z.string() })
  const answer = z.object({ sent: z.boolean() })
  for (const schema of [
    { body },
    { querystring: z.object({}) },
    { query: z.object({}) },
    { params: z.object({}) },
    { headers: z.object({}) },
    { response: { 200: answer } },
    { response: { 200: { description: 'sent', content: { 'application/json': { schema: answer } } } } },
    { response: { 200: { description: 'sent', properties: answer } } },
    {
      response: {
        200: { description: 'sent', content: { 'application/json': { schema: { properties: answer } } } }
      }
    }
  ]) {
    const app = appOf(t)
    app.setValidatorCompiler(zodProvider.validatorCompiler)
    app.setSerializerCompiler(zodProvider.serializerCompiler)
    await app.register(swagger, { ...openapi, transform: zodProvider.jsonSchemaTransform })
    await app.register(limitPlugin)
    app.post('/x', { config: { limit: send }, schema }, async () => ({ sent: true }))
    app.get('/bare', { config: { limit: send } }, async () => 'sent')
    await app.ready()
    const { paths } = app.swagger() as unknown as Document
    t.same(Object.keys(paths['/x']?.post?.responses ?? {}), ['200'])
    t.same(Object.keys(paths['/bare']?.get?.responses ?? {}), ['200'])
    const ask = () => app.inject({ method: 'POST', url: '/x', payload: { phone: '13800138000' } })
    t.match([await ask(), await ask()], [{ statusCode: 200 }, { statusCode: 429, body: /violated-policies/ }])
  }
})

t.test('no answers are added where a schema for one type of content is not JSON Schema', async t => {
  const transform = ({ url }: { url: string }) => ({ url })
  const app = await both(t, {}, transform)
  app.setValidatorCompiler(zodProvider.validatorCompiler)
  const body = { content: { 'application/json': { schema: z.object({ phone: z.string() }) } } }
  app.post('/x', { schema: { body } }, async () => 'sent')
  app.get('/bare', { config: { limit: send } }, async () => 'sent')
  await app.ready()
  t.equal((await app.inject({ method: 'POST', url: '/x', payload: {} })).statusCode, 400)
  const { paths } = app.swagger() as unknown as Document
  t.same(Object.keys(paths['/bare']?.get?.responses ?? {}), ['200'])
})

t.test('no answers are added where routes with Zod come before the plugin or beside it', async t => {
  const zod = (app: FastifyInstance) => app.post('/x', { schema: { body: z.object({}) } }, async () => 'sent')
  const limited = async (app: FastifyInstance) => {
    await app.register(limitPlugin)
    app.get('/bare', { config: { limit: send } }, async () => 'sent')
  }
  const table: [name: string, build: (app: FastifyInstance) => unknown][] = [
    [
      'before',
      app => {
        zod(app)
        return limited(app)
      }
    ],
    [
      'beside',
      async app => {
        await app.register(async child => limited(child))
        await app.register(async child => zod(child))
      }
    ]
  ]
  for (const [name, build] of table) {
    const app = appOf(t)
    app.setValidatorCompiler(zodProvider.validatorCompiler)
    await app.register(swagger, { ...openapi, transform: zodProvider.jsonSchemaTransform })
    await build(app)
    await app.ready()
    const { paths } = app.swagger() as unknown as Document
    t.same(Object.keys(paths['/bare']?.get?.responses ?? {}), ['200'], name)
  }
})

t.test('answers are added where Zod has written JSON Schema', async t => {
  const body = z.toJSONSchema(z.object({ to: z.string() }), { target: 'draft-7' })
  const { paths } = await documentedBy(t, app =>
    app.post('/x', { config: { limit: send }, schema: { body } }, async () => 'sent')
  )
  t.same(Object.keys(paths['/x']?.post?.responses ?? {}), ['200', '400', '403', '422', '429', '503'])
})

t.test('limitTransform documents limits in an app of Zod', async t => {
  for (const errorResponse of [undefined, () => ({ wait: true })]) {
    const app = appOf(t).withTypeProvider<zodProvider.ZodTypeProvider>()
    app.setValidatorCompiler(zodProvider.validatorCompiler)
    app.setSerializerCompiler(zodProvider.serializerCompiler)
    await app.register(swagger, { ...openapi, transform: limitTransform(zodProvider.jsonSchemaTransform) })
    await app.register(limitPlugin, { rules: [send], ...(errorResponse && { errorResponse }) })
    const schema = {
      body: z.object({ phone: z.string() }),
      response: { 200: z.object({ sent: z.boolean() }), 409: z.object({ taken: z.string() }) }
    }
    app.post('/x', { config: { limit: 'send' }, schema }, async () => ({ sent: true }))
    app.get('/bare', { config: { limit: 'send' } }, async () => 'sent')
    app.get('/free', { schema: { response: { 200: z.string() } } }, async () => 'free')
    await app.ready()
    app.limit.replace([{ ...send, limits: [{ max: 2, window: '60s' }] }])
    const { paths } = app.swagger() as unknown as Document
    const answers = paths['/x']?.post?.responses as Answers
    t.same(Object.keys(answers), ['200', '400', '403', '409', '422', '429', '503'])
    t.match(answers[409], { content: { 'application/json': { schema: { properties: { taken: {} } } } } })
    t.same(Object.keys(answers[200]?.headers ?? {}), ['RateLimit', 'RateLimit-Policy'])
    t.equal(
      answers[429]?.description,
      'A limit is reached. send: 2 in 60s, counted by ip.',
      'the rules in force'
    )
    t.equal(answers[429]?.content?.['application/problem+json'] === undefined, errorResponse !== undefined)
    t.same(Object.keys(paths['/bare']?.get?.responses ?? {}), ['200', '400', '403', '422', '429', '503'])
    t.same(Object.keys(paths['/free']?.get?.responses ?? {}), ['200'])
    app.limit.replace([send])
    const ask = () => app.inject({ method: 'POST', url: '/x', payload: { phone: '13800138000' } })
    t.match([await ask(), await ask()], [{ statusCode: 200 }, { statusCode: 429 }])
  }
})

t.test('limitTransform passes on the schema of the app, and documents the rules in force', async t => {
  const given: unknown[] = []
  const transform = limitTransform((route: { schema: FastifySchema; url: string; route: RouteOptions }) => {
    given.push(route.schema)
    return { schema: route.schema, url: route.url }
  })
  const app = await both(t, { rules: [send] }, transform)
  app.get('/bare', { config: { limit: 'send' } }, async () => 'sent')
  await app.ready()
  app.limit.replace([{ ...send, limits: [{ max: 2, window: '60s' }] }])
  const { paths } = app.swagger() as unknown as Document
  t.same(given, [undefined])
  t.equal(
    paths['/bare']?.get?.responses[429]?.description,
    'A limit is reached. send: 2 in 60s, counted by ip.'
  )
})

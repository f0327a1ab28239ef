import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { loadPolicy } from '../../app/policy.js'
import type { Template } from '../../app/templates/schema.js'
import type { Rule } from '../../plugin/index.js'
import { read } from '../docs/blocks.js'
import { folderOf } from '../helper/folder.js'
import { logStream } from '../helper/log-stream.js'
import { codesOf } from './fuzz/verdict.js'
import { ADMIN_KEY, type App, KEY, places, withRules } from './helper.js'
import { loadFiles, templatesFolder } from './template-files.js'

const redocly = fileURLToPath(new URL('../../node_modules/.bin/redocly', import.meta.url))

interface Operation {
  operationId?: string
  tags?: string[]
  security?: object[]
  parameters?: { name: string; in: string }[]
  responses: Record<
    string,
    { description?: string; content?: Record<string, { schema: object }>; headers?: object }
  >
}
type Document = { openapi: string; paths: Record<string, Record<string, Operation>> }

/** With which keys a route may be asked; {}: with none. */
function keysOf(route: string): object[] {
  if (route.includes('/v1/admin/')) return [{ adminKey: [] }]
  if (route.includes('/v1/captcha')) return [{ apiKey: [] }, {}]
  return /\/v1\/(sms|mail|quota)$/.test(route) ? [{ apiKey: [] }] : []
}

t.test('no URL has a recipient, a code or a key', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const { paths } = (await app.inject('/openapi.json')).json<Document>()
  const parameters = Object.values(paths).flatMap(methods =>
    Object.values(methods).flatMap(({ parameters = [] }) => parameters)
  )
  const inUrl = parameters.filter(({ in: place }) => place !== 'header').map(({ name }) => name)
  t.same([...new Set(inUrl)].sort(), ['after', 'id', 'limit', 'standing'])
})

t.test('the document has each operation with its headers, keys and problems', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const document = (await app.inject('/openapi.json')).json<Document>()
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      route: `${method.toUpperCase()} ${path}`,
      ...operation
    }))
  )

  t.equal(document.openapi, '3.1.0')
  // Without a type, generators of clients take such a value for anything at all.
  JSON.stringify(document, (_, member) => {
    if (Array.isArray(member?.enum)) t.equal(member.type, typeof member.enum[0], `${member.enum}`)
    return member
  })
  t.same(operations.map(({ route, operationId }) => [route, operationId]).sort(), [
    ['DELETE /v1/captcha/{id}', 'cancelCaptcha'],
    ['GET /healthz', 'health'],
    ['GET /metrics', 'metrics'],
    ['GET /readyz', 'ready'],
    ['GET /v1/admin/recipients', 'listRecipients'],
    ['GET /v1/captcha/{id}', 'captchaStatus'],
    ['GET /v1/dev/outbox', 'readOutbox'],
    ['GET /v1/quota', 'readQuota'],
    ['POST /v1/admin/recipients/allow', 'allowRecipient'],
    ['POST /v1/admin/recipients/block', 'blockRecipient'],
    ['POST /v1/admin/recipients/lookup', 'lookUpRecipient'],
    ['POST /v1/admin/recipients/unblock', 'unblockRecipient'],
    ['POST /v1/admin/reload', 'reload'],
    ['POST /v1/captcha', 'sendCaptcha'],
    ['POST /v1/captcha/verify', 'verifyCaptcha'],
    ['POST /v1/captcha/{id}/resend', 'resendCaptcha'],
    ['POST /v1/mail', 'sendMail'],
    ['POST /v1/sms', 'sendSms']
  ])
  for (const { route } of operations) {
    const [method = '', url = ''] = route.split(' ')
    t.ok(app.hasRoute({ method: method as 'GET', url: url.replace(/{(\w+)}/g, ':$1') }), route)
  }
  for (const { route, tags, security, responses, parameters = [] } of operations) {
    t.equal(tags?.length, 1, route)
    const endUser = parameters.some(({ name }) => name === 'x-end-user-ip')
    t.equal(endUser, route.includes('/v1/captcha'), route)
    t.equal(
      parameters.some(({ name }) => name === 'accept-language'),
      route.includes('/v1/'),
      route
    )
    const repeats = parameters.some(({ name }) => name === 'idempotency-key')
    t.equal(repeats, 202 in responses, route)
    const replayed = Object.entries(responses).filter(
      ([, { headers = {} }]) => 'idempotency-replayed' in headers
    )
    t.same(
      replayed.map(([status]) => status),
      repeats ? ['202', '422', '504'] : [],
      route
    )
    t.same(security, keysOf(route), route)
    for (const [status, { content = {}, headers = {} }] of Object.entries(responses)) {
      if (Number(status) < 400) continue
      t.same(Object.keys(content), ['application/problem+json'], `${route} ${status}`)
      t.ok('content-language' in headers, `${route} ${status}`)
    }
    // A parameter in an address may be encoded wrongly.
    if (route.includes('{')) t.match(responses[400], { description: /cannot be read/ }, route)
    if (route.startsWith('POST')) {
      const headers = ['Retry-After', 'RateLimit', 'RateLimit-Policy', 'content-language']
      t.match(Object.keys(responses[429]?.headers ?? {}).sort(), headers.sort(), route)
    }
  }
})

t.test('the document names the codes of all answers, and docs/app-errors.md the same ones', async t => {
  const challenging = { CHALLENGE_URL: 'https://challenge.example', CHALLENGE_SECRET: 'x' }
  const app = await (await places.memory(t)).start({ ADMIN_KEY, ...challenging })
  const { paths } = (await app.inject('/openapi.json')).json<Document>()
  const answers = Object.values(paths)
    .flatMap(Object.values)
    .flatMap(({ responses }: Operation) => Object.entries(responses))
  const named = answers.map(([status, { description = '' }]) =>
    codesOf(description).map(code => `${code} ${status}`)
  )
  const repeating = named.filter(codes => new Set(codes).size < codes.length)
  t.same(repeating, [], 'an answer names each code once')
  const rows = [...read('docs/app-errors.md').matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \|/gm)]
  const shown = rows.map(([, code, status]) => `${code} ${status}`)
  const ofNone = [
    'NOT_FOUND 404',
    'METHOD_NOT_ALLOWED 405',
    'EXPECTATION_FAILED 417',
    'BROKEN_REQUEST 400',
    'REQUEST_TIMEOUT 408',
    'HEADERS_TOO_LARGE 431'
  ]
  t.same([...new Set(named.flat()), ...ofNone].sort(), shown.sort())
})

t.test('an answer names no code that its operation cannot have', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const { paths } = (await app.inject('/openapi.json')).json<Document>()
  const routesWith = (code: string) =>
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.values(methods).some(({ responses }) =>
        Object.values(responses).some(({ description = '' }) => codesOf(description).includes(code))
      )
        ? [path]
        : []
    )
  const listing = ['/v1/admin/recipients/block', '/v1/admin/recipients/allow']
  t.same(routesWith('DURATION_TOO_LONG'), listing, 'unblocking takes no duration')
  t.same(routesWith('LISTS_FULL'), listing, 'unblocking makes room')
  t.notOk(routesWith('INVALID').includes('/v1/admin/reload'), 'a reload has no input')
  t.notOk(routesWith('TEXT_TOO_LONG').includes('/v1/mail'), 'a mail has no segments')
  const sending = ['/v1/captcha', '/v1/captcha/{id}/resend', '/v1/sms', '/v1/mail']
  t.same(routesWith('SEND_LIMITED').sort(), sending.sort(), 'a provider limits what is sent')
})

t.test('an operation whose rules only observe has no 429', async t => {
  const policy = withRules({ 'api-attempts': { mode: 'observe' } })
  const app = await (await places.memory(t)).start({}, { policy })
  const { paths } = (await app.inject('/openapi.json')).json<Document>()
  t.notOk('429' in (paths['/v1/quota']?.get?.responses ?? {}))
  t.match(paths['/v1/sms']?.post?.responses[429]?.description, /^A limit is reached/)
})

t.test('the document is right about the language of a resend and the meaning of resendAt', async t => {
  const place = await places.memory(t)
  const app = await place.start()
  const document = (await app.inject('/openapi.json')).body
  const ask = (url: string, payload: object | undefined, language: string) =>
    app.inject({
      method: 'POST',
      url,
      remoteAddress: '192.0.2.1',
      headers: { 'accept-language': language },
      ...(payload && { payload })
    })
  let id = ''
  for (let i = 0; i < 5; i++) {
    id = (await ask('/v1/captcha', { phone: '13800138000', purpose: 'login' }, 'en')).json().id
    place.advance(i < 4 ? 61_000 : 0)
  }
  const { resendAt } = (await app.inject({ url: `/v1/captcha/${id}`, remoteAddress: '192.0.2.1' })).json()
  const { retryAfterMs } = (await ask(`/v1/captcha/${id}/resend`, undefined, 'zh')).json()
  t.ok(
    Date.parse(resendAt) - Date.UTC(2026, 2, 1) - 244_000 < retryAfterMs,
    'recipient-network refuses for longer'
  )
  t.match(
    document,
    'from which the rule `recipient`, and those on wrong codes, admit the next code. Other rules may refuse it for longer.'
  )
  const other = (await ask('/v1/captcha', { phone: '13800138009', purpose: 'login' }, 'en')).json().id
  place.advance(61_000)
  t.equal((await ask(`/v1/captcha/${other}/resend`, undefined, 'zh')).statusCode, 202)
  t.match(app.outbox?.messages[0]?.text, 'is your code to log in', 'the resend is not in Chinese')
  t.match(document, 'If absent, the language in which the code was requested.')
})

t.test('the YAML of the document has no aliases, of which parsers take only so many', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const { body } = await app.inject('/docs/yaml')
  t.same(parse(body, { maxAliasCount: 0 }), app.swagger())
})

t.test('the document passes a linter without warnings', async t => {
  const place = await places.memory(t)
  for (const env of [{ ADMIN_KEY }, { DEV_OUTBOX: 'off' }]) {
    const app = await place.start(env)
    const file = join(folderOf(t), 'openapi.json')
    writeFileSync(file, JSON.stringify(app.swagger(), null, 2))
    const quiet = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    const { status, stdout, stderr } = spawnSync(redocly, ['lint', file], { env: quiet, encoding: 'utf8' })
    t.equal(status, 0, `${stdout}${stderr}`)
    t.notMatch(`${stdout}${stderr}`, /You have \d+ warning/)
  }
})

t.test('no pattern has an escape that the regular expressions of other languages lack', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const patterns = new Set<string>()
  JSON.stringify(app.swagger(), (name, member) => {
    if (name === 'pattern') patterns.add(member)
    return member
  })
  t.ok(patterns.size > 5)
  for (const pattern of patterns) t.notMatch(pattern, /\\u/)
  const headers = { 'x-admin-key': ADMIN_KEY }
  for (const end of ['\0', '\n', '\x7f', '\x85', '\u2028', '\u2029']) {
    const payload = { phone: '13800138000', reason: `complaint${end}` }
    const answer = await app.inject({ method: 'POST', url: '/v1/admin/recipients/block', headers, payload })
    t.match(
      answer.json(),
      { code: 'INVALID', errors: [{ pointer: '#/reason', code: 'PATTERN' }] },
      escape(end)
    )
  }
})

interface Body {
  example?: object
  schema: { properties?: Record<string, { examples?: unknown[]; description?: string }> }
}

/** What the page at /docs offers to send: the example of a body, else one made of those of its members. */
function offered({ example, schema: { properties = {} } }: Body): object {
  const members = Object.entries(properties).map(([name, { examples = [] }]) => [name, examples[0]])
  return example ?? Object.fromEntries(members)
}

t.test('what the page at /docs offers to send is accepted as it is', async t => {
  // In another region the number of an example needs its country code.
  const app = await (await places.memory(t)).start({ ADMIN_KEY, REGION: 'GB' })
  const headers = { 'x-api-key': KEY, 'x-admin-key': ADMIN_KEY }
  const answers: Record<string, number> = {}
  for (const [url, { post }] of Object.entries(app.swagger().paths ?? {})) {
    const { content } = (post?.requestBody ?? {}) as { content?: { 'application/json': Body } }
    if (content === undefined || url.includes('{')) continue
    const payload = offered(content['application/json'])
    answers[url] = (await app.inject({ method: 'POST', url, headers, payload })).statusCode
  }
  t.same(answers, {
    '/v1/captcha': 202,
    // There is no such code.
    '/v1/captcha/verify': 422,
    '/v1/sms': 202,
    '/v1/mail': 202,
    '/v1/admin/recipients/lookup': 200,
    '/v1/admin/recipients/block': 200,
    '/v1/admin/recipients/allow': 200,
    '/v1/admin/recipients/unblock': 200
  })
})

t.test('the document says of the body of a resend alone that it may be left out', async t => {
  const app = await (await places.memory(t)).start()
  const optional = Object.entries(app.swagger().paths ?? {}).filter(([, { post }]) => {
    const body = post?.requestBody as { required?: boolean } | undefined
    return body !== undefined && !body.required
  })
  t.same(
    optional.map(([url]) => url),
    ['/v1/captcha/{id}/resend']
  )
})

t.test('each channel names its own templates', async t => {
  const app = await (await places.memory(t)).start()
  for (const channel of ['sms', 'mail'] as const) {
    const post = app.swagger().paths?.[`/v1/${channel}`]?.post as { requestBody?: object }
    const { content } = post.requestBody as { content: { 'application/json': Body } }
    const { description = '' } = content['application/json'].schema.properties?.template ?? {}
    const [, names] = /one of: (.*?)\./.exec(description.replace(/ \{[^}]*\}/g, '')) ?? []
    t.same(names?.split(', '), Object.keys(app.templates.offered(channel)))
  }
})

t.test('after a reload the document is that of an app started with the same files', async t => {
  const place = await places.memory(t)
  const policy = loadPolicy()
  const POLICY_FILE = join(folderOf(t), 'policy.json')
  const { folder: TEMPLATES_DIR, write } = templatesFolder(t)
  const { sms, mail } = loadFiles()
  const paid = {
    params: {
      sum: { type: 'integer' as const, minimum: 1, maximum: 99, example: '12' },
      shop: { type: 'string' as const, maxLength: 9, example: 'Ada' }
    },
    locales: { en: { text: '{sum} paid at {shop}.' } }
  }
  const ruled = (change: (rule: Rule) => object, { purposes } = policy) =>
    writeFileSync(POLICY_FILE, JSON.stringify({ ...policy, purposes, rules: policy.rules.map(change) }))
  ruled(rule => rule)
  write({ sms, mail })
  const env = { POLICY_FILE, TEMPLATES_DIR }
  const app = await place.start(env)
  const documentsOf = async (of: App) => {
    const [first, json, yaml] = await Promise.all(
      ['/openapi.json', '/docs/json', '/docs/yaml'].map(url => of.inject(url))
    )
    return { document: first?.json(), json: json?.json(), yaml: yaml?.body }
  }
  const before = await documentsOf(app)
  t.equal(app.swagger(), app.swagger(), 'the document is made once')
  const { info } = app.swagger() as { info: { title: string } }
  const { title } = info
  info.title = 'another'
  t.equal((await documentsOf(app)).yaml, before.yaml, 'and so is its YAML')
  info.title = title
  t.match(before.yaml, /one of: order-shipped \{ order \}/)

  const unlock = { action: { en: 'unlock', zh: '解锁' } }
  ruled(
    rule => {
      if (rule.name === 'recipient') return { ...rule, limits: [{ max: 2, window: '90s' }] }
      // A rule that observes has nothing to tell a caller.
      if (rule.name === 'verify-attempts') return { ...rule, mode: 'observe' }
      return rule
    },
    { ...policy, purposes: { unlock } }
  )
  const { captcha } = sms as { captcha: Template }
  write({ sms: { captcha, paid }, mail })
  t.same(await documentsOf(app), before, 'the document does not change before the reload')
  app.reload()
  const after = await documentsOf(app)
  t.same(after, await documentsOf(await place.start(env)))
  t.same(after.json, after.document)
  t.match(
    after.document.paths['/v1/captcha'].post.responses[429].description,
    'recipient: 2 in 90s, counted by'
  )
  const bodyOf = (path: string) =>
    after.document.paths[path].post.requestBody.content['application/json'] as Body
  const asked = bodyOf('/v1/captcha')
  t.equal(asked.schema.properties?.purpose?.description, 'The purpose of the code, one of: unlock.')
  t.match(offered(asked), { purpose: 'unlock' })
  const { schema } = bodyOf('/v1/sms')
  t.equal(
    schema.properties?.template?.description,
    'The name of the template, one of: paid { sum, shop }. The braces list the `params` of each.'
  )
  const payload = offered({ schema })
  t.match(payload, { template: 'paid', params: { sum: '12', shop: 'Ada' } })
  const sent = await app.inject({ method: 'POST', url: '/v1/sms', headers: { 'x-api-key': KEY }, payload })
  t.equal(sent.statusCode, 202)

  writeFileSync(POLICY_FILE, '{}')
  t.throws(() => app.reload())
  t.same(await documentsOf(app), after, 'a refused reload changes nothing')
})

t.test('the document says so when there is no template to choose', async t => {
  const { folder: TEMPLATES_DIR, write } = templatesFolder(t)
  const { sms, mail } = loadFiles()
  write({ sms: { captcha: sms.captcha as Template }, mail: { captcha: mail.captcha as Template } })
  const app = await (await places.memory(t)).start({ TEMPLATES_DIR })
  const { paths } = (await app.inject('/openapi.json')).json()
  for (const path of ['/v1/sms', '/v1/mail']) {
    const { schema } = paths[path].post.requestBody.content['application/json']
    t.equal(schema.properties.template.description, 'The name of the template. There is none to choose.')
  }
})

t.test('the page at /docs is served without warnings', async t => {
  const { lines, stream } = logStream()
  const app = await (await places.memory(t)).start({ LOG_LEVEL: 'warn' }, { logStream: stream })
  for (const path of ['/docs', '/docs/']) {
    lines.length = 0
    const page = await app.inject(path)
    t.equal(page.statusCode, 200)
    t.match(page.headers['content-type'], 'text/html')
    t.strictSame(lines, [], 'no warning is logged')
  }
})

t.test('the document has every member of a problem that docs/app-errors.md tells to read', async t => {
  const place = await places.memory(t)
  const POLICY_FILE = join(folderOf(t), 'policy.json')
  writeFileSync(POLICY_FILE, JSON.stringify(loadPolicy()))
  const app = await place.start({ ADMIN_KEY, POLICY_FILE })
  writeFileSync(POLICY_FILE, '{}')
  const headers = { 'x-api-key': KEY, 'x-admin-key': ADMIN_KEY }
  const ask = async (url: string, payload: object) =>
    (await app.inject({ method: 'POST', url, headers, payload })).json()
  const send = { phone: '13800138000', purpose: 'register' }
  const problems = [
    await ask('/v1/captcha', { purpose: 'register' }),
    await ask('/v1/captcha', { ...send, purpose: 'none' }),
    await ask('/v1/captcha', { ...send, locale: '-' }),
    await ask('/v1/captcha', { ...send, phone: '1' }),
    await ask('/v1/captcha', { ...send, send: false }),
    await ask('/v1/admin/recipients/lookup', { phone: '13800138000', endUserIp: 'none' }),
    await ask('/v1/admin/reload', {})
  ]
  const flaws = problems.flatMap(({ errors = [] }) => errors)
  t.match(problems, [{ members: [] }, { known: [] }, {}, {}, {}, {}, { reason: /policy/ }])
  t.match(flaws, [{ allowed: [] }, { pattern: /./ }, { limit: 3 }, { allowed: [true] }, { format: 'ip' }])
  const { Problem, CodeProblem } = (await app.inject('/openapi.json')).json().components.schemas
  for (const { properties } of [Problem, CodeProblem]) {
    for (const member of ['members', 'known', 'reason']) t.ok(properties[member]?.type, member)
    for (const member of ['pattern', 'limit', 'allowed', 'format'])
      t.ok(properties.errors.items.properties[member]?.type, member)
  }
})

t.test('a 504 of a code shows the members of a 202, and every problem is one of two schemas', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const { paths, components } = (await app.inject('/openapi.json')).json()
  const operations = Object.values(paths).flatMap(methods => Object.values(methods as object)) as Operation[]
  const schemas = operations.flatMap(({ responses }) =>
    Object.values(responses).flatMap(({ content }) => content?.['application/problem+json']?.schema ?? [])
  )
  const refs = new Set(schemas.map(schema => JSON.stringify(schema)))
  t.strictSame([...refs].sort(), [
    '{"$ref":"#/components/schemas/CodeProblem"}',
    '{"$ref":"#/components/schemas/Problem"}'
  ])
  const { Problem, CodeProblem } = components.schemas
  const { properties } = paths['/v1/captcha'].post.responses[202].content['application/json'].schema
  t.match(CodeProblem.properties, { ...Problem.properties, ...properties })
  t.notOk(CodeProblem.required.includes('id'))
})

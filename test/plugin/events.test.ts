import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import rateLimit from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { DecisionEvent, Rule, SendLimitOptions } from '../../plugin/index.js'
import { heardOn } from '../helper/channel.js'
import { open } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { strays } from '../helper/strays.js'
import type { Teardown } from '../helper/teardown.js'
import { turns } from '../helper/turns.js'
import { BY_HAND, timeOutByHand } from './settlement/time-out.js'

const phone = '13800138000'
const mail = 'somebody@example.com'
const address = '203.0.113.77'
const closed = { allowed: false }
const personal = /13800138000|138 ?0013 ?8000|somebody|203\.0\.113\.77|card 4111/

const rules: Rule[] = [
  { name: 'flood', key: 'ip', limits: [{ max: 6, window: '60s' }], counts: 'attempts' },
  { name: 'mobile', key: { phone: 'body.phone' }, limits: [{ max: 1, window: '60s' }] },
  {
    name: 'mail',
    key: { email: 'body.to' },
    limits: [{ max: 5, window: '60s' }],
    block: ['blocked@example.com']
  },
  { name: 'same', key: { digest: ['body'] }, limits: [{ max: 5, window: '60s' }] },
  { name: 'seen', key: { phone: 'body.phone' }, limits: [{ max: 1, window: '60s' }], mode: 'observe' }
]

function logged() {
  const { lines, stream } = logStream()
  return { lines, logger: { level: 'trace', stream } }
}

async function sending(t: Teardown, options: SendLimitOptions = {}) {
  const { lines, logger } = logged()
  const opened = await open(t, { rules, ...options }, { logger })
  opened.app.post('/x', { config: { limit: rules.map(rule => rule.name) } }, async () => 'sent')
  const send = async (body: object) => (await opened.post('/x', body, { remoteAddress: address })).statusCode
  return { ...opened, lines, send }
}

t.test('every decision is reported, by onDecision and on the channel, without personal data', async t => {
  const events: DecisionEvent[] = []
  const published = heardOn(t, 'fastify-send-limit:decision')
  const requests: unknown[] = []
  const { app, send } = await sending(t, {
    onDecision: (event, request) => {
      events.push(event)
      requests.push(request?.url ?? request)
    }
  })
  t.equal(await send({ phone, to: mail, text: 'card 4111' }), 200)
  t.equal(await send({ phone, to: mail }), 429)
  t.equal(await send({ phone: '13900139000', to: 'blocked@example.com' }), 403)
  t.equal(await send({ to: mail }), 400)
  await app.limit.reserve({ mobile: phone, seen: phone })
  await app.limit.reserve({ mobile: phone }, { url: '/job' } as FastifyRequest)
  await app.limit.peek({ mobile: phone })
  t.same(
    events.map(({ stage, route, allowed, refusal, violated, store }) => [
      stage,
      route,
      allowed,
      refusal,
      violated.map(each => each.rule),
      store
    ]),
    [
      ['attempts', 'POST /x', true, null, [], 'memory'],
      ['sends', 'POST /x', true, null, [], 'memory'],
      ['attempts', 'POST /x', true, null, [], 'memory'],
      ['sends', 'POST /x', false, 'exceeded', ['mobile'], 'memory'],
      ['attempts', 'POST /x', true, null, [], 'memory'],
      ['sends', 'POST /x', false, 'blocked', ['mail'], 'none'],
      ['attempts', 'POST /x', true, null, [], 'memory'],
      ['sends', null, false, 'exceeded', ['mobile'], 'memory'],
      ['sends', null, false, 'exceeded', ['mobile'], 'memory']
    ]
  )
  const seen = [{ rule: 'seen', windowMs: 60_000 }]
  t.strictSame(
    events.map(({ observed }) => observed),
    [[], [], [], seen, [], [], [], seen, []]
  )
  t.strictSame(requests, [...Array(7).fill('/x'), null, '/job'])
  t.strictSame(published, events)
  for (const { keys, rules: told } of events) {
    for (const [name, key] of Object.entries(keys)) t.match(key, /^[\w-]{22}$/, name)
    t.same(
      told.map(({ name }) => name).filter(name => !(name in keys)),
      [],
      'each rule has its key'
    )
  }
  t.ok(events[5]?.keys.mail, 'a key on a block list as well')
  t.same(
    events[5]?.rules.map(({ name }) => name),
    ['flood'],
    'the rule of the first stage, which has counted'
  )
  t.equal(events[1]?.keys.mobile, events[7]?.keys.mobile, 'one identity has one key')
  t.notMatch(JSON.stringify(events), personal)
})

t.test('a decision of Redis for a call outside of routes is reported as well', async t => {
  const { client } = await startRedis(t)
  const events: DecisionEvent[] = []
  const onDecision = (event: DecisionEvent) => void events.push(event)
  const { app } = await sending(t, { client, secret: 'at least 16 characters', onDecision })
  for (let i = 0; i < 2; i++) await app.limit.reserve({ mobile: phone })
  const told = { stage: 'sends', route: null, store: 'redis' }
  t.match(events, [
    { ...told, allowed: true },
    { ...told, allowed: false }
  ])
})

t.test('the channel reports decisions without onDecision, as long as somebody listens', async t => {
  const published: unknown[] = []
  const note = (event: unknown) => published.push(event)
  subscribe('fastify-send-limit:decision', note)
  const { app, send } = await sending(t)
  t.equal(await send({ phone, to: mail }), 200)
  await app.limit.reserve({ mobile: phone })
  t.match(published, [{ stage: 'attempts' }, { stage: 'sends' }, { stage: 'sends', route: null }])
  unsubscribe('fastify-send-limit:decision', note)
  t.equal(await send({ phone, to: mail }), 429)
  t.equal(published.length, 3)
})

t.test('keys in events differ from app to app without a secret, and by secret', async t => {
  const keyOf = async (secret?: string) => {
    const { app } = await open(t, { rules, ...(secret && { secret }) })
    return (await app.limit.reserve({ mobile: phone })).keys.mobile
  }
  t.not(await keyOf(), await keyOf())
  t.equal(await keyOf('a secret of this test'), await keyOf('a secret of this test'))
  t.not(await keyOf('a secret of this test'), await keyOf('another secret of this test'))
})

t.test('the keys of an event name every rule, even one called "constructor"', async t => {
  const limits = [
    { max: 1, window: '60s' },
    { max: 5, per: 'day' as const }
  ]
  const { app } = await open(t, { rules: [{ name: 'constructor', key: { phone: 'body.phone' }, limits }] })
  const { keys } = await app.limit.reserve({ constructor: phone })
  t.match(keys, { constructor: /^[\w-]{22}$/ })
  t.ok(Object.hasOwn(keys, 'constructor'))
})

t.test('an onDecision that throws or rejects is logged, and changes no answer', async t => {
  const stray = strays(t)
  for (const onDecision of [
    () => {
      throw new Error('no metrics')
    },
    async () => {
      throw new Error('no metrics')
    }
  ]) {
    const { app, lines, send } = await sending(t, { onDecision })
    t.equal(await send({ phone, to: mail }), 200)
    t.equal(await send({ phone, to: mail }), 429)
    t.ok((await app.limit.reserve({ mobile: '13900139000' })).allowed)
    t.equal(lines.filter(line => /"msg":"onDecision failed"/.test(line) && /no metrics/.test(line)).length, 5)
  }
  t.same(stray, [])
})

t.test('every refusal is logged, with the hashed key', async t => {
  const { lines, send } = await sending(t)
  t.equal(await send({ phone, to: mail }), 200)
  t.equal(await send({ phone, to: mail }), 429)
  t.equal(await send({ phone: '13900139000', to: 'blocked@example.com' }), 403)
  const told = lines.map(line => JSON.parse(line)).filter(line => line.msg === 'refused by limit')
  t.match(
    told.map(line => line.limit),
    [
      {
        stage: 'sends',
        rules: [{ rule: 'mobile', windowMs: 60_000, key: /^[\w-]{22}$/ }],
        retryAfterMs: 60_000
      },
      { stage: 'sends', rules: [{ rule: 'mail', windowMs: 0, key: /^[\w-]{22}$/ }], retryAfterMs: null }
    ]
  )
  t.ok(told.every(line => line.level === 30 && line.reqId))
})

t.test('a flood does not fill the log: of equal refusals one a second is logged at info', async t => {
  const { lines, logger } = logged()
  const { app, advance, post } = await open(
    t,
    { rules, filters: [{ name: 'closed', check: () => closed }] },
    { logger }
  )
  app.post('/x', { config: { limit: ['mobile', 'mail'] } }, async () => 'sent')
  app.post('/closed', { config: { limit: 'closed' } }, async () => 'sent')
  const send = async (body: object) => (await post('/x', body)).statusCode
  const levels = () =>
    lines
      .splice(0)
      .map(line => JSON.parse(line))
      .filter(({ msg }) => msg === 'refused by limit')
      .map(({ level }) => level)
  const refused = async (body: object, times: number) => {
    for (let i = 0; i < times; i++) t.not(await send(body), 200)
    return levels()
  }
  const one = { phone, to: mail }
  t.equal(await send(one), 200)
  t.same(await refused(one, 3), [30, 20, 20])
  const another = { phone: '13900139000', to: mail }
  t.equal(await send(another), 200)
  t.same(await refused(another, 2), [30, 20], 'another phone')
  t.same(await refused({ phone, to: 'blocked@example.com' }, 2), [30, 20], 'another rule')
  t.same(await refused(one, 1), [20])
  advance(999)
  t.same(await refused(one, 1), [20])
  advance(1)
  t.same(await refused(one, 2), [30, 20])
  for (let i = 0; i < 2; i++) t.equal((await post('/closed')).statusCode, 403)
  t.same(levels(), [30, 30], 'refusals by a filter are each logged, since it names no key')
})

t.test('two rules that refuse the same identity are each logged', async t => {
  const { lines, logger } = logged()
  const two = ['first', 'second'].map(name => ({
    name,
    key: 'ip' as const,
    limits: [{ max: 1, window: '60s' }]
  }))
  const { app, post } = await open(t, { rules: two }, { logger })
  for (const { name } of two) app.post(`/${name}`, { config: { limit: name } }, async () => 'sent')
  for (const status of [200, 429])
    for (const { name } of two) t.equal((await post(`/${name}`)).statusCode, status)
  const told = lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'refused by limit')
  t.match(
    told,
    two.map(({ name }) => ({ level: 30, limit: { rules: [{ rule: name }] } }))
  )
})

t.test('a refusal that a quieter route does not log is logged by the next route', async t => {
  const { lines, logger } = logged()
  const { app, post } = await open(t, { rules }, { logger })
  app.post('/quiet', { logLevel: 'warn', config: { limit: 'mobile' } }, async () => 'sent')
  app.post('/x', { config: { limit: 'mobile' } }, async () => 'sent')
  t.equal((await post('/x', { phone })).statusCode, 200)
  for (const url of ['/quiet', '/x']) t.equal((await post(url, { phone })).statusCode, 429)
  const told = lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'refused by limit')
  t.match(told, [{ level: 30 }])
})

t.test('the log holds no personal data, whatever goes wrong', async t => {
  const { app, lines, send } = await sending(t, {
    filters: [
      {
        name: 'late',
        check: () => ({
          allowed: true,
          undo: () => {
            throw new Error('stuck')
          }
        })
      }
    ]
  })
  app.post('/y', { config: { limit: ['late', 'mobile', 'mail'] } }, async () => {
    throw Object.assign(new Error('provider down'), { statusCode: 502 })
  })
  const body = { phone, to: mail, text: 'card 4111' }
  const wrong = [
    body,
    body,
    { phone: '138001380', to: mail },
    { phone: [phone], to: mail },
    { phone, to: 'somebody@' },
    { phone: { phone }, to: mail }
  ]
  for (const each of wrong) await send(each)
  t.equal(await send(body), 429, 'the flood rule')
  for (const each of wrong)
    await app.inject({ method: 'POST', url: '/y', payload: each, remoteAddress: '127.0.0.1' })
  const ours = lines.filter(line => !/"msg":"incoming request"/.test(line))
  t.ok(ours.length > 20, `${ours.length} lines`)
  t.notMatch(ours.join(''), personal)
})

t.test('a proxy that trustProxy does not name is warned of, once', async t => {
  const limits = [{ max: 9, window: '60s' }]
  const forwarded = { 'x-forwarded-for': '192.0.2.1' }
  const table: [trustProxy: unknown, remoteAddress: string, headers: object, warned: string | undefined][] = [
    [false, '127.0.0.1', forwarded, 'among, ip, path'],
    [false, '::ffff:10.1.2.3', forwarded, 'among, ip, path'],
    [false, 'fd00::7', forwarded, 'among, ip, path'],
    ['10.0.0.0/8', '192.168.0.1', forwarded, 'among, ip, path'],
    [false, '127.0.0.1', {}, undefined],
    [false, '198.51.100.7', forwarded, undefined],
    ['10.0.0.0/8', '10.1.2.3', forwarded, undefined],
    // A check or a job of the proxy's own machine comes through the proxy, too.
    ['10.0.0.0/8', '10.1.2.3', { 'x-forwarded-for': '10.1.2.3' }, undefined],
    ['10.0.0.0/8', '10.1.2.3', { 'x-forwarded-for': '' }, undefined],
    [true, '10.1.2.3', forwarded, undefined]
  ]
  for (const [trustProxy, remoteAddress, headers, warned] of table) {
    const { lines, logger } = logged()
    const { app } = await open(t, {}, { logger, trustProxy: trustProxy as never })
    const limit = [
      { name: 'among', key: 'ip' as const, counts: 'attempts' as const, limits },
      { name: 'ip', key: 'ip' as const, limits },
      { name: 'other', key: { value: 'query.a' }, optional: true, limits },
      { name: 'path', key: { ip: 'request.ip' }, limits }
    ]
    app.get('/none', { config: { limit: { name: 'none', key: 'all', limits } } }, async () => '')
    app.get('/x', { config: { limit } }, async () => '')
    const ask = async (url: string) => app.inject({ url, remoteAddress, headers: headers as never })
    const told = () => lines.filter(line => line.includes('does not name')).map(line => JSON.parse(line))
    await ask('/none')
    t.same(told(), [], 'no rule of the route counts by address')
    await ask('/x')
    await ask('/x')
    const msg = `trustProxy does not name ${remoteAddress}, which sends X-Forwarded-For: if it is a proxy, all clients behind it count as one for the rules ${warned}`
    t.match(told(), warned === undefined ? [] : [{ level: 40, msg }], `${trustProxy} ${remoteAddress}`)
    t.equal(told().length, warned === undefined ? 0 : 1)
  }
})

t.test('a rule by address under trustProxy true or a number is warned of', async t => {
  const byAddress =
    /the rule (\S+) counts by address, but with trustProxy: (?:true the client chooses its address|\d all clients behind a proxy have one address, or each chooses its own); name the proxies instead/
  const table: [trustProxy: unknown, warned: string[]][] = [
    [true, ['ip', 'path', 'content', 'different', 'inline']],
    [false, []],
    ['loopback', []],
    [1, ['ip', 'path', 'content', 'different', 'inline']],
    [0, []],
    [['10.0.0.0/8'], []],
    [() => true, []]
  ]
  for (const [trustProxy, warned] of table) {
    const { lines, logger } = logged()
    const limits = [{ max: 1, window: '60s' }]
    const { app } = await open(
      t,
      {
        rules: [
          { name: 'ip', key: 'ip', limits },
          { name: 'path', key: [{ ip: 'request.ip' }, { value: 'query.a' }], limits },
          { name: 'content', key: { digest: [{ ip: 'request.ip' }, 'query.a'] }, limits },
          { name: 'different', key: { value: 'query.a' }, distinct: 'ip', limits },
          { name: 'other', key: { value: 'query.a' }, limits }
        ]
      },
      { logger, trustProxy: trustProxy as never }
    )
    await app.register(async scope =>
      scope.get('/x', { config: { limit: { name: 'inline', key: 'ip', limits } } }, async () => '')
    )
    await app.ready()
    t.same(
      lines.flatMap(line => byAddress.exec(line)?.[1] ?? []),
      warned,
      String(trustProxy)
    )
    t.ok(lines.filter(line => byAddress.test(line)).every(line => JSON.parse(line).level === 40))
    await app.close()
  }
})

t.test('a route whose limit has a wrong name, or is outside of config, is warned of', async t => {
  const { lines, logger } = logged()
  const { app } = await open(
    t,
    { rules: [{ name: 'a', key: 'ip', limits: [{ max: 1, window: '60s' }] }] },
    { logger }
  )
  const handler = async () => ''
  app.get('/slip', { config: { limits: 'a' } as object }, handler)
  app.get('/outside', { limit: 'a', config: {} } as object, handler)
  app.get('/limited', { config: { limit: 'a' } }, handler)
  app.get('/both', { config: { limit: 'a', limits: 'of another plugin' } as object }, handler)
  app.get('/neither', handler)
  app.get('/null', { config: null } as object, handler)
  app.get('/other', { config: { owner: 'another plugin' } as object }, handler)
  await app.ready()
  const warned = lines.map(line => JSON.parse(line)).filter(({ level }) => level === 40)
  t.match(warned, [
    { msg: 'GET /slip has config.limits, by which nothing is limited; it is config.limit' },
    { msg: 'GET /outside has limit, by which nothing is limited; it is config.limit' }
  ])
  t.equal(warned.length, 2)
})

t.test('a route that has config.rateLimit without @fastify/rate-limit is warned of', async t => {
  const { lines, logger } = logged()
  const { app } = await open(t, { rules: [] }, { logger })
  const handler = async () => ''
  const former = { config: { rateLimit: { max: 1 } } }
  app.get('/former', former, handler)
  app.get('/off', { config: { rateLimit: false } }, handler)
  await app.register(async scope => {
    await scope.register(rateLimit, { global: false })
    scope.get('/both', former, handler)
  })
  await app.ready()
  const warned = lines.map(line => JSON.parse(line)).filter(({ level }) => level === 40)
  t.strictSame(
    warned.map(({ msg }) => msg),
    ['GET /former has config.rateLimit, by which nothing is limited; it is config.limit']
  )
})

t.test('a decision on sends that comes after handlerTimeout is refunded, and is no event', async t => {
  const decided = gate()
  const timeOut = timeOutByHand(t)
  let slow = true
  const key = async () => {
    if (slow) {
      timeOut()
      await decided.opened
    }
    return 'somebody'
  }
  const rule: Rule = { name: 'a', key, limits: [{ max: 1, window: '60s' }] }
  const told: string[] = []
  const onDecision = ({ stage, allowed }: DecisionEvent) => void told.push(`${stage} ${allowed}`)
  const { app, post } = await open(t, { rules: [rule], timeout: '10s', onDecision })
  let ran = 0
  app.post('/x', { config: { limit: 'a' }, handlerTimeout: BY_HAND }, async () => `${++ran}`)
  t.match(await post('/x'), { statusCode: 503, body: /FST_ERR_HANDLER_TIMEOUT/ })
  decided.open()
  await turns()
  t.same([ran, told], [0, []])
  slow = false
  t.equal((await post('/x')).statusCode, 200, 'nothing stayed counted')
  t.same(told, ['sends true'])
})

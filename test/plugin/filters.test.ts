import { once } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import t from 'tap'
import { type Filter, type FilterResult, limitPlugin, type Rule } from '../../plugin/index.js'
import { MemoryStore } from '../../plugin/store/memory.js'
import { open } from '../helper/face.js'
import { logStream } from '../helper/log-stream.js'
import { turns } from '../helper/turns.js'
import { until } from '../helper/until.js'

const send: Rule = { name: 'send', key: 'ip', limits: [{ max: 1, window: '60s' }] }

/** A filter that notes its calls. */
function noted(
  log: string[],
  name: string,
  result?: () => FilterResult | undefined | Promise<FilterResult | undefined>
): Filter {
  return {
    name,
    init: async () => void log.push(`init ${name}`),
    check: () => {
      log.push(`check ${name}`)
      return result?.()
    },
    close: async () => void log.push(`close ${name}`)
  }
}

t.test('a filter is initialized and closed once, however many routes name it', async t => {
  const log: string[] = []
  const { app } = await open(t, { filters: [noted(log, 'a'), noted(log, 'unused')] })
  const inline = noted(log, 'b')
  for (const url of ['/x', '/y']) app.get(url, { config: { limit: ['a', inline] } }, async () => 'sent')
  t.same(log, [])
  await app.ready()
  t.same(log, ['init a', 'init b'])
  await app.inject('/x')
  await app.inject('/y')
  t.same(log.splice(0), ['init a', 'init b', 'check a', 'check b', 'check a', 'check b'])
  await app.close()
  t.same(log, ['close b', 'close a'])
})

t.test('an init that rejects ends the start, and initialized filters are closed', async t => {
  const log: string[] = []
  const { app } = await open(t)
  const broken = {
    name: 'broken',
    init: () => Promise.reject(new Error('no list')),
    check() {},
    close: () => void log.push('close broken')
  }
  app.get('/x', { config: { limit: [noted(log, 'a'), broken] } }, async () => 'sent')
  await t.rejects(Promise.resolve(app.ready()), { message: 'no list' })
  await app.close()
  t.same(log, ['init a', 'close a'])
})

t.test('every filter is closed, and the store, even when the close of another fails', async t => {
  const log: string[] = []
  const { app } = await open(t)
  const broken = (name: string, error: string) => ({
    name,
    check() {},
    close: () => Promise.reject(new Error(error))
  })
  const limit = [broken('last', 'broken, too'), noted(log, 'a'), broken('first', 'stuck')]
  app.get('/x', { config: { limit } }, async () => 'sent')
  await app.ready()
  const closed = t.capture(MemoryStore.prototype, 'close', MemoryStore.prototype.close)
  await t.rejects(app.close(), { message: 'stuck' })
  t.same(log, ['init a', 'close a'])
  t.equal(closed().length, 1, 'the store is closed')
})

t.test('the store of a registration that fails is closed', async t => {
  const closed = t.capture(MemoryStore.prototype, 'close', MemoryStore.prototype.close)
  const app = Fastify()
  await t.rejects(Promise.resolve(app.register(limitPlugin, { rules: [{ ...send, limits: [] }] })))
  await app.close().catch(() => {})
  t.equal(closed().length, 1)
})

t.test('filters run in the order in which they are named, before the reservation', async t => {
  const log: string[] = []
  const { app } = await open(t, {
    rules: [send],
    filters: [noted(log, 'b'), noted(log, 'a', () => ({ allowed: false }))]
  })
  app.get('/x', { config: { limit: ['b', 'send', 'a', noted(log, 'c')] } }, async () => 'sent')
  await app.ready()
  log.splice(0)
  t.equal((await app.inject('/x')).statusCode, 403)
  t.same(log, ['check b', 'check a'], 'after the first refusal no other filter runs')
  t.equal((await app.limit.peek({ send: '127.0.0.1' })).rules[0]?.limits[0]?.remaining, 1)
})

t.test('events of a route with a filter name the attempts counted before it', async t => {
  const told: unknown[] = []
  const { app } = await open(t, {
    onDecision: ({ rules, keys }) => void told.push([rules.map(({ name }) => name), Object.keys(keys)])
  })
  const flood: Rule = { name: 'flood', key: 'ip', counts: 'attempts', limits: [{ max: 9, window: '60s' }] }
  let allowed = true
  const limit = [flood, noted([], 'asked', () => ({ allowed })), send]
  app.get('/x', { config: { limit } }, async () => 'sent')
  const own = [['flood'], ['flood']]
  const both = ['flood', 'send']
  await app.inject('/x')
  t.same(told.splice(0), [own, [both, both]])
  allowed = false
  await app.inject('/x')
  t.same(told, [own, own])
})

t.test('the answer of a filter decides the status, and any other value is an error', async t => {
  const table: [result: unknown, status: number, headers?: object][] = [
    [undefined, 200],
    [null, 200],
    [{ allowed: true }, 200],
    [Promise.resolve({ allowed: true }), 200],
    [{ allowed: false }, 403, { 'retry-after': undefined }],
    [{ allowed: false, retryAfterMs: 1_001 }, 429, { 'retry-after': '2' }],
    [{ allowed: false, retryAfterMs: 0 }, 429, { 'retry-after': '0' }],
    [{ allowed: false, retryAfterMs: null }, 403, { 'retry-after': undefined }],
    [Promise.resolve({ allowed: false, retryAfterMs: 5_000 }), 429, { 'retry-after': '5' }],
    // Another value was meant to say something, so no request passes for it.
    [false, 500],
    [true, 500],
    [{}, 500],
    [{ allowed: 0 }, 500],
    [{ allowed: false, retryAfterMs: Number.NaN }, 500],
    [{ allowed: false, retryAfterMs: Infinity }, 500],
    [{ allowed: false, retryAfterMs: -1 }, 500],
    [{ allowed: false, retryAfterMs: 2 ** 53 }, 500],
    [{ allowed: false, retryAfterMs: '5' }, 500]
  ]
  for (const [result, status, headers = {}] of table) {
    const { app } = await open(t)
    app.get('/x', { config: { limit: { name: 'f', check: () => result as never } } }, async () => 'sent')
    const reply = await app.inject('/x')
    t.equal(reply.statusCode, status, JSON.stringify(result))
    for (const [name, value] of Object.entries(headers)) t.equal(reply.headers[name], value)
    if (status === 500)
      t.equal(
        reply.json().message,
        `the filter f must return nothing, or { allowed: true or false } with a "retryAfterMs" from 0, but returned ${result instanceof Object ? 'an object' : 'a boolean'}`
      )
    if (status === 403 || status === 429) t.match(reply.json(), { status, 'violated-policies': ['f'] })
    await app.close()
  }
})

t.test('an error of a filter is answered with 500', async t => {
  for (const check of [
    () => {
      throw new Error('no list')
    },
    async () => {
      throw new Error('no list')
    }
  ]) {
    const { app } = await open(t)
    app.get('/x', { config: { limit: [{ name: 'f', check }, send] } }, async () => 'sent')
    const reply = await app.inject('/x')
    t.equal(reply.statusCode, 500)
    t.equal(reply.json().message, 'no list')
  }
})

t.test('a filter that takes too long is 503, and its late pass is undone', async t => {
  const { app } = await open(t, { timeout: 20 })
  let pass: (result: FilterResult) => void = () => {}
  const undone = new Promise<void>(resolve => {
    const check = () => new Promise<FilterResult>(found => (pass = found))
    app.get('/x', { config: { limit: [{ name: 'slow', check }, send] } }, async () => 'sent')
    void app.inject('/x').then(reply => {
      t.equal(reply.statusCode, 503)
      t.equal(reply.json().detail, 'the filter slow took longer than 20 ms')
      t.equal(reply.json().code, 'FST_SEND_LIMIT_TIMEOUT')
      pass({ allowed: true, undo: () => resolve() })
    })
  })
  await undone
  t.equal((await app.limit.peek({ 'send@GET /x': '127.0.0.1' })).rules[0]?.limits[0]?.remaining, 1)
})

t.test('a filter may take a second, unless the option says otherwise', async t => {
  let asked: () => void = () => {}
  const begun = new Promise<void>(resolve => (asked = resolve))
  const check = () => {
    asked()
    return new Promise<void>(() => {})
  }
  const { app } = await open(t)
  app.get('/x', { config: { limit: { name: 'slow', check } } }, async () => 'sent')
  await app.ready()
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const reply = app.inject('/x')
  await begun
  for (let i = 0; i < 4; i++) mock.timers.tick(500)
  t.equal((await reply).json().detail, 'the filter slow took longer than 1000 ms')
})

t.test('a refusal that comes too late is not undone', async t => {
  const { app } = await open(t, { timeout: 20 })
  const log: string[] = []
  let answer: (result: FilterResult) => void = () => {}
  const check = () => new Promise<FilterResult>(found => (answer = found))
  app.get('/x', { config: { limit: { name: 'slow', check } } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 503)
  answer({ allowed: false, undo: () => void log.push('undone') })
  await turn()
  t.same(log, [])
})

t.test('a filter that fails after its time is logged', async t => {
  const { lines, stream } = logStream()
  const { app } = await open(t, { timeout: 20 }, { logger: { level: 'error', stream } })
  let fail: (error: Error) => void = () => {}
  const check = () => new Promise<FilterResult>((_, failed) => (fail = failed))
  app.get('/x', { config: { limit: { name: 'slow', check } } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 503)
  fail(new Error('no list'))
  await new Promise(setImmediate)
  t.match(lines.join(''), /no list.*filter slow/)
})

t.test('passes are undone, last first, when the request is not admitted', async t => {
  const undo = (log: string[], name: string) =>
    noted([], name, () => ({ allowed: true, undo: () => void log.push(name) }))
  const throwing: Filter = { name: 'throws', check: () => Promise.reject(new Error('x')) }
  const slow: Filter = { name: 'slow', check: () => new Promise(() => {}) }
  const refusing: Filter = { name: 'refuses', check: () => ({ allowed: false }) }
  const none: Rule = { name: 'none', key: 'ip', limits: [{ max: () => 0, ceiling: 1, window: '60s' }] }
  const noKey: Rule = { name: 'no-key', key: { value: 'query.none' }, limits: [{ max: 1, window: '60s' }] }
  const blocking: Rule = { ...send, name: 'blocking', block: ['127.0.0.1'] }
  for (const [last, status] of [
    [refusing, 403],
    [throwing, 500],
    [slow, 503],
    [none, 429],
    [noKey, 400],
    [blocking, 403]
  ] as const) {
    const log: string[] = []
    const { app } = await open(t, { timeout: 20 })
    const broken = noted([], 'broken', () => ({
      allowed: true,
      undo: () => Promise.reject(new Error('stuck'))
    }))
    app.get('/x', { config: { limit: [undo(log, 'a'), broken, undo(log, 'b'), last] } }, async () => 'sent')
    t.equal((await app.inject('/x')).statusCode, status)
    t.same(log, ['b', 'a'], `${last.name}: in reverse order, each once, though one undo fails`)
    await app.close()
  }
  const log: string[] = []
  const { app } = await open(t)
  app.get('/x', { config: { limit: [undo(log, 'a'), send] } }, async () => {
    throw new Error('provider down')
  })
  t.equal((await app.inject('/x')).statusCode, 500)
  t.same(log, [], 'nothing is undone for an admitted request')
})

t.test('an undo that never ends holds up no answer and no other undo', async t => {
  const { lines, stream } = logStream()
  const { app } = await open(t, { timeout: 20 }, { logger: { stream } })
  const log: string[] = []
  const first = { name: 'first', check: () => ({ allowed: true, undo: () => void log.push('undone') }) }
  const stuck = { name: 'stuck', check: () => ({ allowed: true, undo: () => new Promise<void>(() => {}) }) }
  app.get('/x', { config: { limit: [first, stuck, send] } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 200)
  t.equal((await app.inject('/x')).statusCode, 429)
  t.same(log, ['undone'])
  t.match(lines.join(''), 'the undo of the filter stuck took longer than 20 ms')
})

t.test('an undo that never ends is logged after a late pass as well', async t => {
  const { lines, stream } = logStream()
  const { app } = await open(t, { timeout: 20 }, { logger: { level: 'error', stream } })
  let pass: (result: FilterResult) => void = () => {}
  const check = () => new Promise<FilterResult>(found => (pass = found))
  app.get('/x', { config: { limit: { name: 'slow', check } } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 503)
  pass({ allowed: true, undo: () => new Promise<void>(() => {}) })
  const message = 'the undo of the filter slow took longer than 20 ms'
  await until(() => lines.some(line => line.includes(message)), message)
})

t.test('a pass that comes after the handlerTimeout of its route is undone', async t => {
  const { app } = await open(t)
  let ran = false
  const undone = new Promise<void>(resolve => {
    let pass: (result: FilterResult) => void = () => {}
    const check = () => new Promise<FilterResult>(found => (pass = found))
    app.get('/x', { handlerTimeout: 500, config: { limit: [{ name: 'slow', check }, send] } }, async () => {
      ran = true
      return 'sent'
    })
    app.addHook('onResponse', async () => pass({ allowed: true, undo: () => resolve() }))
    void app.inject('/x').then(reply => t.equal(reply.statusCode, 503))
  })
  await undone
  await new Promise(resolve => setImmediate(resolve))
  t.notOk(ran)
  t.equal((await app.limit.peek({ 'send@GET /x': '127.0.0.1' })).rules[0]?.limits[0]?.remaining, 1)
})

t.test(
  'a request whose handlerTimeout is over does not reach its handler, however long the error handler takes',
  async t => {
    const late: Filter = {
      name: 'late',
      check: async request => {
        await once(request.signal, 'abort')
        return { allowed: true, undo: () => void log.push('undone') }
      }
    }
    const log: string[] = []
    const { app } = await open(t, { rules: [send] })
    app.setErrorHandler(async (_error, _request, reply) => {
      await turns()
      return reply.code(504).send('too late')
    })
    app.get('/x', { config: { limit: ['send', late] }, handlerTimeout: 500 }, async () => log.push('sent'))
    t.equal((await app.inject('/x')).statusCode, 504)
    t.same(log, ['undone'])
    t.match((await app.limit.peek({ send: '127.0.0.1' })).rules, [{ limits: [{ remaining: 1 }] }])
  }
)

t.test('a request that is answered during its decision does not reach its handler', async t => {
  let answer = () => {}
  const undone: string[] = []
  const filter: Filter = {
    name: 'filter',
    check() {
      answer()
      return { allowed: true, undo: () => void undone.push('undone') }
    }
  }
  const key = async () => {
    answer()
    return 'x'
  }
  const failing = async () => {
    answer()
    throw new Error('no key')
  }
  for (const limit of [[filter, send], { ...send, key }, { ...send, key: failing }]) {
    const { app } = await open(t)
    let ran = false
    app.addHook('onRequest', async (_request, reply) => {
      answer = () => void reply.code(503).send('busy')
    })
    // To Fastify the reply is not sent before these hooks have ended.
    app.addHook('onSend', async (_request, _reply, payload) => {
      await turns()
      return payload
    })
    app.get('/x', { config: { limit } }, async () => {
      ran = true
      return 'sent'
    })
    const { statusCode, body } = await app.inject('/x')
    t.same([statusCode, body, ran], [503, 'busy', false])
    const id = Array.isArray(limit) ? '127.0.0.1' : 'x'
    t.match((await app.limit.peek({ 'send@GET /x': id })).rules, [{ limits: [{ remaining: 1 }] }])
  }
  t.same(undone, ['undone'])
})

t.test('filters alone make a decision without rules', async t => {
  const { app } = await open(t)
  app.get('/x', { config: { limit: { name: 'f', check() {} } } }, async (_req, reply) => reply.limit)
  t.same((await app.inject('/x')).json(), {
    allowed: true,
    retryAfterMs: 0,
    violated: [],
    observed: [],
    rules: [],
    refusal: null
  })
})

t.test('a filter may be an object of a class with private members', async t => {
  class Country implements Filter {
    readonly name = 'country'
    private readonly allowed = false
    closed = false
    check() {
      return { allowed: this.allowed }
    }
    close() {
      this.closed = true
    }
  }
  const country = new Country()
  const { app } = await open(t, { filters: [country] })
  app.get('/x', { config: { limit: 'country' } }, async () => 'sent')
  t.equal((await app.inject('/x')).statusCode, 403)
  await app.close()
  t.ok(country.closed)
})

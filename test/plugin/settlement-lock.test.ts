import { once } from 'node:events'
import Fastify, { type FastifyInstance, type RouteHandlerMethod } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import { type Decision, limitPlugin, type Rule } from '../../plugin/index.js'
import { appOf } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { intervalsByHand } from '../helper/intervals.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { places, sharedOptions } from './settlement/places.js'

const key = { value: 'query.id' }
const id = 'somebody'
const flight = (lock: string, maxHold?: string): Rule => ({
  name: 'flight',
  key,
  lock,
  ...(maxHold && { maxHold })
})
/** A lock that outlives any standstill of this process, and how often it is renewed. */
const long = flight('30s', '1h')
const RENEWAL_MS = 10_000
const send: Rule = { name: 'send', key, limits: [{ max: 2, window: '60s' }] }

/** How long the lock still lasts, in milliseconds of the store's clock. */
async function left(app: FastifyInstance): Promise<number> {
  const { rules } = await app.limit.peek({ flight: id })
  return rules[0]?.limits[0]?.resetMs ?? -1
}

/** A route whose handlers each wait until `go` is called. */
function waiting(app: FastifyInstance, limit: string[]) {
  const inside: { decision: Decision; go: (status?: number) => void }[] = []
  app.get('/send', { config: { limit } }, async (_, reply) => {
    const status = await new Promise<number>(resolve => {
      inside.push({ decision: reply.limit as Decision, go: (status = 202) => resolve(status) })
    })
    return reply.code(status).send({})
  })
  return {
    /** Sends a request, and waits until its handler runs. */
    async enter() {
      const count = inside.length
      const answer = app.inject(`/send?id=${id}`)
      await until(() => inside.length > count, 'a handler that runs')
      return { answer, ...(inside[count] as (typeof inside)[0]) }
    },
    get runs() {
      return inside.length
    }
  }
}

for (const place of await places(t)) {
  t.test(`${place.store}: a refusal by a lock alone is 409, by a lock and other rules 429`, async t => {
    const { app, used } = await place.open(t, [flight('30s'), send])
    const route = waiting(app, ['flight', 'send'])
    const first = await route.enter()
    place.advance(10_500)
    const second = await app.inject(`/send?id=${id}`)
    t.equal(second.statusCode, 409)
    t.match(second.headers, { 'content-type': /^application\/problem\+json/, 'retry-after': '20' })
    t.match(second.json(), {
      type: 'about:blank',
      status: 409,
      code: 'FST_SEND_LIMIT_IN_FLIGHT',
      'violated-policies': ['flight'],
      retryAfterMs: 19_500
    })
    t.same(await used({ flight: id, send: id }), [1, 1], 'the refused request counted nothing')
    const another = await app.limit.reserve({ flight: 'another', send: 'another' })
    t.ok(another.allowed, 'other keys are free')
    another.end()
    first.go()
    t.equal((await first.answer).statusCode, 202)
    await until(async () => (await left(app)) === 0, 'a free lock')

    const third = await route.enter()
    const fourth = await app.inject(`/send?id=${id}`)
    t.equal(fourth.statusCode, 429)
    t.equal(fourth.headers['retry-after'], '50', 'the longer waiting time of both')
    t.match(fourth.json(), { code: 'FST_SEND_LIMIT_EXCEEDED', 'violated-policies': ['flight', 'send'] })
    third.go()
    await third.answer
    await until(async () => (await left(app)) === 0, 'a free lock')
    const fifth = await app.inject(`/send?id=${id}`)
    t.match(fifth.json(), { 'violated-policies': ['send'] })
    t.equal(route.runs, 2)
  })

  t.test(`${place.store}: a lock is renewed while its handler runs`, async t => {
    const renew = intervalsByHand(t, RENEWAL_MS)
    const { app } = await place.open(t, [long])
    const route = waiting(app, ['flight'])
    const first = await route.enter()
    for (let i = 0; i < 4; i++) {
      place.advance(22_000)
      renew()
      await until(async () => (await left(app)) === 30_000, 'a renewed lock')
    }
    t.equal((await app.inject(`/send?id=${id}`)).statusCode, 409, 'long after its time to live')
    t.notOk(first.decision.signal.aborted)
    first.go()
    await first.answer
    await until(async () => (await left(app)) === 0, 'a free lock')
    place.advance(1)
    const second = await route.enter()
    t.equal(await left(app), 30_000)
    second.go()
    await second.answer
  })

  t.test(`${place.store}: a lock is renewed up to maxHold, and then lost`, async t => {
    const { app } = await place.open(t, [flight('100ms', '200ms')])
    const route = waiting(app, ['flight'])
    const first = await route.enter()
    const { signal } = first.decision
    if (!signal.aborted) await once(signal, 'abort')
    t.match(signal.reason, { name: 'AbortError' })
    // From now on the lock is not renewed: it ends by its time.
    place.advance(100)
    const second = await route.enter()
    first.go()
    t.equal((await first.answer).statusCode, 202, 'the handler of the lost lock ends as usual')
    t.equal(
      (await app.inject(`/send?id=${id}`)).statusCode,
      409,
      'it does not release the lock of the next request'
    )
    second.go()
    await second.answer
    await until(async () => (await left(app)) === 0, 'a free lock')
  })

  t.test(`${place.store}: of several locks each is renewed up to its own maxHold`, async t => {
    const short: Rule = { name: 'short', key, lock: '100ms', maxHold: '200ms' }
    const renew = intervalsByHand(t, RENEWAL_MS)
    const { app, used } = await place.open(t, [long, short])
    const decision = await app.limit.reserve({ flight: id, short: id })
    if (!decision.signal.aborted) await once(decision.signal, 'abort')
    for (let i = 0; i < 3; i++) {
      place.advance(22_000)
      renew()
      await until(async () => (await left(app)) === 30_000, 'a renewed lock')
    }
    t.same(await used({ flight: id, short: id }), [1, 0])
    await decision.release()
    t.same(await used({ flight: id, short: id }), [0, 0])
  })

  t.test(`${place.store}: a lock that was cleared aborts the signal`, async t => {
    const renew = intervalsByHand(t, RENEWAL_MS)
    const { app, used } = await place.open(t, [long, send])
    const route = waiting(app, ['flight', 'send'])
    const first = await route.enter()
    const { signal } = first.decision
    t.notOk(signal.aborted)
    await app.limit.clear({ flight: id })
    const aborted = once(signal, 'abort')
    renew()
    await aborted
    t.match(signal.reason, { name: 'AbortError' })
    t.equal(first.decision.signal, signal, 'the signal is always the same')
    const second = await route.enter()
    first.go(502)
    t.equal((await first.answer).statusCode, 502)
    t.same(
      await used({ flight: id, send: id }),
      [1, 1],
      'its slot is refunded, and the lock of the other request is held'
    )
    second.go()
    await second.answer
  })

  t.test(`${place.store}: a lock that was lost before the signal is asked for aborts it`, async t => {
    const renew = intervalsByHand(t, RENEWAL_MS)
    const { app } = await place.open(t, [long])
    const decision = await app.limit.reserve({ flight: id })
    await app.limit.clear({ flight: id })
    const thief = await app.limit.reserve({ flight: id })
    renew()
    await until(() => decision.signal.aborted, 'an aborted signal')
    t.notOk(thief.signal.aborted)
    decision.end()
    t.equal(await left(app), 30_000, 'the lock is still held by the next holder')
    thief.end()
    await until(async () => (await left(app)) === 0, 'a free lock')
    renew()
    await left(app)
    t.notOk(thief.signal.aborted, 'a lock that was released is not lost')
  })

  t.test(`${place.store}: a refund in the handler leaves the lock until the handler has ended`, async t => {
    const { app, used } = await place.open(t, [flight('30s'), send])
    const seen: number[][] = []
    app.get('/send', { config: { limit: ['flight', 'send'] } }, async (_, reply) => {
      seen.push(await used({ flight: id, send: id }))
      await reply.limit?.refund()
      seen.push(await used({ flight: id, send: id }))
      return {}
    })
    t.equal((await app.inject(`/send?id=${id}`)).statusCode, 200)
    t.same(seen, [
      [1, 1],
      [1, 0]
    ])
    await until(async () => (await left(app)) === 0, 'a free lock')
  })

  t.test(
    `${place.store}: release() frees the lock after the answer, and the slot can still be refunded`,
    async t => {
      const { app, used } = await place.open(t, [flight('30s'), send])
      let goOn = () => {}
      const gone = new Promise<void>(resolve => {
        goOn = resolve
      })
      const ended: Promise<void>[] = []
      app.get('/send', { config: { limit: ['flight', 'send'] } }, async (_, reply) => {
        const decision = reply.limit as Decision
        reply.code(202).send({})
        const rest = (async () => {
          await decision.release()
          await gone
          await decision.refund()
          await decision.release()
        })()
        ended.push(rest)
        await rest
      })
      const first = await app.inject(`/send?id=${id}`)
      t.equal(first.statusCode, 202)
      await until(async () => (await left(app)) === 0, 'a free lock')
      t.same(await used({ flight: id, send: id }), [0, 1], 'the slot is still counted')
      const second = await app.limit.reserve({ flight: id, send: id })
      t.ok(second.allowed, 'another decision gets the lock')
      goOn()
      await Promise.all(ended)
      t.same(
        await used({ flight: id, send: id }),
        [1, 1],
        'its own slot is refunded, and the lock of the other decision is held'
      )
      t.notOk(second.signal.aborted)
      second.end()
      await until(async () => (await left(app)) === 0, 'a free lock')
      t.same(await used({ flight: id, send: id }), [0, 1], 'end() keeps the slot')
    }
  )

  t.test(`${place.store}: release(), even twice, settles no slot`, async t => {
    const renew = intervalsByHand(t, RENEWAL_MS)
    const { app, used } = await place.open(t, [long, send])
    const decision = await app.limit.reserve({ flight: id, send: id })
    const { signal } = decision
    void decision.release()
    await decision.release()
    t.same(await used({ flight: id, send: id }), [0, 1], 'the lock is free after either call')
    t.ok(decision.pending, 'the slot is still pending')
    t.notOk(decision.locked)
    const thief = await app.limit.reserve({ flight: id })
    decision.end()
    await decision.refund()
    t.same(await used({ flight: id, send: id }), [1, 1], 'end() has kept the slot')
    thief.end()
    await until(async () => (await left(app)) === 0, 'a free lock')
    renew()
    await left(app)
    t.notOk(signal.aborted, 'a lock that was released is not lost')
  })

  t.test(`${place.store}: without a lock the signal never aborts`, async t => {
    const { app } = await place.open(t, [send])
    const decision = await app.limit.reserve({ send: id })
    place.advance(90_000)
    t.notOk(decision.signal.aborted)
    decision.end()
    t.notOk(decision.signal.aborted)
  })
}

t.test('a lock is lost when its time is over, though Redis has yet to answer a renewal', async t => {
  const server = await startRedis(t)
  const app = Fastify()
  t.teardown(() => {
    process.kill(server.pid, 'SIGCONT')
    return app.close()
  })
  const options = { client: server.client, secret: '0123456789abcdef', timeout: '1h' }
  await app.register(limitPlugin, { ...options, rules: [flight('300ms', '1h')] })
  await app.ready()
  const decision = await app.limit.reserve({ flight: id })
  process.kill(server.pid, 'SIGSTOP')
  if (!decision.signal.aborted) await once(decision.signal, 'abort')
  t.ok(decision.locked, 'as far as the process knows')
  process.kill(server.pid, 'SIGCONT')
  await decision.release()
})

interface Evalsha {
  evalshaBuffer(...args: unknown[]): Promise<unknown>
}

const one: Rule = { name: 'flight', key: 'all', lock: '30s' }
const handlers: Record<string, RouteHandlerMethod> = {
  'a promise': async () => 'sent',
  'a promise, behind its reply': async (_request, reply) => reply.send('sent'),
  'no promise': (_request, reply) => void reply.send('sent'),
  'no promise, later': (_request, reply) => void setImmediate(() => reply.send('sent'))
}

t.test('the reply does not wait for the release of its lock', async t => {
  const server = await startRedis(t)
  for (const [name, handler] of Object.entries(handlers)) {
    const client = new Redis(server.url) as Redis & Evalsha
    const app = appOf(t, {}, client)
    await app.register(limitPlugin, {
      ...sharedOptions(name.replace(/\W/g, '-')),
      client,
      rules: [one],
      timeout: '1h'
    })
    const held = gate()
    const { evalshaBuffer } = client
    app.get('/', { config: { limit: 'flight' } }, function (request, reply) {
      // From now on commands are held back.
      client.evalshaBuffer = async (...args) => {
        await held.opened
        return evalshaBuffer.apply(client, args)
      }
      return handler.call(this, request, reply)
    })
    const isHeld = async () => (await server.client.keys(`${name.replace(/\W/g, '-')}:*:lock`)).length === 1
    let status = 0
    void app.inject('/').then(({ statusCode }) => (status = statusCode))
    await until(() => status !== 0, `a reply of ${name}`)
    t.equal(status, 200, name)
    t.ok(await isHeld(), 'the lock is not released yet')
    held.open()
    await until(async () => !(await isHeld()), 'a lock that is released')
  }
})

t.test('`run` resolves once its lock is free', async t => {
  const server = await startRedis(t)
  const client = new Redis(server.url) as Redis & Evalsha
  const app = appOf(t, {}, client)
  await app.register(limitPlugin, { ...sharedOptions('run'), client, rules: [flight('30s')], timeout: '1h' })
  const held = gate()
  const { evalshaBuffer } = client
  let done = false
  const sent = app.limit
    .run({ flight: id }, () => {
      client.evalshaBuffer = async (...args) => {
        await held.opened
        return evalshaBuffer.apply(client, args)
      }
    })
    .then(() => (done = true))
  await until(() => client.evalshaBuffer !== evalshaBuffer, 'a message that is sent')
  for (let i = 0; i < 5; i++) await new Promise(setImmediate)
  t.notOk(done)
  held.open()
  t.ok(await sent)
})

t.test(
  'an app that closes waits for the release of a lock, so that its client may be closed next',
  async t => {
    const server = await startRedis(t)
    const client = new Redis(server.url) as Redis & Evalsha
    const app = Fastify()
    await app.register(limitPlugin, { ...sharedOptions('closing'), client, rules: [one] })
    const held = gate()
    const { evalshaBuffer } = client
    app.get('/', { config: { limit: 'flight' } }, async () => {
      client.evalshaBuffer = async (...args) => {
        await held.opened
        return evalshaBuffer.apply(client, args)
      }
      return 'sent'
    })
    await app.inject('/')
    const closed = app.close().then(() => client.disconnect())
    // More turns than the rest of the close takes.
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
    held.open()
    await closed
    t.strictSame(await server.client.keys('closing:*:lock'), [])
  }
)

import { setImmediate as turn } from 'node:timers/promises'
import { Redis, type RedisOptions } from 'ioredis'
import t, { type Test } from 'tap'
import { limitPlugin } from '../../../plugin/index.js'
import { BLOCKED, type Facts, PASSES, REFUSES } from '../../../plugin/store/facts.js'
import { Fallback, type FallbackOptions } from '../../../plugin/store/fallback.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { Outage } from '../../../plugin/store/outage.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { isKeyError } from '../../../plugin/store/redis-errors.js'
import { alone, type Reserved } from '../../../plugin/store/reserver.js'
import { RedisServer } from '../../../plugin/store/server.js'
import { StandIn } from '../../../plugin/store/stand-in.js'
import { type Entry, type Spec, type Store, type Taken, toTicks } from '../../../plugin/store/store.js'
import { locksOf } from '../../../plugin/store/taken.js'
import { watched } from '../../../plugin/store/watched.js'
import { count, entry, lock, log, named, observed, takenOf, token, usedOf } from '../../contract/specs.js'
import { appOf } from '../../helper/face.js'
import { gate } from '../../helper/gate.js'
import { type RedisServer as Server, scriptCalls, startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'

const TIMEOUT_MS = 400
const UNAVAILABLE = { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE', statusCode: 503, stack: undefined }
type Substitute = FallbackOptions['substitute']

/** Options for Redis that report nothing. */
const QUIET = {
  isRequestError: isKeyError,
  onError() {},
  onUncounted() {},
  onRefundFailed() {}
}

/** A client that goes on reconnecting, as that of @fastify/redis does. */
function connect(t: Test, { port }: Server, options: RedisOptions = {}): Redis {
  const client = new Redis(port, '127.0.0.1', {
    retryStrategy: () => 20,
    maxRetriesPerRequest: null,
    ...options
  })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  return client
}

async function open(t: Test, substitute: Substitute, redis: RedisOptions = {}) {
  const server = await startRedis(t)
  const client = connect(t, server, redis)
  const store = new RedisStore(client, 'test:')
  const changes: string[] = []
  const note = (change: string) => () => void changes.push(change)
  const hears = { onError: note('error'), onUncounted: note('uncounted'), onRefundFailed: note('kept') }
  const outage = new Outage(TIMEOUT_MS, { onLost: note('lost'), onBack: note('back') })
  const outageOf = () => outage
  const options = {
    timeout: TIMEOUT_MS,
    substitute,
    outageOf,
    isRequestError: isKeyError,
    ...hears
  }
  const fallback = new Fallback(store, options)
  t.teardown(() => fallback.close())
  return { server, client, store, fallback, changes }
}

/** Breaks a Redis in one way. @returns what repairs it */
type Break = (t: Test, server: Server) => Promise<() => Promise<unknown>>
const breaks: Record<string, Break> = {
  hangs: async (_, { pid }) => {
    process.kill(pid, 'SIGSTOP')
    return async () => process.kill(pid, 'SIGCONT')
  },
  'is gone': async (t, server) => {
    await server.kill()
    return () => startRedis(t, { port: server.port })
  },
  'answers errors': async (_, { client }) => {
    await client.config('SET', 'maxmemory', '1')
    return () => client.config('SET', 'maxmemory', '0')
  }
}

for (const [how, destroy] of Object.entries(breaks)) {
  t.test(`a Redis that ${how}`, async t => {
    await t.test('deny: decisions fail with 503 until Redis is back', async t => {
      const { server, fallback, changes } = await open(t, 'deny')
      const entries = [entry(log([1_000, 60_000])), entry(lock(1))]
      // Without the lock: while it is held Redis refuses, which needs no room.
      t.equal((await fallback.reserve(entries.slice(0, 1), token())).store.name, 'redis')
      const repair = await destroy(t, server)
      for (let i = 0; i < 3; i++) await t.rejects(fallback.reserve(entries, token()), UNAVAILABLE)
      await repair()
      const admits = () =>
        fallback.reserve(entries, token()).then(
          ({ facts }) => facts?.[1] === 1,
          () => false
        )
      await until(admits, 'an admission')
      t.strictSame(changes, ['lost', 'back'])
    })

    await t.test('memory: the stand-in memory decides until Redis is back', async t => {
      const { server, fallback, changes } = await open(t, new StandIn(new MemoryStore()))
      const entries = [entry(log([1, 60_000]))]
      const repair = await destroy(t, server)
      const first = await fallback.reserve(entries, '')
      t.strictSame([first.store.name, first.facts?.[1]], ['memory', 1])
      const second = await fallback.reserve(entries, '')
      t.strictSame([second.store.name, second.facts?.[1]], ['memory', 0])
      await first.store.refund(takenOf(entries, named(entries, first.facts ?? [])), '')
      t.equal(
        (await fallback.reserve(entries, '')).facts?.[1],
        1,
        'the slot was refunded in the memory, where it was counted'
      )
      await repair()
      await until(async () => (await fallback.reserve(entries, '')).store.name === 'redis', 'Redis')
      t.strictSame(changes, ['lost', 'back'])
    })

    await t.test(
      'memory: the stand-in memory knows what Redis has admitted and blocked for this process',
      async t => {
        const { server, store: redis, fallback } = await open(t, new StandIn(new MemoryStore()))
        const spec = log([1, 60_000])
        const [sent, refunded, blocked, notBlocked, unblocked] = [1, 2, 3, 4, 5].map(who => [
          entry(spec, who)
        ]) as [Entry[], Entry[], Entry[], Entry[], Entry[]]
        await fallback.reserve(sent, '')
        const { facts, store } = await fallback.reserve(refunded, '')
        await store.refund(takenOf(refunded, named(refunded, facts ?? [])), '')
        for (const each of [blocked, unblocked]) await fallback.store.block(each, 0)
        await redis.unblock(unblocked)
        t.equal((await fallback.reserve(unblocked, '')).facts?.[1], 1, 'unblocked by another process')
        const repair = await destroy(t, server)
        const state = async (entries: Entry[]) => {
          const { facts, store } = await fallback.reserve(entries, '')
          // A Redis that takes no writes may be asked again by now, and refuse.
          if (how !== 'answers errors') t.equal(store.name, 'memory')
          return named(entries, facts ?? []).entries[0]?.state
        }
        t.equal(await state(refunded), PASSES)
        t.equal(await state(sent), REFUSES)
        t.equal(await state(blocked), BLOCKED)
        t.equal(await state(unblocked), REFUSES)
        if (how !== 'answers errors') {
          const { store } = fallback
          const failing = [store.block(notBlocked, 0), store.clear(sent), store.unblock(blocked)]
          await Promise.all(failing.map(each => t.rejects(Promise.resolve(each), UNAVAILABLE)))
          const states = [await state(notBlocked), await state(sent), await state(blocked)]
          t.strictSame(states, [PASSES, REFUSES, BLOCKED], 'calls that failed change nothing')
        }
        await repair()
      }
    )

    await t.test('allow: decisions are allowed, and counted nowhere, until Redis is back', async t => {
      const { server, fallback, changes } = await open(t, 'allow')
      const entries = [entry(log([1, 60_000]))]
      const repair = await destroy(t, server)
      for (let i = 0; i < 3; i++) t.equal((await fallback.reserve(entries, '')).facts, null)
      await repair()
      await until(async () => (await fallback.reserve(entries, '')).facts !== null, 'Redis')
      t.strictSame(changes, ['lost', 'back'])
    })

    await t.test(
      'through the app: the statuses of deny, memory and allow, and counts in Redis afterwards',
      async t => {
        const server = await startRedis(t)
        const client = connect(t, server)
        const statuses: Record<string, number[]> = {}
        const apps = []
        for (const onStoreError of ['deny', 'memory', 'allow'] as const) {
          const app = appOf(t)
          await app.register(limitPlugin, {
            client,
            secret: '0123456789abcdef',
            prefix: `${onStoreError}:`,
            timeout: TIMEOUT_MS,
            onStoreError
          })
          const limit = { name: 'to', key: { value: 'query.to' }, limits: [{ max: 1, window: '60s' }] }
          app.get('/send', { config: { limit } }, async () => 'sent')
          await app.ready()
          apps.push({ app, onStoreError })
        }
        for (const { app } of apps) t.equal((await app.inject('/send?to=before')).statusCode, 200)
        const repair = await destroy(t, server)
        for (const { app, onStoreError } of apps) {
          const answers = [await app.inject('/send?to=a'), await app.inject('/send?to=a')]
          statuses[onStoreError] = answers.map(({ statusCode }) => statusCode)
          if (onStoreError === 'deny') t.match(answers[0]?.json(), { code: UNAVAILABLE.code })
        }
        t.strictSame(statuses, { deny: [503, 503], memory: [200, 429], allow: [200, 200] })
        t.equal((await apps[1]?.app.inject('/send?to=before'))?.statusCode, 429, 'sent before the loss')
        await repair()
        for (const { app, onStoreError } of apps) {
          let n = 0
          await until(async () => {
            const to = `b${n++}`
            const pair = [await app.inject(`/send?to=${to}`), await app.inject(`/send?to=${to}`)]
            const kept = await client.keys(`${onStoreError}:{*`)
            return pair[0]?.statusCode === 200 && pair[1]?.statusCode === 429 && kept.length > 0
          }, 'a count in Redis')
        }
        t.pass('Redis counts again')
      }
    )
  })
}

t.test('memory: the stand-in memory knows a send that Redis admitted right after a clear', async t => {
  const { server, client, fallback } = await open(t, new StandIn(new MemoryStore()))
  // So that no script has to be sent whole, which others would overtake.
  await new RedisServer(client, 'test:').load()
  const sent = [entry(log([1, 60_000]))]
  t.equal((await fallback.reserve(sent, '')).facts?.[1], 1)
  const [, again] = await Promise.all([fallback.store.clear(sent), fallback.reserve(sent, '')])
  t.strictSame([again.store.name, again.facts?.[1]], ['redis', 1])
  await server.kill()
  const { facts, store } = await fallback.reserve(sent, '')
  t.strictSame([store.name, facts?.[1]], ['memory', 0])
})

t.test('a foreign value under a key fails the calls on this key, and no others', async t => {
  const { client, fallback, changes } = await open(t, 'deny')
  const [spec, period] = [log([1, 60_000]), count(9, 'day')]
  const [odd, typed, well] = [1, 2, 3].map(who => [entry(spec, who), entry(period, who)]) as [
    Entry[],
    Entry[],
    Entry[]
  ]
  for (const entries of [odd, typed]) await fallback.reserve(entries, '')
  const keyOf = (entries: Entry[], suffix: string) => `test:{${entries[0]?.identity}}:${suffix}`
  await client.set(keyOf(odd, spec.name), 'abc')
  await client.set(keyOf(odd, period.name), 'abc')
  await client.del(keyOf(typed, spec.name))
  await client.lpush(keyOf(typed, spec.name), 'a')
  t.equal((await fallback.reserve(well, '')).facts?.[1], 1)
  for (const entries of [odd, typed]) {
    await t.rejects(fallback.reserve(entries, ''), UNAVAILABLE)
    t.equal((await fallback.reserve(well, '')).facts?.[1], 0, 'Redis goes on')
  }
  t.strictSame(changes, ['error', 'error'])
  const { store } = fallback
  const refunded = odd.map(entry => ({ entry, receipt: 1, ends: 1 }))
  for (const [call, message] of [
    [store.block(typed, 0), /WRONGTYPE/],
    [store.unblock(typed), /WRONGTYPE/],
    [store.clear(typed), /WRONGTYPE/],
    [store.refund(refunded, ''), /data string too short/]
  ] as const)
    await t.rejects(Promise.resolve(call), { ...UNAVAILABLE, cause: { message } })
})

t.test(
  'while a MULTI is open on the client, calls fail with that reason, and nothing counts as done',
  async t => {
    const { client, fallback, changes } = await open(t, 'deny')
    const [mine, other] = [[entry(log([1, 60_000]), 1)], [entry(log([1, 60_000]), 2)]]
    const facts = (await fallback.reserve(mine, '')).facts as Facts
    await client.multi({ pipeline: false })
    const refunded = fallback.store.refund(takenOf(mine, named(mine, facts)), '')
    await t.rejects(Promise.resolve(fallback.store.clear(mine)), { cause: { message: /a MULTI is open/ } })
    for (const asked of [fallback.reserve(other, ''), refunded])
      await t.rejects(Promise.resolve(asked), UNAVAILABLE)
    await client.discard()
    t.strictSame(changes, ['error'], 'reported as an error of one request, not as a loss')
    await until(async () => (await fallback.reserve(mine, '')).facts?.[1] === 1, 'the refund')
  }
)

t.test('a decision that an open MULTI has queued counts once, by its EXEC', async t => {
  const { client, store, fallback } = await open(t, new StandIn(new MemoryStore()))
  const entries = [entry(log([5, 60_000]))]
  await client.multi({ pipeline: false })
  const { facts } = await fallback.reserve(entries, '')
  t.equal(facts?.[1], 1)
  t.equal((await client.exec())?.length, 1)
  await fallback.close()
  t.strictSame(usedOf(entries, await store.peek(entries)), [1])
})

t.test('an admission by Redis that comes late', async t => {
  type Settle = (reserved: Reserved, taken: Taken[], holder: string) => unknown
  const specs = [count(5, 'month'), log([5, 60_000]), lock(60_000)]
  const late = async (t: Test, substitute: Substitute, settle: Settle = () => {}) => {
    const { server, client, store, fallback } = await open(t, substitute)
    const entries = specs.map(spec => entry(spec))
    await store.reserve([entry(log([1, 60_000]))], '')
    process.kill(server.pid, 'SIGSTOP')
    const holder = token()
    const answer = await fallback.reserve(entries, holder).then(
      async reserved => {
        const { facts } = reserved
        await settle(reserved, facts ? takenOf(entries, named(entries, facts)) : [], holder)
        return facts
      },
      error => error
    )
    process.kill(server.pid, 'SIGCONT')
    // The connection answers in order: first the late reservation, then, if any, its refund.
    for (let i = 0; i < 3; i++) await client.ping()
    const used = usedOf(entries, await store.peek(entries))
    // Its keys may be gone again by now.
    t.match(await client.info('commandstats'), /cmdstat_msetnx:calls=2,/, 'Redis counted it in the end')
    return { answer, used }
  }

  await t.test('is given back after a 503, with its lock', async t => {
    const { answer, used } = await late(t, 'deny')
    t.match(answer, UNAVAILABLE)
    t.strictSame(used, [0, 0, 0])
  })
  await t.test(
    'is kept after the message was allowed, except for its lock, which nobody would release',
    async t => {
      const { answer, used } = await late(t, 'allow')
      t.equal(answer, null)
      t.strictSame(used, [1, 1, 0])
    }
  )
  await t.test('is kept after the stand-in memory admitted', async t => {
    const { used } = await late(t, new StandIn(new MemoryStore()))
    t.strictSame(used, [1, 1, 1])
  })
  await t.test('is given back after the stand-in memory refused', async t => {
    const memory = new MemoryStore()
    memory.reserve([entry(specs[2] as Spec)], token())
    const { answer, used } = await late(t, new StandIn(memory))
    t.equal(answer[1], 0)
    t.strictSame(used, [0, 0, 0])
  })
  await t.test('is given back after the stand-in memory was full', async t => {
    const { answer, used } = await late(t, new StandIn(new MemoryStore({ maxKeys: 1 })))
    t.match(answer, { code: 'FST_SEND_LIMIT_STORE_FULL' })
    t.strictSame(used, [0, 0, 0])
  })
  await t.test('loses exactly the slots that are refunded in the stand-in memory', async t => {
    const memory = new MemoryStore()
    const { used } = await late(t, new StandIn(memory), ({ store }, [, , held], holder) =>
      store.refund([held as Taken], holder)
    )
    t.strictSame(used, [1, 1, 0], 'the lock was released')
    const { used: after } = await late(
      t,
      new StandIn(new MemoryStore()),
      ({ store }, [counted, logged], holder) => store.refund([counted as Taken, logged as Taken], holder)
    )
    t.strictSame(after, [0, 0, 1], 'the message was not sent')
  })
})

t.test('an admission whose answer is lost with its connection stays counted, and leaves no lock', async t => {
  for (const substitute of ['deny', 'allow', new StandIn(new MemoryStore())] as const) {
    const { server, client, store, fallback } = await open(t, substitute, {
      autoResendUnfulfilledCommands: false
    })
    const entries = [entry(log([5, 60_000])), entry(lock(600_000))]
    const holder = token()
    await store.reserve([entry(log([1, 60_000]))], '')
    const before = (await scriptCalls(server.client)).all
    const answer = fallback.reserve(entries, holder).catch(() => null)
    await new Promise<void>(done => process.nextTick(done))
    client.stream.pause()
    await until(async () => (await scriptCalls(server.client)).all > before, 'its call')
    client.stream.destroy()
    const reserved = await answer
    if (typeof substitute !== 'string') {
      const { facts, store } = reserved as Reserved
      await store.refund(takenOf(entries, named(entries, facts ?? [])).slice(1), holder)
    }
    const used = async () => usedOf(entries, await store.peek(entries))
    await until(async () => (await used())[1] === 0, 'the refund')
    t.strictSame(await used(), [1, 0], 'nothing knows the receipt of what it counted')
  }
})

t.test('a late admission that cannot be given back stays counted, and is reported once', async t => {
  const { server, client, store, fallback, changes } = await open(t, 'deny')
  const entries = [entry(count(5, 'month'))]
  const { facts } = await fallback.reserve(entries, '')
  await fallback.store.refund(takenOf(entries, named(entries, facts ?? [])), '')
  process.kill(server.pid, 'SIGSTOP')
  await t.rejects(fallback.reserve(entries, ''), UNAVAILABLE)
  // The connection answers in order: the late reservation, then its refund is refused.
  const forbidden = client.call('ACL', 'SETUSER', 'default', '-set')
  process.kill(server.pid, 'SIGCONT')
  await forbidden
  for (let i = 0; i < 3; i++) await client.ping()
  t.strictSame(usedOf(entries, await store.peek(entries)), [1])
  t.strictSame(changes, ['lost', 'kept'])
})

t.test('a loss is reported once, however many requests it fails', async t => {
  const { server, fallback, changes } = await open(t, 'allow')
  const entries = [entry(log([1_000, 60_000]))]
  await fallback.reserve(entries, '')
  process.kill(server.pid, 'SIGSTOP')
  await Promise.all(Array.from({ length: 20 }, () => fallback.reserve(entries, '')))
  t.strictSame(changes, ['lost'])
  process.kill(server.pid, 'SIGCONT')
  await until(async () => (await fallback.reserve(entries, '')).facts !== null, 'Redis')
  t.strictSame(changes, ['lost', 'back'])
})

t.test('while Redis is lost one request at a time asks it', async t => {
  const { server, client, fallback } = await open(t, 'allow')
  const entries = [entry(log([1_000, 60_000]))]
  await fallback.reserve(entries, '')
  process.kill(server.pid, 'SIGSTOP')
  await fallback.reserve(entries, '')
  const calls: unknown[] = []
  const { evalsha } = client
  Object.assign(client, {
    evalshaBuffer(...args: unknown[]) {
      calls.push(args)
      return Reflect.apply(evalsha, client, args)
    }
  })
  await Promise.all(Array.from({ length: 20 }, () => fallback.reserve(entries, '')))
  t.equal(calls.length, 0, 'no request asks before the time-out is over')
  await until(async () => {
    await Promise.all(Array.from({ length: 20 }, () => fallback.reserve(entries, '')))
    return calls.length > 0
  }, 'a call')
  t.equal(calls.length, 1)
  process.kill(server.pid, 'SIGCONT')
})

t.test('a peek finds out as well that Redis is lost, and that it is back', async t => {
  const { server, fallback, changes } = await open(t, 'allow')
  const entries = [entry(log([1, 60_000]))]
  t.equal((await fallback.peek(entries)).facts?.[1], 1)
  process.kill(server.pid, 'SIGSTOP')
  for (let i = 0; i < 3; i++) t.equal((await fallback.peek(entries)).facts, null)
  t.strictSame(changes, ['lost'])
  process.kill(server.pid, 'SIGCONT')
  await until(async () => (await fallback.peek(entries)).facts !== null, 'Redis')
  t.strictSame(changes, ['lost', 'back'])
})

t.test('a Redis that takes no writes is back when it admits, not when it refuses', async t => {
  const { server, fallback, changes } = await open(t, 'allow')
  const spec = log([1, 60_000])
  const [full, free] = [[entry(spec, 1)], [entry(spec, 2)]]
  await fallback.reserve(full, '')
  await server.client.config('SET', 'maxmemory', '1')
  t.equal((await fallback.reserve(free, '')).facts, null)
  await until(async () => (await fallback.reserve(full, '')).facts?.[1] === 0, 'a refusal')
  t.equal((await fallback.peek(free)).facts?.[1], 1, 'the next decision asks at once')
  t.equal((await fallback.reserve(free, '')).facts, null)
  const passed = async () => (await fallback.reserve([entry(observed(spec), 1)], '')).facts?.[1] === 1
  await until(passed, 'an admission that counts nothing')
  t.strictSame(changes, ['lost'])
  await server.client.config('SET', 'maxmemory', '0')
  await until(async () => (await fallback.reserve(free, '')).facts !== null, 'Redis')
  t.strictSame(changes, ['lost', 'back'])
})

t.test('after close, Redis still decides, and nothing stands in for it', async t => {
  for (const substitute of [new StandIn(new MemoryStore()), 'allow'] as const) {
    const { client, fallback } = await open(t, substitute)
    const entries = [entry(log([1, 60_000]))]
    await fallback.close()
    t.equal((await fallback.reserve(entries, token())).store.name, 'redis', 'Redis still decides')
    client.disconnect()
    await t.rejects(fallback.reserve(entries, token()), UNAVAILABLE)
    await t.rejects(fallback.peek(entries), UNAVAILABLE)
  }
})

t.test('close closes both stores, once the refunds under way have ended', async t => {
  const closed: string[] = []
  const refunded = gate()
  class Closing extends MemoryStore {
    constructor(private readonly who: string) {
      super()
    }

    override close(): void {
      closed.push(this.who)
      super.close()
    }
  }
  class Primary extends Closing {
    override refund(...given: Parameters<MemoryStore['refund']>): Promise<void> {
      return refunded.opened.then(() => super.refund(...given))
    }
  }
  const outage = new Outage(TIMEOUT_MS)
  const fallback = new Fallback(new Primary('the primary') as Store, {
    timeout: TIMEOUT_MS,
    substitute: new StandIn(new Closing('the other')),
    outageOf: () => outage,
    isRequestError: isKeyError,
    onError() {},
    onUncounted() {},
    onRefundFailed() {}
  })
  const entries = [entry(log([1, 60_000]))]
  const { facts, store } = await fallback.reserve(entries, '')
  const refunding = store.refund(takenOf(entries, named(entries, facts ?? [])), '')
  const closing = fallback.close()
  await turn()
  t.strictSame(closed, [])
  refunded.open()
  await Promise.all([refunding, closing])
  t.strictSame(closed, ['the primary', 'the other'])
})

t.test('the other calls of the store fail after the time-out as well', async t => {
  const { server, store, fallback } = await open(t, 'deny')
  const held = entry(lock(60_000))
  const entries = [held]
  const holder = token()
  await fallback.reserve(entries, holder)
  t.equal(await fallback.store.renew(held, holder), true)
  process.kill(server.pid, 'SIGSTOP')
  const { store: inTime } = fallback
  await t.rejects(Promise.resolve(inTime.peek(entries)), UNAVAILABLE)
  await t.rejects(Promise.resolve(inTime.renew(held, holder)), UNAVAILABLE)
  await t.rejects(Promise.resolve(inTime.clear([])), UNAVAILABLE)
  await t.rejects(Promise.resolve(inTime.block([], 0)), UNAVAILABLE)
  await t.rejects(Promise.resolve(inTime.unblock([])), UNAVAILABLE)
  await t.rejects(Promise.resolve(inTime.refund(locksOf(entries), holder)), UNAVAILABLE)
  process.kill(server.pid, 'SIGCONT')
  t.equal(inTime.name, store.name)
})

t.test('a store without a substitute decides alone', async t => {
  const memory = new MemoryStore()
  const reserver = alone(memory)
  const entries = [entry(log([1, 60_000]))]
  const reserved = reserver.reserve(entries, '')
  t.notOk(reserved instanceof Promise, 'memory answers at once')
  t.match(reserved, { store: memory, facts: { 1: 1 } })
  const { client } = await startRedis(t)
  const redis = alone(new RedisStore(client, 'test:'))
  t.equal((await redis.reserve(entries, '')).facts?.[1], 1)
  await reserver.close()
  await redis.close()
})

t.test(
  'an answer ends the outage of the node its hash slot moved to, if that began after the call',
  async t => {
    for (const lost of ['before', 'meanwhile']) {
      const [from, to] = [new Outage(TIMEOUT_MS, {}, 'from'), new Outage(TIMEOUT_MS, {}, 'to')]
      const fail = (when: string) => {
        if (when === lost) to.failed(new Error('gone'))
      }
      let owner = from
      const memory = new MemoryStore()
      const primary = Object.assign(Object.create(memory) as MemoryStore, {
        reserve: async (entries: readonly Entry[], holder: string) => {
          await turn()
          fail('meanwhile')
          owner = to
          return memory.reserve(entries, holder)
        }
      })
      const options = { timeout: TIMEOUT_MS, ...QUIET }
      const fallback = new Fallback(primary, { ...options, substitute: 'deny', outageOf: () => owner })
      t.teardown(() => fallback.close())
      fail('before')
      t.equal((await fallback.reserve([entry(log([1, 60_000]))], '')).facts?.[1], 1)
      t.equal(to.lost, lost === 'before', lost)
    }
  }
)

t.test('a Redis that takes no writes is in an outage, whatever it has answered meanwhile', async t => {
  const memory = new MemoryStore()
  const refused = gate()
  let asked = 0
  const primary = Object.assign(Object.create(memory) as MemoryStore, {
    async reserve(entries: readonly Entry[], holder: string) {
      if (++asked > 1) return memory.reserve(entries, holder)
      await refused.opened
      throw new Error("OOM command not allowed when used memory > 'maxmemory'.")
    }
  })
  const outage = new Outage(10_000)
  const options = { timeout: 10_000, ...QUIET }
  const fallback = new Fallback(primary, { ...options, substitute: 'deny', outageOf: () => outage })
  t.teardown(() => fallback.close())
  const first = fallback.reserve([entry(log([1, 60_000]))], '')
  await fallback.reserve([entry(log([1, 60_000]))], '')
  refused.open()
  await t.rejects(first, UNAVAILABLE)
  t.ok(outage.lost)
})

t.test('a value that is too short to be read fails the calls on its key alone', async t => {
  const { client, fallback, changes } = await open(t, 'deny')
  const [foreign, mine] = [entry(count(1, 'day')), entry(log([1, 60_000]))]
  // The end of a period, without its numbers.
  const short = Buffer.alloc(6)
  short.writeUIntBE(toTicks(Date.now() + 3_600_000), 0, 6)
  await client.set(`test:{${foreign.identity}}:${foreign.spec.name}`, short)
  await t.rejects(fallback.peek([foreign]), UNAVAILABLE)
  t.equal((await fallback.reserve([mine], '')).store.name, 'redis')
  t.strictSame(changes, ['error'])
})

t.test(
  'memory: a clear in Redis clears the stand-in memory, even when it catches up before the answer',
  async t => {
    const standIn = new StandIn(new MemoryStore())
    const { server, fallback } = await open(t, standIn)
    const sent = [entry(log([1, 60_000]))]
    t.equal((await fallback.reserve(sent, '')).facts?.[1], 1)
    const cleared = fallback.store.clear(sent)
    // As it does each second, and at each request to a lost node of a cluster.
    standIn.caughtUp()
    await cleared
    await server.kill()
    const { facts, store } = await fallback.reserve(sent, '')
    t.strictSame([store.name, facts?.[1]], ['memory', 1])
  }
)

t.test(
  'memory: a decision waits until the noted sends are counted, one turn of the event loop at a time',
  async t => {
    const standIn = new StandIn(new MemoryStore())
    const primary = new MemoryStore()
    const outage = new Outage(10_000)
    const options = { timeout: 10_000, ...QUIET }
    const fallback = new Fallback(primary, { ...options, substitute: standIn, outageOf: () => outage })
    t.teardown(() => fallback.close())
    const spec = log([1, 60_000])
    const [others, mine] = [[entry(spec, 1)], [entry(spec, 2)]]
    const { facts } = await fallback.reserve(mine, '')
    for (let i = 1; i < 2 ** 14; i++) standIn.note(others, facts ?? [], primary, 0)
    outage.failed(new Error('gone'))
    let turns = 0
    setImmediate(() => turns++)
    const decided = await fallback.reserve(mine, '')
    t.strictSame([decided.store.name, decided.facts?.[1], turns], ['memory', 0, 1])
  }
)

t.test('memory: an admission that was asked for before a block does not end the block', async t => {
  const primary = new MemoryStore()
  const answered = gate()
  let lost = false
  const slow: Store = {
    ...watched(primary, () => {}),
    name: 'redis',
    async reserve(entries, token): Promise<Facts> {
      if (lost) throw new Error('gone')
      const facts = primary.reserve(entries, token)
      await answered.opened
      return facts
    }
  }
  const outage = new Outage(10_000)
  const substitute = new StandIn(new MemoryStore())
  const fallback = new Fallback(slow, {
    timeout: 10_000,
    substitute,
    outageOf: () => outage,
    ...QUIET
  })
  t.teardown(() => fallback.close())
  const entries = [entry(log([5, 60_000]))]
  const asked = fallback.reserve(entries, '')
  await fallback.store.block(entries, 0)
  answered.open()
  t.equal((await asked).facts?.[1], 1)
  lost = true
  const { facts, store } = await fallback.reserve(entries, '')
  t.equal(store.name, 'memory')
  t.equal(named(entries, facts ?? []).entries[0]?.state, BLOCKED)
})

import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { type DecisionEvent, limitPlugin, type Rule, type SendLimitOptions } from '../../../plugin/index.js'
import { Cluster } from '../../../plugin/store/cluster.js'
import { REFUSES, UNKNOWN } from '../../../plugin/store/facts.js'
import { Fallback } from '../../../plugin/store/fallback.js'
import { Outage } from '../../../plugin/store/outage.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { isKeyError } from '../../../plugin/store/redis-errors.js'
import { RefusalCache } from '../../../plugin/store/refusal-cache.js'
import { alone } from '../../../plugin/store/reserver.js'
import type { Entry, Spec } from '../../../plugin/store/store.js'
import {
  count,
  distinct,
  entry,
  lock,
  log,
  named,
  oneRule,
  replaced,
  sentTo,
  takenOf,
  token
} from '../../contract/specs.js'
import { clusterOf } from '../../helper/cluster.js'
import { appOf } from '../../helper/face.js'
import { gate } from '../../helper/gate.js'
import { logStream } from '../../helper/log-stream.js'
import { scriptCalls, startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'
import { sharedOptions } from '../settlement/places.js'

const { client, clock, url } = await startRedis(t, { clock: true })
const key = { value: 'query.to' } as const
const one: Rule = { name: 'one', key, limits: [{ max: 1, window: '60s' }] }
let prefixes = 0

function advance(ms: number): void {
  clock.advance(ms)
}

/** How many script calls Redis has had. */
const calls = async () => (await scriptCalls(client)).all

/** An app on this Redis, with the route `/send?to=…`. With `fail` in the query its handler answers 502. */
async function open(t: Test, rules: Rule[], options: Partial<SendLimitOptions> = {}) {
  const events: DecisionEvent[] = []
  const { lines, stream } = logStream()
  const connection = new Redis(url)
  const app = appOf(t, { logger: { level: 'debug', stream } }, connection)
  await app.register(limitPlugin, {
    ...sharedOptions(`cache${prefixes++}`),
    client: connection,
    refusalCache: '1s',
    clock: { monotonic: () => clock.now(), wall: () => clock.now() },
    rules,
    onDecision: event => void events.push(event),
    ...options
  })
  app.get('/send', { config: { limit: rules.map(({ name }) => name) } }, async ({ query }, reply) =>
    reply.code('fail' in (query as object) ? 502 : 200).send('')
  )
  await app.ready()
  /** The status of a request, what decided it, and how many scripts Redis ran for it. */
  async function send(query = 'to=a') {
    const before = await calls()
    const reply = await app.inject(`/send?${query}`)
    return {
      status: reply.statusCode,
      by: events.at(-1)?.store,
      trips: (await calls()) - before,
      reply
    }
  }
  const told = async (query?: string) => {
    const { status, by, trips } = await send(query)
    return `${status} ${by} ${trips}`
  }
  return { app, events, lines, send, told }
}

t.test(
  'what Redis refused is refused from the cache, without a trip, for at most the given time',
  async t => {
    const { send, told, lines, events } = await open(t, [one])
    t.equal(await told(), '200 redis 1')
    advance(100)
    const first = await send()
    t.same([first.status, first.by, first.trips], [429, 'redis', 1])
    const same = await send()
    t.same([same.status, same.by, same.trips], [429, 'cache', 0])
    for (const name of ['retry-after', 'ratelimit', 'ratelimit-policy'])
      t.equal(same.reply.headers[name], first.reply.headers[name], name)
    t.same(same.reply.json(), first.reply.json())
    const logged = lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'refused by limit')
    t.same(
      logged.map(({ level }) => level),
      [30, 20],
      'refusals are logged at info, then at debug'
    )
    t.same(logged[1].limit, logged[0].limit)
    t.match(events.at(-1), {
      allowed: false,
      refusal: 'exceeded',
      store: 'cache',
      violated: [{ rule: 'one' }]
    })

    advance(999)
    const later = await send()
    t.same([later.status, later.by, later.trips], [429, 'cache', 0])
    t.equal(
      later.reply.json().retryAfterMs,
      first.reply.json().retryAfterMs - 999,
      'the waiting time counts down'
    )
    advance(1)
    t.equal(await told(), '429 redis 1', 'the time in the cache is over')
    t.equal(await told(), '429 cache 0', 'it begins anew')
    t.equal(await told('to=b'), '200 redis 1', 'another key')
  }
)

t.test(
  'without the option Redis is asked for every refusal, and the memory store ignores the option',
  async t => {
    const { told } = await open(t, [one], { refusalCache: undefined } as object)
    t.same([await told(), await told(), await told()], ['200 redis 1', '429 redis 1', '429 redis 1'])
    const app = appOf(t)
    await app.register(limitPlugin, { rules: [one], refusalCache: '1s' })
    app.get('/send', { config: { limit: 'one' } }, async () => '')
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await app.inject('/send?to=a')).statusCode)
    t.same(statuses, [200, 429, 429])
  }
)

t.test('a refusal is never kept past the instant at which its slot returns', async t => {
  const { told } = await open(t, [one], { refusalCache: '1m' })
  await told()
  advance(59_999)
  t.equal(await told(), '429 redis 1')
  t.equal(await told(), '429 cache 0')
  advance(1)
  t.equal(await told(), '200 redis 1', 'the slot has returned')

  const day: Rule = { name: 'day', key, limits: [{ max: 1, per: 'day' }] }
  const calendar = await open(t, [day], { refusalCache: '1m' })
  clock.set(Date.UTC(2026, 5, 1, 23, 59, 59, 900))
  t.same([await calendar.told(), await calendar.told(), await calendar.told()].slice(1), [
    '429 redis 1',
    '429 cache 0'
  ])
  advance(100)
  t.equal(await calendar.told(), '200 redis 1', 'the day has begun')
})

t.test('of several limits that refuse, each refuses from the cache only until its slot returns', async t => {
  const mail: Rule = {
    ...one,
    limits: [
      { max: 1, window: '10s' },
      { max: 1, window: '60s' }
    ]
  }
  const { send, told } = await open(t, [mail], { refusalCache: '1m' })
  await told()
  await told()
  const { reply, by } = await send()
  t.equal(by, 'cache')
  t.same(reply.json()['violated-policies'], ['one-10s', 'one-60s'])
  advance(10_000)
  const later = await send()
  t.equal(later.by, 'redis')
  t.same(later.reply.json()['violated-policies'], ['one-60s'])
  t.equal(await told(), '429 cache 0')
})

t.test('what ends a refusal in this process ends it in the cache at once', async t => {
  const { app, told } = await open(t, [one])
  const keys = { one: 'a' }
  const full = async () => {
    await told()
    await told()
    t.equal(await told(), '429 cache 0')
  }
  await full()
  await app.limit.clear(keys)
  t.equal(await told(), '200 redis 1', 'after a clear')
  await full()
  await app.limit.clear(keys)

  const decision = await app.limit.reserve(keys)
  await full()
  await decision.refund()
  t.equal(await told(), '200 redis 1', 'after a refund')
  await app.limit.clear(keys)

  const unheard = await app.limit.reserve(keys)
  await full()
  void unheard.refund()
  t.match(await told(), /^200 redis/, 'even before the refund is done')

  await app.limit.block(keys)
  const blocked = [await told(), await told()]
  t.same(blocked, ['403 redis 1', '403 cache 0'], 'a block begins at once, and is kept in the cache as well')
  await app.limit.unblock(keys)
  t.equal(await told(), '429 redis 1', 'after an unblock')
  await app.limit.clear(keys)
  t.equal(await told(), '200 redis 1')

  await full()
  app.limit.replace([{ ...one, limits: [{ max: 2, window: '60s' }] }])
  t.equal(await told(), '200 redis 1', 'after a replace of the rules')
})

t.test('a send that fails in this process frees its slot for the next', async t => {
  const { app, told } = await open(t, [one])
  const slot = await app.limit.reserve({ one: 'a' })
  t.same([await told(), await told()], ['429 redis 1', '429 cache 0'])
  await slot.refund()
  t.equal(await told('to=a&fail'), '502 redis 2', 'admitted, failed and refunded')
  t.equal(await told(), '200 redis 1')
  t.same([await told(), await told()], ['429 redis 1', '429 cache 0'])
})

t.test('a refund that succeeds at a later try, after it was reported as failed, ends a refusal', async t => {
  const server = await startRedis(t)
  const timeout = 200
  const { app, events } = await open(t, [one], { client: server.client, refusalCache: '1m', timeout })
  const told = async () => {
    const { statusCode } = await app.inject('/send?to=a')
    return `${statusCode} ${events.at(-1)?.store}`
  }
  const slot = await app.limit.reserve({ one: 'a' })
  await server.client.replicaof('127.0.0.1', '1')
  await slot.refund()
  t.notOk(slot.refunded, 'a replica takes no refund')
  t.equal(await told(), '429 redis')
  // The last of the tries for which the refund has waited may still be under way: it ends a refusal as well.
  await until(async () => (await told()) === '429 cache', 'a refusal by the cache')
  await server.client.replicaof('NO', 'ONE')
  await until(async () => (await app.limit.peek({ one: 'a' })).allowed, 'the refund')
  t.equal(await told(), '200 redis')
})

t.test('what ends a refusal in another process ends it here within the time of the cache', async t => {
  const prefix = { prefix: 'two:' }
  const here = await open(t, [one], prefix)
  const there = await open(t, [one], prefix)
  const keys = { one: 'a' }
  const slot = await there.app.limit.reserve(keys)
  t.same([await here.told(), await here.told()], ['429 redis 1', '429 cache 0'])
  await slot.refund()
  advance(999)
  t.equal(await here.told(), '429 cache 0', 'the cache has not heard of the refund')
  advance(1)
  t.equal(await here.told(), '200 redis 1')
  await there.app.limit.block(keys)
  t.equal(await here.told(), '403 redis 1', 'Redis is asked whenever the cache does not refuse')
  t.equal(await here.told(), '403 cache 0')
  await there.app.limit.unblock(keys)
  await there.app.limit.clear(keys)
  advance(1_000)
  t.equal(await here.told(), '200 redis 1')
})

t.test('limits that come with the request, observed rules and locks never refuse from the cache', async t => {
  const dynamic: Rule = { ...one, limits: [{ max: () => 1, ceiling: 5, window: '60s' }] }
  const zoned: Rule = { ...one, limits: [{ max: 1, per: 'day', timeZone: () => 'Asia/Shanghai' }] }
  for (const rule of [dynamic, zoned]) {
    const { send } = await open(t, [rule])
    const seen = [await send(), await send(), await send()].map(({ status, by }) => `${status} ${by}`)
    t.same(seen, ['200 redis', '429 redis', '429 redis'])
  }
  // Refused by the limit whose time zone comes with the request, then by the other limit alone.
  for (const max of [1, 2]) {
    const limits: Rule['limits'] = [
      { max, per: 'hour', timeZone: () => 'UTC' },
      { max: 1, per: 'day' }
    ]
    const { told } = await open(t, [{ ...one, limits }])
    t.same([await told(), await told(), await told()].slice(1), ['429 redis 1', '429 redis 1'])
  }
  const observed = await open(t, [{ ...one, mode: 'observe' }])
  for (let i = 0; i < 3; i++) t.equal(await observed.told(), '200 redis 1')
  t.match(observed.events.at(-1), { observed: [{ rule: 'one' }] })
  const watched = await open(t, [{ ...dynamic, name: 'seen', mode: 'observe' }, one])
  t.same([await watched.told(), await watched.told(), await watched.told()].slice(1), [
    '429 redis 1',
    '429 cache 0'
  ])

  const flight: Rule = { name: 'flight', key, lock: '10m' }
  const locked = await open(t, [flight, { ...one, limits: [{ max: 5, window: '60s' }] }])
  const held = await locked.app.limit.reserve({ flight: 'a' })
  t.same([await locked.told(), await locked.told()], ['409 redis 1', '409 redis 1'])
  held.end()
  t.match(await locked.told(), /^200 redis/)

  const both = await open(t, [flight, one])
  const holder = await both.app.limit.reserve({ flight: 'a', one: 'a' })
  t.same(
    [await both.told(), await both.told()],
    ['429 redis 1', '429 redis 1'],
    'the answer holds the waiting time of the lock'
  )
  await holder.release()
  t.match([await both.told(), await both.told()], ['429 redis 1', '429 cache 0'])
})

t.test('an observed rule beside a cached refusal is reported as Redis reported it', async t => {
  const watched: Rule = { name: 'watched', key, mode: 'observe', limits: [{ max: 1, window: '10s' }] }
  const { app, told, events } = await open(t, [watched, one], { refusalCache: '1m' })
  for (let i = 0; i < 3; i++) await told()
  t.match(events.slice(1), [{ store: 'redis' }, { store: 'cache' }])
  t.strictSame(events[2]?.observed, events[1]?.observed)
  t.strictSame(events[2]?.rules, events[1]?.rules)
  advance(10_000)
  await told()
  t.same([events[3]?.store, events[3]?.observed], ['redis', []])
  await app.limit.clear({ one: 'a' })
  for (let i = 0; i < 2; i++) await told()
  await app.limit.clear({ one: 'a' })
  t.equal(await told(), '200 redis 1', 'the observed rule alone refuses nothing')
})

t.test(
  'after Redis has refused with a new state of an observed rule, the cache reports the new state',
  async t => {
    const watched: Rule = { ...one, name: 'watched', mode: 'observe' }
    const options = { prefix: 'anew:', refusalCache: '1m' }
    const { app } = await open(t, [one, watched], options)
    const { app: elsewhere } = await open(t, [one, watched], options)
    const ask = async (keys: Record<string, string>) => {
      const { store, observed } = await app.limit.reserve(keys)
      return `${store} ${observed.map(({ rule }) => rule)}`
    }
    t.equal(await ask({ one: 'a', watched: 'a' }), 'redis ')
    for (const store of ['redis', 'cache']) t.equal(await ask({ one: 'a', watched: 'a' }), `${store} watched`)
    await elsewhere.limit.reserve({ one: 'b' })
    await elsewhere.limit.clear({ watched: 'a' })
    t.equal(await ask({ one: 'b', watched: 'a' }), 'redis ', 'the refusal of another key had to be asked for')
    t.equal(await ask({ one: 'b', watched: 'a' }), 'cache ')
  }
)

t.test('after a clear Redis is asked at once, even before the clear is done', async t => {
  const { app } = await open(t, [one], { refusalCache: '1m' })
  const ask = () => app.limit.reserve({ one: 'a' })
  for (const allowed of [true, false]) t.match(await ask(), { store: 'redis', allowed })
  t.match(await ask(), { store: 'cache', allowed: false })
  const cleared = app.limit.clear({ one: 'a' })
  t.match(await ask(), { store: 'redis', allowed: true })
  await cleared
})

t.test(
  'after Redis has admitted with a new state of an observed rule, the cache reports the new state',
  async t => {
    const watched: Rule = { ...one, name: 'watched', mode: 'observe', limits: [{ max: 2, window: '60s' }] }
    const options = { prefix: 'anew-admitted:', refusalCache: '1m', onStoreError: 'memory' } as const
    const { app } = await open(t, [watched, one], options)
    const { app: elsewhere } = await open(t, [watched, one], options)
    const ask = async (keys: Record<string, string>) => {
      const { store, allowed, observed } = await app.limit.reserve(keys)
      return `${store} ${allowed} ${observed.map(({ rule }) => rule)}`
    }
    t.equal(await ask({ watched: 'a', one: 'a' }), 'redis true ')
    t.equal(await ask({ watched: 'a' }), 'redis true ')
    for (const store of ['redis', 'cache'])
      t.equal(await ask({ watched: 'a', one: 'a' }), `${store} false watched`)
    await elsewhere.limit.clear({ watched: 'a' })
    t.equal(await ask({ watched: 'a', one: 'c' }), 'redis true ', 'one of two is used')
    t.equal(await ask({ watched: 'a', one: 'a' }), 'cache false ')
  }
)

t.test(
  'a key that is refused under one set of rules is refused from the cache under every other',
  async t => {
    const mail: Rule = {
      name: 'mail',
      key: { value: 'query.mail' },
      optional: true,
      limits: [{ max: 5, window: '1h' }]
    }
    const wide: Rule = { name: 'wide', key: 'ip', limits: [{ max: 50, window: '1h' }] }
    const { send, events } = await open(t, [mail, one, wide])
    await send('to=a&mail=m')
    const first = await send('to=a&mail=m')
    const again = await send('to=a&mail=m')
    t.equal(again.by, 'cache')
    t.equal(
      again.reply.headers.ratelimit,
      first.reply.headers.ratelimit,
      'the same headers under the same rules'
    )
    const other = await send('to=a&mail=n')
    t.same([other.status, other.by, other.trips], [429, 'cache', 0])
    t.equal(other.reply.headers.ratelimit, first.reply.headers.ratelimit)
    t.strictSame(
      events.at(-1)?.rules.map(({ name }) => name),
      ['one', 'wide'],
      'the rule with another key is not reported'
    )
    const none = await send('to=a')
    t.same([none.status, none.by], [429, 'cache'])
  }
)

t.test('the cache keeps no replaced rule from being collected', async t => {
  const wide: Rule = { name: 'wide', key: 'ip', limits: [{ max: 50, window: '1h' }] }
  const { app, send } = await open(t, [one, wide])
  const replaced = async () => {
    const rules = [{ ...one }, { ...wide }]
    app.limit.replace(rules)
    await send()
    await send()
    t.equal((await send()).by, 'cache')
    return rules.map(rule => new WeakRef(rule))
  }
  const gone = await replaced()
  app.limit.replace([one, wide])
  await send('to=b')
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc')
  // What a promise held just before may need another turn.
  for (let i = 0; i < 10 && gone.some(rule => rule.deref()); i++) {
    await turn()
    collect()
  }
  t.same(
    gone.map(rule => rule.deref()),
    [undefined, undefined]
  )
})

t.test('a cached refusal names every rule known to refuse, and the longest waiting time', async t => {
  const long: Rule = { name: 'long', key: { value: 'query.mail' }, limits: [{ max: 1, window: '1h' }] }
  const { app, send } = await open(t, [one, long])
  await send('to=a&mail=m')
  await send('to=a&mail=x')
  await send('to=y&mail=m')
  const { by, reply } = await send('to=a&mail=m')
  t.equal(by, 'cache', 'put together from two refusals by Redis')
  t.same(reply.json()['violated-policies'], ['one', 'long'])
  t.equal(reply.json().retryAfterMs, 3_600_000)
  await app.limit.clear({ long: 'm' })
  const less = await send('to=a&mail=m')
  t.same([less.by, less.reply.json()['violated-policies']], ['cache', ['one']])
})

t.test('a rule that counts attempts is refused from the cache at the attempts stage', async t => {
  const { told, events } = await open(t, [{ ...one, counts: 'attempts' }])
  t.same([await told(), await told(), await told()], ['200 redis 1', '429 redis 1', '429 cache 0'])
  t.match(events.at(-1), { stage: 'attempts' })
})

t.test('a rule whose max comes with the request is not reported beside a cached refusal', async t => {
  const plan: Rule = {
    name: 'plan',
    key,
    limits: [
      {
        max: (request: FastifyRequest) => Number((request.query as { max?: string }).max ?? 1),
        ceiling: 9,
        window: '1h'
      }
    ]
  }
  const { send, told } = await open(t, [one, plan])
  await told('to=a&max=5')
  t.equal(await told('to=a&max=5'), '429 redis 1')
  const { by, reply } = await send('to=a&max=1')
  t.equal(by, 'cache')
  t.same(reply.json()['violated-policies'], ['one'])
  const day: Rule = { name: 'day', key, limits: [{ max: 1, per: 'day', timeZone: () => 'UTC' }] }
  for (const other of [plan, day]) {
    const strict = await open(t, [one, other])
    await strict.told()
    t.same(
      [await strict.told(), await strict.told()],
      ['429 redis 1', '429 redis 1'],
      'when it refuses, the answer holds its waiting time'
    )
  }
})

/** The cache over a plain store, without rules and routes. */
function layer() {
  const cache = new RefusalCache({ ms: 1_000, clock: { monotonic: () => clock.now() } })
  const reserver = cache.over(alone(cache.watch(new RedisStore(client, 'layer:'))))
  const by = async (entries: readonly Entry[]) => {
    const { store, facts } = await reserver.reserve(entries, token())
    return `${store.name} ${facts?.[1]}`
  }
  return { cache, reserver, by }
}

t.test(
  'under a limit on different values, only a value that Redis refused is refused from the cache',
  async t => {
    const { by, reserver } = layer()
    const spec = distinct([1, 60_000])
    const first = [sentTo(spec, 1)]
    await reserver.reserve(first, '')
    t.same([await by([sentTo(spec, 2)]), await by([sentTo(spec, 2)])], ['redis 0', 'cache 0'])
    t.equal(await by([sentTo(spec, 3)]), 'redis 0', 'another value')
    t.equal(await by(first), 'redis 1', 'the counted value passes')
    t.equal(await by([sentTo(spec, 3)]), 'cache 0')
    await reserver.store.clear([entry(spec)])
    t.equal(await by([sentTo(spec, 3)]), 'redis 1', 'a clear ends the refusals of all values')
  }
)

t.test(
  'the cache gives the facts of Redis, and shortens the waiting times by the time that has passed',
  async t => {
    const { reserver } = layer()
    const [tight, some] = [log([1, 60_000], [5, 500]), log([5, 500])]
    const entries = [tight, some, count(9, 'hour'), log([5, 60_000])].map(spec => entry(spec))
    await reserver.reserve(entries.slice(0, 3), '')
    advance(100)
    const [first, second] = [await reserver.reserve(entries, ''), await reserver.reserve(entries, '')]
    t.equal(second.store.name, 'cache')
    t.strictSame(second.facts, first.facts)
    advance(900)
    const { store, facts } = await reserver.reserve(entries, '')
    t.equal(store.name, 'cache')
    const resets = named(entries, facts ?? []).entries.map(({ limits }) => limits.map(({ reset }) => reset))
    t.match(resets, [[5_900_000, 1], [1], [Number], [0]])
    t.equal(facts?.[0], (first.facts?.[0] ?? 0) + 90_000, 'the time of the facts goes on')
  }
)

t.test('when a block and a limit refuse, Redis is asked again once the first of them is over', async t => {
  const own = { now: 0, monotonic: () => own.now }
  const cache = new RefusalCache({ ms: 60_000, clock: own })
  const reserver = cache.over(alone(cache.watch(new RedisStore(client, 'blocked:'))))
  const entries = [entry(log([9, 60_000], [1, 10_000]))]
  await reserver.reserve(entries, '')
  for (const [blocked, over] of [
    [30_000, 10_000],
    [5_000, 5_000]
  ] as const) {
    await reserver.store.block(entries, blocked)
    await reserver.reserve(entries, '')
    own.now += over - 1
    t.equal((await reserver.reserve(entries, '')).store.name, 'cache')
    own.now++
    t.equal((await reserver.reserve(entries, '')).store.name, 'redis')
  }
})

t.test('a clear of one rule ends no refusal of another rule, and leaves nothing in the cache', async t => {
  const { cache, reserver, by } = layer()
  const [first, second] = [entry(log([1, 60_000])), entry(log([1, 60_000]))]
  for (const each of [first, second])
    for (const expected of ['redis 1', 'redis 0']) t.equal(await by([each]), expected)
  await reserver.store.clear([first])
  t.equal(await by([second]), 'cache 0')
  await reserver.store.clear([second])
  t.equal(cache.size, 0)
})

t.test('after a clear of one key, a cached refusal no longer says anything of this key', async t => {
  const { reserver } = layer()
  const spec = log([1, 60_000])
  const [a, b] = [entry(spec, 'a'), entry(spec, 'b')]
  await reserver.reserve([a, b], '')
  await Promise.all([[a, b], [b]].map(entries => reserver.reserve(entries, '')))
  await reserver.store.clear([b])
  const { store, facts } = await reserver.reserve([a, b], '')
  t.same([store.name, facts?.[2], facts?.[6]], ['cache', REFUSES, UNKNOWN])
})

t.test('Redis is asked for a decision whose max comes with the request', async t => {
  const { by } = layer()
  const spec = log([1, 60_000])
  for (const expected of ['redis 1', 'redis 0', 'cache 0']) t.equal(await by([entry(spec)]), expected)
  t.equal(await by([entry(spec, 'a', [2])]), 'redis 1')
})

t.test('when the cache is full, the key that was refused last is forgotten last', async t => {
  const cache = new RefusalCache({ ms: 1_000, clock: { monotonic: () => clock.now() }, maxKeys: 2 })
  const reserver = cache.over(alone(new RedisStore(client, 'late:')))
  const spec = log([1, 60_000])
  const by = async (who: string) => (await reserver.reserve([entry(spec, who)], '')).store.name
  for (const who of ['a', 'b', 'c']) await by(who)
  await by('a')
  await by('b')
  advance(1_000)
  for (const who of ['a', 'c']) t.equal(await by(who), 'redis')
  t.same([await by('a'), await by('c'), await by('b')], ['cache', 'cache', 'redis'])
})

t.test('a flood of different keys stays within the bound of the cache', async t => {
  const { cache, reserver, by } = layer()
  const spec = log([1, 60_000])
  const entries = Array.from({ length: 100_000 }, (_, i) => entry(spec, i))
  for (let i = 0; i < entries.length; i += 200) {
    const some = entries.slice(i, i + 200)
    for (const expected of [1, 0])
      if ((await reserver.reserve(some, '')).facts?.[1] !== expected) t.fail('admitted once')
  }
  t.equal(cache.size, 10_000)
  t.equal(await by(entries.slice(-1)), 'cache 0', 'the newest are known')
  t.equal(await by(entries.slice(0, 1)), 'redis 0', 'the oldest were forgotten')
  t.equal(cache.size, 9_000, 'a tenth of the keys is forgotten at once')
  t.equal(await by(entries.slice(-9_000)), 'cache 0', 'no other keys were forgotten')
  await client.flushall()
})

t.test(
  'a refusal asked for before a refund is not kept, and the release of a lock changes nothing',
  async t => {
    const { reserver, by } = layer()
    const entries = [entry(log([1, 60_000])), entry(count(9, 'day'))]
    const { facts } = await reserver.reserve(entries, '')
    const taken = takenOf(entries, named(entries, facts ?? []))
    // One connection: Redis refuses first, then gives back.
    const refused = reserver.reserve(entries, '')
    const given = reserver.store.refund(taken, '')
    t.equal((await refused).facts?.[1], 0)
    await given
    t.equal(await by(entries), 'redis 1')
    const again = reserver.reserve(entries, '')
    await reserver.store.refund([{ entry: entry(lock(1_000)), receipt: 1, ends: 0 }], token())
    t.equal((await again).store.name, 'redis')
    t.equal(await by(entries), 'cache 0', 'the release of a lock ends no refusal')
  }
)

/** A cache in front of Redis, whose answers arrive late while they are held back. */
function slowly() {
  const cache = new RefusalCache({ ms: 1_000, clock: { monotonic: () => clock.now() } })
  const store = new RedisStore(client, 'way:')
  const { reserve, ...rest } = alone(cache.watch(store))
  let way = Promise.resolve()
  /** Asks, and holds back the answer. @returns how to let it arrive */
  const held = (entries: readonly Entry[]) => {
    const told = gate()
    way = told.opened
    const answer = reserver.reserve(entries, '')
    way = Promise.resolve()
    return async () => {
      told.open()
      return (await answer).facts
    }
  }
  const reserver = cache.over({
    reserve: async (...asked) => {
      const answered = way
      const reserved = await reserve(...asked)
      await answered
      return reserved
    },
    ...rest
  })
  return { store, reserver, held }
}

t.test('a refusal that arrives after the answer to a refund, a clear or an unblock is not kept', async t => {
  const { store, reserver, held } = slowly()
  const entries = [entry(log([1, 60_000]))]
  const { facts } = await reserver.reserve(entries, '')
  const taken = takenOf(entries, named(entries, facts ?? []))
  const endings = {
    refund: () => reserver.store.refund(taken, ''),
    clear: () => reserver.store.clear(entries),
    unblock: () => reserver.store.unblock(entries)
  }
  for (const [name, end] of Object.entries(endings)) {
    await store.block(entries, 0)
    const arrive = held(entries)
    await end()
    t.equal((await arrive())?.[1], 0)
    t.equal((await reserver.reserve(entries, '')).store.name, 'redis', name)
  }
})

t.test('a clear of one entry ends the refusals of all entries of its rule', async t => {
  const { by, reserver } = layer()
  const entries = oneRule([log([1, 60_000]), count(1, 'day')]).map(spec => entry(spec))
  for (const expected of ['redis 1', 'redis 0', 'cache 0']) t.equal(await by(entries), expected)
  await reserver.store.clear(entries.slice(0, 1))
  t.equal(await by(entries), 'redis 0')
})

/** A rule on two different values, in force since it has replaced one on five. */
function lowered() {
  const [[before], [after]] = replaced([distinct([5, 60_000])], [distinct([2, 60_000])])
  const of = (spec: Spec | undefined) => (value: number) => [sentTo(spec as Spec, value)]
  if (after) after.inForce.spec = after
  return { former: of(before), present: of(after) }
}

t.test(
  'a value that a request admits under a replaced rule is refused no more by the rule in force',
  async t => {
    const { by } = layer()
    const { former, present } = lowered()
    for (const value of [1, 2]) t.equal(await by(present(value)), 'redis 1')
    for (const expected of ['redis 0', 'cache 0']) t.equal(await by(present(3)), expected)
    t.equal(await by(former(3)), 'redis 1')
    t.equal(await by(present(3)), 'redis 1')
  }
)

t.test('a refusal of such a value that arrives after its admission is not kept', async t => {
  const { reserver, held } = slowly()
  const { former, present } = lowered()
  for (const value of [1, 2]) t.equal((await reserver.reserve(present(value), '')).facts?.[1], 1)
  const arrive = held(present(3))
  t.equal((await reserver.reserve(former(3), '')).facts?.[1], 1)
  t.equal((await arrive())?.[1], 0)
  t.equal((await reserver.reserve(present(3), '')).facts?.[1], 1)
})

t.test('what a replaced rule refuses is not refused from the cache', async t => {
  const { by } = layer()
  const [[before], [after]] = replaced([distinct([2, 60_000])], [distinct([5, 60_000])])
  const sent = (spec: Spec | undefined, value: number) => [sentTo(spec as Spec, value)]
  for (const value of [1, 2]) t.equal(await by(sent(before, value)), 'redis 1')
  for (const expected of ['redis 0', 'cache 0']) t.equal(await by(sent(before, 3)), expected)
  if (after) after.inForce.spec = after
  t.equal(await by(sent(before, 3)), 'redis 0')
  t.equal(await by(sent(after, 3)), 'redis 1')
  t.equal(await by(sent(before, 3)), 'redis 1', 'the value is counted by now')
})

t.test('what a rule refuses that is gone is not refused from the cache', async t => {
  const { by } = layer()
  const [[before], [after]] = replaced([distinct([2, 60_000])], [distinct([5, 60_000])])
  const sent = (spec: Spec | undefined, value: number) => [sentTo(spec as Spec, value)]
  if (after) after.inForce.spec = null
  for (const value of [1, 2]) t.equal(await by(sent(before, value)), 'redis 1')
  for (let i = 0; i < 2; i++) t.equal(await by(sent(before, 3)), 'redis 0')
  t.equal(await by(sent(after, 3)), 'redis 1', 'two versions of it may have requests under way')
  t.equal(await by(sent(before, 3)), 'redis 1')
})

t.test('no entry is reported of a rule of which a part comes with the request', async t => {
  const { reserver } = layer()
  const [hour, rolling] = oneRule([count(5, 'hour'), log([5, 60_000])]).map(spec => entry(spec)) as [
    Entry,
    Entry
  ]
  const entries = [entry(log([1, 60_000])), { ...hour, zoned: true }, rolling]
  for (let i = 0; i < 2; i++) await reserver.reserve(entries, '')
  const { store, facts } = await reserver.reserve(entries, '')
  t.equal(store.name, 'cache')
  t.strictSame(
    named(entries, facts ?? []).entries.map(({ state }) => state),
    [REFUSES, UNKNOWN, UNKNOWN]
  )
})

t.test('a refusal that Redis gave before a clear whose script had to be sent again is not kept', async t => {
  const { reserver, by } = layer()
  const spec = log([1, 60_000])
  const entries = [entry(spec)]
  t.equal(await by(entries), 'redis 1')
  await client.script('FLUSH')
  t.equal(await by([entry(spec, 'somebody else')]), 'redis 1', 'Redis has the script of reserve again')
  const cleared = reserver.store.clear(entries)
  t.equal(await by(entries), 'redis 0')
  await cleared
  t.equal(await by(entries), 'redis 1')
})

t.test('a refusal counts from the question, however long its answer took', async t => {
  const own = { now: 0, monotonic: () => own.now }
  const cache = new RefusalCache({ ms: 60_000, clock: own })
  const reserver = cache.over(alone(cache.watch(new RedisStore(client, 'slow:'))))
  const entries = [entry(log([1, 10_000]))]
  const by = async () => (await reserver.reserve(entries, '')).store.name
  await by()
  const refused = by()
  own.now += 4_000
  t.equal(await refused, 'redis')
  own.now += 5_999
  t.equal(await by(), 'cache')
  own.now++
  t.equal(await by(), 'redis')
  const { size } = cache
  const other = reserver.reserve([entry(count(0, 'day'), 'other')], '')
  own.now += 60_000
  await other
  t.equal(cache.size, size, 'a refusal whose time was over when it came is not kept')
})

t.test(
  'during an outage cached refusals hold, and refusals of the stand-in memory are not cached',
  async t => {
    const server = await startRedis(t)
    const connection = new Redis(server.port, '127.0.0.1', {
      retryStrategy: () => null,
      maxRetriesPerRequest: 0
    })
    connection.on('error', () => {})
    const { app, events } = await open(t, [one], { client: connection, onStoreError: 'memory' })
    const told = async (to: string) => {
      const { statusCode } = await app.inject(`/send?to=${to}`)
      return `${statusCode} ${events.at(-1)?.store}`
    }
    t.same([await told('a'), await told('a')], ['200 redis', '429 redis'])
    await server.kill()
    t.same([await told('b'), await told('b'), await told('b')], ['200 memory', '429 memory', '429 memory'])
    t.equal(await told('a'), '429 cache')
    advance(1_000)
    t.equal(await told('a'), '429 memory', 'the memory knows what Redis admitted')
  }
)

t.test('on a cluster the cache hears of the calls to each node', async t => {
  const cache = new RefusalCache({ ms: 1_000, clock: { monotonic: () => clock.now() } })
  const reserver = cache.over(clusterOf(cache.watch(new RedisStore(client, 'nodes:'))).cluster)
  const spec = log([1, 60_000])
  const entries = [entry(spec, 'x'), entry(log([5, 60_000]), 'y')]
  const { facts } = await reserver.reserve(entries, '')
  await reserver.reserve(entries, '')
  t.equal((await reserver.reserve(entries, '')).store.name, 'cache')
  await reserver.store.refund(takenOf(entries, named(entries, facts ?? [])), '')
  const after = await reserver.reserve(entries, '')
  t.same([after.store.name, after.facts?.[1]], ['redis', 1])
  await reserver.reserve(entries.slice(0, 1), '')
  t.equal(
    (await reserver.reserve(entries.slice(0, 1), '')).store.name,
    'cache',
    'a refusal by one node alone is cached as well'
  )
})

t.test('an entry that was allowed because its node is lost is never refused from the cache', async t => {
  const own = { now: 0, monotonic: () => own.now }
  const cache = new RefusalCache({ ms: 60_000, clock: own })
  const [up, down] = [new Outage(1_000_000), new Outage(1_000_000)]
  const spec = log([1, 60_000])
  const [full, lost] = [entry(spec, 'x'), entry(log([5, 60_000]), 'y')]
  const nodes = new Fallback(cache.watch(new RedisStore(client, 'half:')), {
    timeout: 60_000,
    substitute: 'allow',
    outageOf: ([first]) => (first?.identity === lost.identity ? down : up),
    isRequestError: isKeyError,
    onError() {},
    onUncounted() {},
    onRefundFailed() {}
  })
  const reserver = cache.over(new Cluster(nodes, () => {}))
  await reserver.reserve([full], '')
  down.failed(new Error('lost'))
  t.equal((await reserver.reserve([full, lost], '')).facts?.[1], 0)
  t.equal(
    (await reserver.reserve([lost], '')).facts,
    null,
    'the entry of the lost node alone is allowed, as before'
  )
  const { facts, store } = await reserver.reserve([full, lost], '')
  t.equal(store.name, 'cache', 'the entry that refused is cached')
  t.match(named([full, lost], facts ?? []).entries, [{ state: REFUSES }, { state: UNKNOWN }])
})

t.test('closing the cache closes the store behind it', async t => {
  let closed = 0
  const behind = alone(new RedisStore(client, 'closed:'))
  await new RefusalCache({ ms: 1_000 }).over({ ...behind, close: () => void closed++ }).close()
  t.equal(closed, 1)
})

t.test(
  'a hot key on two instances admits no more than max, and refusals need no trip within the time',
  async t => {
    const rule: Rule = { ...one, limits: [{ max: 5, window: '60s' }] }
    const prefix = { prefix: 'hot:' }
    const apps = [await open(t, [rule], prefix), await open(t, [rule], prefix)]
    const race = async () => {
      const replies = await Promise.all(
        Array.from({ length: 200 }, (_, i) => (apps[i % 2] as (typeof apps)[number]).app.inject('/send?to=a'))
      )
      return replies.filter(({ statusCode }) => statusCode === 200).length
    }
    t.equal(await race(), 5)
    const before = await calls()
    t.same([await race(), await race()], [0, 0])
    t.equal(await calls(), before, 'no trip to Redis')
    advance(1_000)
    t.equal(await race(), 0)
    advance(59_001)
    t.equal(await race(), 5)
  }
)

import { once } from 'node:events'
import type { Redis } from 'ioredis'
import t from 'tap'
import { limitPlugin, type Rule } from '../../../plugin/index.js'
import { ADMITTED, BLOCKED, type Facts, REFUSES } from '../../../plugin/store/facts.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { type Entry, TICKS_PER_MS } from '../../../plugin/store/store.js'
import {
  count,
  distinct,
  entry,
  identity,
  lock,
  log,
  named,
  observed,
  sentTo,
  takenOf,
  token,
  usedOf
} from '../../contract/specs.js'
import { Time } from '../../contract/time.js'
import { appOf } from '../../helper/face.js'
import { scriptCalls, startRedis } from '../../helper/redis.js'

const { client, clock } = await startRedis(t, { clock: true })
const START = '2026-03-01T00:00:00Z'

async function open(): Promise<{ store: RedisStore; time: Time }> {
  await client.flushall()
  return { store: new RedisStore(client, 'test:'), time: new Time(START, clock) }
}

const everyKind = () => [log([2, 60_000], [5, 3_600_000]), count(5, 'day'), lock(30_000)]
const keyOf = ({ spec, identity: who }: Entry) => `test:{${who}}:${spec.name}`

async function ttls(client: Redis, entries: readonly Entry[]): Promise<number[]> {
  return Promise.all(entries.map(each => client.pttl(keyOf(each))))
}

/** How many script calls Redis has had. */
const allCalls = async () => (await scriptCalls(client)).all

/** How many bytes Redis sends meanwhile. */
async function sentDuring(call: () => Promise<unknown>): Promise<number> {
  const sent = async () => Number(/total_net_output_bytes:(\d+)/.exec(await client.info('stats'))?.[1])
  const before = await sent()
  await call()
  return (await sent()) - before
}

t.test('all keys of one identity have the same hash tag', async t => {
  const { store } = await open()
  const entries = everyKind().map(spec => entry(spec, 'somebody'))
  await store.reserve(entries, token())
  t.strictSame((await client.keys('*')).sort(), entries.map(keyOf).sort())
  t.match(keyOf(entries[0] as Entry), `{${identity('somebody')}}`)
})

t.test('a count of which every slot was refunded leaves no key', async t => {
  const { store, time } = await open()
  const entries = everyKind().map(spec => entry(spec))
  const holder = token()
  const first = takenOf(entries, named(entries, await store.reserve(entries, holder)))
  const only = entries.slice(1, 2)
  const second = takenOf(only, named(only, await store.reserve(only, holder)))
  time.advance(2)
  await store.refund(first, holder)
  t.equal((await client.keys('*')).length, 2, 'a count and its refunds')
  await store.refund(second, holder)
  t.strictSame(await client.keys('*'), [])
})

t.test('every key has an expiry, after which it is gone', async t => {
  const { store, time } = await open()
  const entries = everyKind().map(spec => entry(spec))
  await store.reserve(entries, token())
  t.strictSame(await ttls(client, entries), [3_600_002, 86_400_000, 30_001])
  time.advanceMs(1_000)
  const second = await store.reserve(entries.slice(0, 2), token())
  t.strictSame(await ttls(client, entries), [3_600_002, 86_399_000, 29_001], 'after another send')
  await store.refund(takenOf(entries, named(entries.slice(0, 2), second)), '')
  t.strictSame(await ttls(client, entries), [3_600_002, 86_399_000, 29_001], 'a refund changes no expiry')
  time.advanceMs(86_400_001)
  t.equal(await client.exists(entries.map(keyOf)), 0)
})

t.test('a count of sends that were admitted elsewhere expires with its period', async t => {
  const { store, time } = await open()
  const each = entry(count(5, 'day'))
  const ends = time.ticks + 86_400_000 * TICKS_PER_MS
  time.advanceMs(7_200_000)
  t.not(await store.count(each, 3_600_000 * TICKS_PER_MS, ends), 0)
  t.strictSame(await ttls(client, [each]), [79_200_000])
})

t.test('keys written within a millisecond expire with the millisecond of their end', async t => {
  const { store, time } = await open()
  const entries = everyKind().map(spec => entry(spec))
  time.advance(99_999)
  await store.reserve(entries, token())
  t.strictSame(await ttls(client, entries), [3_600_002, 86_399_001, 30_001])
})

// From Redis 7.2 on, a key may be gone as the millisecond of its expiry begins.
t.test('no key expires before what it holds is over', async t => {
  const { store, time } = await open()
  const entries = [...everyKind(), log([200, 60_000]), distinct([200, 60_000])].map(spec => entry(spec))
  const [, , locked] = entries as [Entry, Entry, Entry]
  const holder = token()
  const outlived = async (entries: readonly Entry[]) => {
    const now = time.ticks % TICKS_PER_MS
    const lives = await ttls(client, entries)
    // With a `max` of 1 the facts give the newest stamp.
    const newest = entries.map(each => ('limits' in each.spec ? { ...each, max: [1, 1] } : each))
    for (const [i, { limits, blockedFor }] of named(newest, await store.peek(newest)).entries.entries())
      for (const left of [...limits.map(({ reset }) => reset), blockedFor ?? 0])
        t.ok((lives[i] ?? 0) * TICKS_PER_MS >= now + left, `${entries[i]?.spec.kind}: ${lives[i]}, ${left}`)
  }
  time.advance(99)
  await store.reserve(entries, holder)
  await outlived(entries)
  // In one tick, as Redis counts decisions of one call.
  for (let i = 0; i < 100; i++) await store.reserve(entries.slice(3), '')
  await outlived(entries)
  time.advanceMs(5_000)
  await store.renew(locked, holder)
  await outlived([locked])
  await store.block(entries.slice(0, 2), 90_000_000)
  await outlived(entries.slice(0, 2))
})

t.test('a renewed lock expires with its new end', async t => {
  const { store, time } = await open()
  const locks = [entry(lock(30_000)), entry(lock(10_000))]
  const holder = token()
  await store.reserve(locks, holder)
  time.advanceMs(5_000)
  for (const each of locks) t.equal(await store.renew(each, holder), true)
  t.strictSame(await ttls(client, locks), [30_001, 10_001])
  t.strictSame(
    named(locks, await store.peek(locks)).entries.map(({ limits }) => limits[0]?.reset),
    [3_000_000, 1_000_000]
  )
})

t.test(
  'a block for a time expires with its own end or that of what is counted, whichever is later',
  async t => {
    const { store } = await open()
    const counted = [entry(log([2, 60_000])), entry(log([2, 7_200_000]))]
    await store.reserve(counted, '')
    await store.block(counted, 1_000)
    t.strictSame(await ttls(client, counted), [60_002, 7_200_002])
    await store.block(counted, 3_600_000)
    t.strictSame(await ttls(client, counted), [3_600_001, 7_200_002])
    await store.clear(counted)
    t.strictSame(await ttls(client, counted), [3_600_001, 7_200_002], 'a clear does not change the expiry')
    await store.block(counted, 0)
    t.strictSame(await ttls(client, counted), [-1, -1], 'a block without end never expires')
    await store.unblock(counted)
    await store.reserve(counted, '')
    await store.block(counted, 0)
    await store.unblock(counted)
    t.strictSame(await ttls(client, counted), [60_002, 7_200_002])
  }
)

t.test('a count that a block has kept past its period begins anew, without its refunds', async t => {
  const { store, time } = await open()
  const entries = [entry(count(2, 'day'))]
  const facts = named(entries, await store.reserve(entries, ''))
  await store.reserve(entries, '')
  await store.refund(takenOf(entries, facts), '')
  await store.block(entries, 86_400_000)
  t.equal(await client.strlen(keyOf(entries[0] as Entry)), 31)
  time.advanceMs(86_400_000)
  t.equal((await store.reserve(entries, ''))[1], 1)
  t.strictSame(usedOf(entries, await store.peek(entries)), [1])
  t.equal(await client.strlen(keyOf(entries[0] as Entry)), 18)
})

t.test('Redis remembers which slots were refunded, and does not send them with each decision', async t => {
  const { store } = await open()
  const entries = [entry(count(100_000, 'day'))]
  const send = () => store.reserve(entries, '')
  const together = () => Promise.all(Array.from({ length: 40 }, send))
  const giveBack = async (facts: Facts) => store.refund(takenOf(entries, named(entries, facts)), '')
  const told = () => sentDuring(together)
  const [first] = await together()
  const fresh = await told()
  for (const facts of await together()) await giveBack(facts)
  const sent = await send()
  t.ok(Math.abs((await told()) - fresh) < 40 * 6 + 100, 'answers hold how many were refunded, not which')
  await giveBack(first as Facts)
  await giveBack(sent)
  const used = usedOf(entries, await store.peek(entries))
  await giveBack(first as Facts)
  await giveBack(sent)
  t.strictSame(usedOf(entries, await store.peek(entries)), used, 'each is refunded once')
  const [key] = entries.map(keyOf)
  t.equal(await client.strlen(key as string), 18 + 6)
  t.ok((await client.strlen(`${key}:refunds`)) <= 6 + 130 / 8, 'a bit for each of 121 sends')
  await store.block(entries, 60_000)
  t.equal((await send())[2], BLOCKED)
  t.equal(await client.strlen(key as string), 18 + 6 + 7)
})

t.test('when Redis has lost which slots were refunded, none is refunded twice', async t => {
  const { store } = await open()
  const entries = [entry(count(100, 'day'))]
  const take = async () => takenOf(entries, named(entries, await store.reserve(entries, '')))
  const used = async () => usedOf(entries, await store.peek(entries))
  const [first, second] = [await take(), await take()]
  await store.refund(first, '')
  await client.del(`${keyOf(entries[0] as Entry)}:refunds`)
  await store.refund(first, '')
  t.strictSame(await used(), [1])
  await store.refund(second, '')
  t.strictSame(await used(), [1], 'too few messages rather than too many')
  const third = await take()
  for (let i = 0; i < 2; i++) await store.refund(third, '')
  t.strictSame(await used(), [1], 'a later send is refunded, once')
})

t.test('a refund of a slot that was cleared, or whose period is over, writes nothing', async t => {
  const { store, time } = await open()
  const entries = [entry(count(100, 'day'))]
  const take = async () => takenOf(entries, named(entries, await store.reserve(entries, '')))
  const [key] = entries.map(keyOf) as [string]
  const cleared = await take()
  await store.clear(entries)
  time.advance(1)
  const [over] = [await take(), await take()]
  await store.refund(cleared, '')
  t.strictSame(await client.keys('*'), [key])
  await store.block(entries, 0)
  time.advance(8_640_000_000 - 1)
  await store.refund(over, '')
  t.strictSame(await client.keys('*'), [key], 'in the last tick of its period')
})

t.test('a send at the instant at which every slot was refunded has a new receipt', async t => {
  const { store, time } = await open()
  time.advance(1.5)
  const entries = [entry(count(100, 'day'))]
  const take = async () => takenOf(entries, named(entries, await store.reserve(entries, '')))
  const first = await take()
  await store.refund(first, '')
  await take()
  await store.refund(first, '')
  t.strictSame(usedOf(entries, await store.peek(entries)), [1])
})

t.test('a refund that Redis denies to the user fails, and leaves a block without end as it is', async t => {
  const { store } = await open()
  const entries = [entry(count(100, 'day'))]
  const taken = takenOf(entries, named(entries, await store.reserve(entries, '')))
  await store.block(entries, 0)
  await client.call('ACL', 'SETUSER', 'default', '-setbit')
  t.teardown(() => client.call('ACL', 'SETUSER', 'default', '+@all'))
  await t.rejects(store.refund(taken, ''), /can't run this command|setbit/)
  const key = keyOf(entries[0] as Entry)
  t.equal(await client.pttl(key), -1)
  t.ok((await client.pttl(`${key}:refunds`)) > 0)
})

t.test('a log and a lock that are refunded leave no key', async t => {
  const { store } = await open()
  const entries = [entry(log([2, 60_000])), entry(lock(30_000))]
  const holder = token()
  const facts = named(entries, await store.reserve(entries, holder))
  await store.refund(takenOf(entries, facts), holder)
  t.equal(await client.dbsize(), 0)
  await store.block(entries.slice(0, 1), 0)
  await store.unblock(entries.slice(0, 1))
  t.equal(await client.dbsize(), 0)
})

t.test('a key that lost its expiry has one again with the next write', async t => {
  const { store, time } = await open()
  const entries = everyKind().map(spec => entry(spec))
  await store.reserve(entries, token())
  for (const each of entries) await client.persist(keyOf(each))
  t.strictSame(await ttls(client, entries), [-1, -1, -1])
  t.equal((await store.reserve(entries, token()))[1], 0, 'the limits still hold')
  time.advanceMs(30_000)
  t.equal((await store.reserve(entries, token()))[1], 1, 'the lock has ended in time')
  t.strictSame(await ttls(client, entries), [3_600_002, 86_370_000, 30_001])
})

t.test('an observed rule that is not counted writes nothing', async t => {
  const { store, time } = await open()
  const seen = [entry(observed(log([1, 60_000])))]
  await store.reserve(seen, '')
  const before = await client.dumpBuffer(keyOf(seen[0] as Entry))
  time.advanceMs(10)
  t.equal((await store.reserve(seen, ''))[1], 1)
  t.strictSame(await client.dumpBuffer(keyOf(seen[0] as Entry)), before)
  t.strictSame(await ttls(client, seen), [59_992])
})

t.test('a foreign key of another type makes calls fail, and is left as it is', async t => {
  const { store } = await open()
  const [mine, foreign] = [entry(log([2, 60_000])), entry(log([2, 60_000]))]
  await client.rpush(keyOf(foreign), 'theirs')
  await t.rejects(store.reserve([mine, foreign], token()), /WRONGTYPE/)
  await t.rejects(store.clear([foreign]), /WRONGTYPE/)
  await t.rejects(store.block([foreign], 0), /WRONGTYPE/)
  await t.rejects(store.unblock([foreign]), /WRONGTYPE/)
  await t.rejects(store.renew(foreign, token()), /WRONGTYPE/)
  await store.refund([{ entry: foreign, receipt: 1, ends: 0 }], token())
  t.strictSame(await client.lrange(keyOf(foreign), 0, -1), ['theirs'])
  t.equal(await client.exists(keyOf(mine)), 0, 'nothing was counted beside it')
})

t.test(
  'a decision that meets a key of another type changes nothing, wherever that is among the entries',
  async t => {
    const { store, time } = await open()
    const there = [entry(log([3, 60_000])), entry(count(3, 'day'))]
    await store.reserve(there, token())
    const keys = there.map(keyOf)
    const before = await client.mgetBuffer(keys)
    const foreign = entry(log([2, 60_000]))
    await client.rpush(keyOf(foreign), 'theirs')
    time.advanceMs(1_000)
    const others = [there[0], entry(log([2, 60_000])), there[1], entry(lock(30_000))] as Entry[]
    for (let place = 0; place <= others.length; place++) {
      const entries = others.toSpliced(place, 0, foreign)
      await t.rejects(store.reserve(entries, token()), /WRONGTYPE/, `at ${place}`)
      t.strictSame(await client.mgetBuffer(keys), before)
      t.strictSame(await ttls(client, there), [59_002, 86_399_000])
      t.strictSame((await client.keys('*')).sort(), [...keys, keyOf(foreign)].sort(), 'no new key')
    }
    t.strictSame(await client.lrange(keyOf(foreign), 0, -1), ['theirs'])
    t.equal((await store.reserve(others, token()))[1], 1)
  }
)

t.test('calendar limits go by the clock of Redis, whatever the clock of this process', async t => {
  const { store, time } = await open()
  const day = [entry(count(1, 'day', 'Asia/Shanghai')), entry(log([9, 60_000]))]
  // Sends the script of `peek`.
  await new RedisStore(client, 'test:').peek(day)
  const start = await allCalls()
  t.equal((await store.reserve(day, ''))[1], 1)
  t.equal((await allCalls()) - start, 2, 'asked again with the periods of that clock')
  t.strictSame(usedOf(day, await store.peek(day)), [1, 1], 'counted once')
  t.equal((await store.reserve(day, ''))[1], 0)
  t.equal((await allCalls()) - start, 4, 'once is enough')
  time.advanceMs(16 * 3_600_000)
  t.equal((await store.reserve(day, ''))[1], 1, 'midnight by the clock of Redis')
  t.equal((await allCalls()) - start, 5, 'the next period is known')
  for (const date of ['2031-07-01T00:00:00Z', '2022-01-01T00:00:00Z']) {
    await client.flushall()
    const far = new Time(date, clock)
    t.equal((await store.reserve(day, ''))[1], 1)
    const facts = named(day, await store.reserve(day, ''))
    t.strictSame([facts.now, facts.admitted], [far.ticks, false])
    t.equal(facts.entries[0]?.limits[0]?.reset, 16 * 3_600_000 * 100)
  }
  new Time('2027-01-01T00:00:00Z', clock)
  await store.peek(day)
  const looked = await allCalls()
  t.equal((await store.reserve(day, ''))[1], 1)
  t.equal((await allCalls()) - looked, 1, 'a peek gives the clock as well')
  const edges = [
    ['2027-01-01T00:00:00Z', '2026-12-30T16:00:00Z', 1, 'the first instant of the period before is in it'],
    ['2027-01-01T00:00:00Z', '2027-01-02T16:00:00Z', 2, 'the end of the one after is not']
  ] as const
  for (const [known, now, trips, message] of edges) {
    await client.flushall()
    new Time(known, clock)
    await store.peek(day)
    const before = await allCalls()
    new Time(now, clock)
    t.equal((await store.reserve(day, ''))[1], 1)
    t.equal((await allCalls()) - before, trips, message)
    t.equal((await store.reserve(day, ''))[1], 0)
  }
})

t.test('calendar limits count even when the clock of this process is not set', async t => {
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  for (const date of [
    '1970-01-01T00:00:07Z',
    '2019-12-31T12:00:00Z',
    '2020-01-01T06:00:00Z',
    '9999-01-01T00:00:00Z'
  ]) {
    const { store } = await open()
    const day = [entry(count(1, 'day'))]
    Date.now = () => Date.parse(date)
    t.equal((await store.reserve(day, ''))[1], 1, date)
    t.equal((await store.reserve(day, ''))[1], 0)
    Date.now = now
  }
})

t.test(
  'decisions at once keep their order, even if one is asked again with the periods of the clock of Redis',
  async t => {
    const { store } = await open()
    const day = count(9, 'day')
    const shared = entry(log([2, 60_000]))
    const decision = (who: string) => [entry(day, who), shared]
    const begun = new RedisStore(client, 'test:')
    await begun.peek(decision('known'))
    await begun.reserve(decision('known'), '')
    const asked = ['new', 'known'].map(who => store.reserve(decision(who), ''))
    t.strictSame(
      (await Promise.all(asked)).map(facts => facts[ADMITTED]),
      [1, 0]
    )
  }
)

t.test('decisions behind one that is asked again for its periods are all admitted', async t => {
  const { store } = await open()
  const spec = count(9, 'day')
  let told = false
  const first = store.reserve([entry(spec, 'first')], '').finally(() => {
    told = true
  })
  const all = [first]
  // One in each turn of the event loop, so that some wait to be sent when the first hears of the clock of Redis.
  while (!told) {
    all.push(store.reserve([entry(spec, all.length)], ''))
    await new Promise(setImmediate)
  }
  t.strictSame(
    (await Promise.all(all)).filter(facts => facts[ADMITTED] !== 1),
    []
  )
})

t.test('when the clock of Redis jumps with every call, a decision fails and counts nothing', async t => {
  await open()
  let year = 2030
  const jumping =
    (call: 'evalBuffer' | 'evalshaBuffer') =>
    (...args: unknown[]) => {
      clock.set(Date.UTC((year += 2), 0))
      return Reflect.apply(
        (client as unknown as Record<string, () => unknown>)[call] as () => unknown,
        client,
        args
      )
    }
  const jumpy = Object.create(client, {
    evalBuffer: { value: jumping('evalBuffer') },
    evalshaBuffer: { value: jumping('evalshaBuffer') }
  }) as Redis
  await t.rejects(
    new RedisStore(jumpy, 'test:').reserve([entry(count(1, 'day'))], ''),
    /cannot be determined/
  )
  t.equal(await client.dbsize(), 0)
})

t.test('when the clock of Redis is beyond what stamps can hold, calls fail and count nothing', async t => {
  const { store, time } = await open()
  const entries = [entry(log([1, 60_000])), entry(lock(30_000))]
  for (const ticks of [-5e12, -1, 0, 2 ** 32 - 1, 2 ** 48, 3e14]) {
    time.set(ticks)
    await t.rejects(store.reserve(entries, token()), /CLOCK/, `${ticks}`)
    await t.rejects(async () => store.peek(entries), /CLOCK/, `${ticks}`)
    t.equal(await client.dbsize(), 0)
  }
  for (const ticks of [2 ** 32, 2 ** 47]) {
    time.set(ticks)
    t.equal((await store.reserve(entries, token()))[1], 1)
    t.equal((await store.peek(entries))[1], 0)
  }
})

t.test('under such a clock a block for a time fails, and a block without end still holds later', async t => {
  const { store, time } = await open()
  const entries = [entry(log([1, 60_000])), entry(count(1, 'day'))]
  for (const ticks of [-5e12, 2 ** 32 - 1, 2 ** 48]) {
    time.set(ticks)
    await t.rejects(async () => store.block(entries, 1), /CLOCK/, `${ticks}`)
    t.equal(await client.dbsize(), 0)
    await store.block(entries, 0)
    time.set(2 ** 32)
    t.equal((await store.reserve(entries, token()))[1], 0)
    await store.block(entries, 1)
    await store.unblock(entries)
  }
})

t.test('peek and reserve give the same instant', async t => {
  const { store } = await open()
  clock.set(Date.parse(START) + 0.009)
  const entries = [entry(log([1, 60_000]))]
  t.equal((await store.peek(entries))[0], (await store.reserve(entries, ''))[0])
})

t.test('a lock taken while the clock was far ahead is free once the clock is put right', async t => {
  const { store, time } = await open()
  const entries = [entry(lock(30_000))]
  const [crashed, next] = [token(), token()]
  time.advanceMs(25 * 3_600_000 - 30_000)
  await store.reserve(entries, crashed)
  time.advanceMs(-25 * 3_600_000 + 30_000)
  t.equal(
    (await store.reserve(entries, next))[1],
    0,
    'the lock holds, since its end is no further away than a lock can last'
  )
  time.advance(-1)
  t.strictSame(usedOf(entries, await store.peek(entries)), [0])
  t.equal((await store.reserve(entries, next))[1], 1)
  t.notOk(await store.renew(entries[0] as Entry, crashed), 'the next holder has the lock')
  t.ok(await store.renew(entries[0] as Entry, next))
})

t.test('stamps from while the clock was far ahead do not count once the clock is put right', async t => {
  const day = 24 * 3_600_000
  const [one, other] = [log([1, 60_000]), distinct([1, 60_000])]
  for (const [before, after] of [
    [entry(one), entry(one)],
    [sentTo(other, 1), sentTo(other, 2)]
  ] as const) {
    const { store, time } = await open()
    time.advanceMs(day)
    const ahead = takenOf([before], named([before], await store.reserve([before], '')))
    time.advanceMs(-day)
    t.strictSame(usedOf([after], await store.peek([after])), [0])
    const right = await store.reserve([after], '')
    t.equal(right[1], 1)
    t.equal((await store.reserve([before], ''))[1], 0, 'the new stamp counts')
    await store.refund(ahead, '')
    t.strictSame(usedOf([before], await store.peek([before])), [1])
    await store.refund(takenOf([after], named([after], right)), '')
    t.strictSame(usedOf([before], await store.peek([before])), [0])

    await store.reserve([before], '')
    time.advanceMs(-before.spec.ttl - 3_600_000)
    const refused = named([after], await store.reserve([after], ''))
    t.equal(refused.admitted, false, 'a stamp of a clock that was less far ahead counts')
    t.strictSame(
      refused.entries.map(({ state, limits }) => [state, limits[0]?.used]),
      [[REFUSES, 1]],
      'it refuses'
    )
    time.advance(-1)
    t.equal((await store.reserve([after], ''))[1], 1)
    time.advanceMs(-2 * 3_600_000)
    const { spec } = before
    spec.inForce.spec = { ...spec, ttl: day }
    const underWay = await store.reserve([before], '')
    t.strictSame(
      [underWay[1], usedOf([before], underWay)],
      [0, [1]],
      'a stamp within the time to live of the rule in force counts as well'
    )
  }
})

t.test('a decision takes any number of entries, with values of any length', async t => {
  const { store } = await open()
  for (const many of [13, 14, 40]) {
    const entries = Array.from({ length: many }, (_, i) => entry(log([i * 25 + 1, 60_000]), `${many}`))
    const used = async () => usedOf(entries, await store.reserve(entries, ''))
    t.strictSame(await used(), Array(many).fill(0))
    for (let i = 1; i < 60; i++) t.strictSame((await store.reserve(entries.slice(3), ''))[1], 1)
    t.strictSame(await used(), [1, 1, 1, ...Array(many - 3).fill(60)])
  }
})

t.test('two processes on one Redis share every limit', async t => {
  const { store } = await open()
  const another = client.duplicate()
  t.teardown(() => another.disconnect())
  const other = new RedisStore(another, 'test:')
  const entries = everyKind().map(spec => entry(spec))
  t.equal((await store.reserve(entries, token()))[1], 1)
  t.equal((await other.reserve(entries, token()))[1], 0)
})

t.test('a client that pipelines by itself decides the same way', async t => {
  await open()
  const pipelining = client.duplicate({ enableAutoPipelining: true })
  t.teardown(() => pipelining.disconnect())
  const store = new RedisStore(pipelining, 'test:')
  const entries = everyKind().map(spec => entry(spec))
  const ask = () => Promise.all([store.reserve(entries, token()), store.reserve(entries, token())])
  for (const admitted of [
    [1, 0],
    [0, 0]
  ])
    t.strictSame(
      (await ask()).map(facts => facts[ADMITTED]),
      admitted
    )
  await client.script('FLUSH')
  t.strictSame(
    (await ask()).map(facts => facts[ADMITTED]),
    [0, 0],
    'the same when scripts have to be sent'
  )
  t.equal((await store.peek(entries))[1], 0)
})

t.test('a client that answers numbers as text renews a lock for its holder alone', async t => {
  await open()
  const texts = client.duplicate({ stringNumbers: true })
  t.teardown(() => texts.disconnect())
  const store = new RedisStore(texts, 'test:')
  const held = entry(lock(30_000))
  const holder = token()
  await store.reserve([held], holder)
  t.equal(await store.renew(held, holder), true)
  t.equal(await store.renew(held, token()), false)
})

t.test('scripts that Redis has forgotten are sent again', async t => {
  const { store } = await open()
  const entries = [entry(log([2, 60_000]))]
  for (const call of [
    () => store.reserve(entries, ''),
    () => store.peek(entries),
    () => store.clear(entries),
    () => store.block(entries, 0),
    () => store.unblock(entries),
    () => store.renew(entries[0] as Entry, ''),
    () => store.refund([{ entry: entries[0] as Entry, receipt: 1, ends: 0 }], '')
  ]) {
    await client.script('FLUSH')
    await t.resolves(Promise.resolve(call()))
  }
})

t.test(
  'a script that Redis has forgotten reaches it also by a client that reconnects after each error',
  async t => {
    const own = client.duplicate({
      enableOfflineQueue: false,
      reconnectOnError: () => true,
      retryStrategy: () => 1
    })
    t.teardown(() => own.disconnect())
    await own.connect()
    const store = new RedisStore(own, 'test:')
    const entries = [entry(log([2, 60_000]))]
    await store.reserve(entries, '')
    await client.script('FLUSH')
    const again = once(own, 'ready')
    await t.rejects(store.reserve(entries, ''), { message: /^Stream isn't writeable/ })
    await again
    t.equal((await store.reserve(entries, ''))[1], 1)
  }
)

t.test('Redis sends a decision the newest pair of each value, and no older pairs', async t => {
  const { store } = await open()
  const entries = [sentTo(distinct([2, 60_000]), 1)]
  const told = () => sentDuring(() => store.reserve(entries, ''))
  await store.reserve(entries, '')
  const fresh = await told()
  for (let i = 0; i < 100; i++) await store.reserve(entries, '')
  t.ok((await client.strlen(keyOf(entries[0] as Entry))) > 1_200)
  t.ok(Math.abs((await told()) - fresh) < 100)
})

t.test('a distinct log keeps at most 1.5 times 500 / max older pairs of one value', async t => {
  const { store, time } = await open()
  for (const [max, pairs] of [
    [1, 750],
    [100, 7]
  ] as const) {
    const entries = [sentTo(distinct([max, 60_000]), 1, undefined, `max ${max}`)]
    const sizes = new Set<number>()
    for (let i = 0; i < 1_100; i++) {
      await store.reserve(entries, '')
      sizes.add(await client.strlen(keyOf(entries[0] as Entry)))
      time.advanceMs(1)
    }
    t.equal(Math.max(...sizes), (pairs + 1) * 12, 'and a dividing pair')
  }
})

t.test('a distinct log drops pairs that are older than its time to live, or refunded', async t => {
  const { store, time } = await open()
  const spec = distinct([5, 60_000])
  const pairs = async () => (await client.strlen(keyOf(entry(spec)))) / 12
  const take = async (value: number) => {
    const entries = [sentTo(spec, value)]
    const taken = takenOf(entries, named(entries, await store.reserve(entries, '')))
    time.advanceMs(spec.ttl / 2)
    return taken
  }
  for (const value of [1, 2, 3]) await take(value)
  t.equal(await pairs(), 2)
  const again = await take(3)
  t.equal(await pairs(), 3, 'the newest pair of 3, a divider, and the pair before')
  await store.refund(again, '')
  t.equal(await pairs(), 1)
  await store.clear([entry(spec)])
  for (const value of [1, 1]) await take(value)
  const later = [await take(2), await take(3)]
  t.equal(await pairs(), 4, 'of value 1, whose newest pair is over, the pair before it is still there')
  for (const taken of later) await store.refund(taken, '')
  t.equal(await client.exists(keyOf(entry(spec))), 0, 'no pair counts any more')
})

t.test('a distinct log does not grow with values that come twice and are then over', async t => {
  const { store, time } = await open()
  const spec = distinct([1, 1_000])
  const sizes = new Set<number>()
  for (let value = 0; value < 800; value++) {
    for (let times = 0; times < 2; times++)
      t.equal((await store.reserve([sentTo(spec, value)], ''))[1], 1, `value ${value}`)
    sizes.add(await client.strlen(keyOf(entry(spec))))
    time.advanceMs(1_001)
  }
  t.ok(Math.max(...sizes) <= 752 * 12, `${Math.max(...sizes) / 12} pairs`)
})

t.test('the largest log takes six bytes a stamp in Redis', async t => {
  const { store, time } = await open()
  const entries = [entry(log([1_000, 60_000]))]
  for (let i = 0; i < 1_050; i++) {
    await store.reserve(entries, '')
    time.advanceMs(100)
  }
  t.equal(await client.strlen(keyOf(entries[0] as Entry)), 6_000)
})

t.test('a log outlives its longest window by two milliseconds, as lua/README.md says', async t => {
  const { client } = await startRedis(t, { clock: true })
  const app = appOf(t)
  const limits = [
    { max: 1, window: '60s' },
    { max: 5, window: '1h' }
  ]
  const rules: Rule[] = [
    { name: 'log', key: 'all', limits },
    { name: 'pairs', key: 'all', distinct: { value: 'body.to' }, limits }
  ]
  await app.register(limitPlugin, { client, secret: 'secret of these tests', prefix: 'test:', rules })
  await app.limit.reserve({ log: null, pairs: [null, 'a'] })
  const keys = await client.keys('test:{*')
  t.same(await Promise.all(keys.map(key => client.pttl(key))), [3_600_002, 3_600_002])
})

t.test(
  'a refund in the last millisecond of a key, on a Redis that is full, leaves no key without expiry',
  async t => {
    const { client, clock } = await startRedis(t, { clock: true })
    const store = new RedisStore(client, 'test:')
    const time = new Time('2026-03-01T00:00:00Z', clock)
    const entries = [entry(log([5, 60_000]), 'somebody')]
    await store.reserve(entries, token())
    const second = await store.reserve(entries, token())
    const key = `test:{${identity('somebody')}}:${entries[0]?.spec.name}`
    t.match(await client.keys('*'), [key])
    time.advanceMs(await client.pttl(key))
    t.equal(await client.pttl(key), 0)
    await client.config('SET', 'maxmemory', '1')
    await store.refund(takenOf(entries, named(entries, second)), '')
    await client.config('SET', 'maxmemory', '0')
    time.advanceMs(86_400_000)
    t.equal(await client.exists(key), 0)
  }
)

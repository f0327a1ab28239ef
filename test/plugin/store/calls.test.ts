import { once } from 'node:events'
import t from 'tap'
import { Mixtures } from '../../../plugin/store/mixtures.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { RedisServer } from '../../../plugin/store/server.js'
import type { Entry, Taken } from '../../../plugin/store/store.js'
import {
  count,
  distinct,
  entry,
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
import { scriptCalls, startRedis } from '../../helper/redis.js'
import { written } from '../../helper/writes.js'

const { client, clock } = await startRedis(t, { clock: true })

async function open() {
  await client.flushall()
  const store = new RedisStore(client, 'test:')
  const time = new Time('2026-03-01T00:00:00Z', clock)
  const decide = async (entries: readonly Entry[]) => named(entries, await store.reserve(entries, token()))
  // The first decision of a mixture sends its script.
  const warm = async (entries: readonly Entry[]) => {
    await decide(entries)
    await store.clear(entries)
  }
  return { store, time, decide, warm }
}

/** Waits until what was put off to the end of this step is done. */
const turn = () => new Promise<void>(done => process.nextTick(done))
const keyOf = ({ spec, identity: who }: Entry) => `test:{${who}}:${spec.name}`
const many = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i))

t.test('a hundred decisions at once are few commands in few writes, and all are answered', async t => {
  const { decide, warm } = await open()
  const spec = log([1, 60_000])
  await warm([entry(spec)])
  const before = (await scriptCalls(client)).called
  const writes = written(client)
  const all = await Promise.all(many(100, i => [entry(spec, i)]).map(decide))
  t.ok(all.every(facts => facts.admitted))
  t.ok(writes.count > 0 && writes.count < 15, `${writes.count} writes`)
  const calls = (await scriptCalls(client)).called - before
  t.ok(calls > 0 && calls < 15, `${calls} calls`)
  writes.count = 0
  await Promise.all(many(5, i => [entry(log([i + 1, 60_000]))]).map(decide))
  t.equal(writes.count, 1, 'decisions of five mixtures leave in one write as well')
  writes.count = 0
  const alone = decide([entry(spec, 'alone')])
  await turn()
  t.equal(writes.count, 1, 'once all are answered, a single decision leaves at once')
  await alone
})

t.test('a decision whose answer is lost with the connection is not asked again', async t => {
  const { store } = await open()
  const losing = client.duplicate({ retryStrategy: () => 1, maxRetriesPerRequest: 0 })
  t.teardown(() => losing.disconnect())
  const other = new RedisStore(losing, 'test:')
  const spec = log([9, 60_000])
  await other.reserve([entry(spec)], '')
  for (const together of [1, 5]) {
    const entries = [entry(spec, `lost ${together}`)]
    const asked = many(together, () => other.reserve(entries, ''))
    await turn()
    losing.stream.destroy()
    const ended = await Promise.allSettled(asked)
    t.ok(
      ended.every(({ status }) => status === 'rejected'),
      'each is rejected'
    )
    await other.peek(entries)
    t.ok(Number(usedOf(entries, await store.peek(entries))[0]) <= together, 'each is counted once at most')
  }
})

t.test('decisions lost with the connection hold up no later decision', async t => {
  await open()
  const losing = client.duplicate({ autoResendUnfulfilledCommands: false, retryStrategy: () => 1 })
  t.teardown(() => losing.disconnect())
  const other = new RedisStore(losing, 'test:')
  const entries = [entry(log([9, 60_000]))]
  await other.reserve(entries, '')
  for (let i = 0; i < 5; i++) other.reserve(entries, '').catch(() => {})
  await turn()
  losing.stream.destroy()
  await once(losing, 'ready')
  const writes = written(losing)
  const alone = other.reserve(entries, '')
  await turn()
  t.equal(writes.count, 1, 'it leaves at once')
  await alone
})

t.test('each of several decisions at once finds what those before it have counted', async t => {
  const { decide, warm } = await open()
  const specs = [log([7, 60_000]), count(1_000, 'day')]
  const entries = specs.map(spec => entry(spec))
  await warm(entries)
  const all = await Promise.all(many(50, () => entries).map(decide))
  t.strictSame(
    all.map(facts => facts.entries.map(each => each.limits[0]?.used)),
    all.map((_, i) => [Math.min(i, 7), Math.min(i, 7)])
  )
  t.equal(all.filter(facts => facts.admitted).length, 7)
  for (const i of [0, 1])
    t.equal(new Set(all.map(facts => facts.entries[i]?.receipt)).size, 8, 'receipts of their own, and none')
  t.equal(await client.strlen(keyOf(entries[0] as Entry)), 7 * 6)
})

t.test(
  'decisions whose limits come with their requests share calls too, each under its own limits',
  async t => {
    const { decide } = await open()
    await new RedisServer(client, 'test:').load()
    const spec = log([1_000, 60_000])
    const perDay = count(1_000, 'day')
    const before = (await scriptCalls(client)).called
    const asked = many(60, i => [entry(spec, i % 2, [5 + (i % 2)]), { ...entry(perDay, i), zoned: true }])
    const all = await Promise.all(asked.map(decide))
    t.ok((await scriptCalls(client)).called - before < 20)
    const admitted = (which: number) => all.filter((facts, i) => i % 2 === which && facts.admitted).length
    t.strictSame([0, 1].map(admitted), [5, 6])
  }
)

t.test('decisions that take Redis longer are sent in smaller calls', async t => {
  const { decide } = await open()
  const calls = async (entries: readonly Entry[]) => {
    await decide(entries)
    const before = (await scriptCalls(client)).called
    await Promise.all(many(60, () => [...entries]).map(decide))
    return (await scriptCalls(client)).called - before
  }
  const short = await calls([entry(log([10, 60_000]))])
  const long = await calls(many(4, () => entry(log([1_000, 60_000]))))
  const pairs = await calls(many(2, i => sentTo(distinct([2, 60_000]), i)))
  t.ok(short <= 6 && long >= 12 && pairs >= 6, `${short} · ${long} · ${pairs} calls`)
})

t.test('one call makes as many decisions as its script allows, and no more', async t => {
  const { decide } = await open()
  const entries = many(4, () => entry(log([1_000, 60_000])))
  const most = new Mixtures().scriptFor(entries).maxDecisions ?? 0
  t.ok(most > 1 && most < 7, 'all leave together')
  await decide(entries)
  for (const [asked, calls] of [
    [most, 1],
    [most + 1, 2]
  ] as const) {
    const before = (await scriptCalls(client)).called
    await Promise.all(many(asked, () => entries).map(decide))
    t.equal((await scriptCalls(client)).called - before, calls, `${asked}`)
  }
})

t.test('decisions of different mixtures at once are each made by their own limits', async t => {
  const { decide } = await open()
  const [one, two] = [log([1, 60_000]), log([2, 60_000])]
  const own = log([9, 60_000])
  const asked = many(30, i => [i % 3 === 0 ? entry(one) : i % 3 === 1 ? entry(two) : entry(own, 'a', [3])])
  const all = await Promise.all(asked.map(decide))
  const admitted = (which: number) => all.filter((facts, i) => i % 3 === which && facts.admitted).length
  t.strictSame([0, 1, 2].map(admitted), [1, 2, 3])
})

t.test('of decisions at once for one lock, one gets it', async t => {
  const { store, decide, warm } = await open()
  const entries = [entry(lock(30_000)), entry(observed(lock(30_000)))]
  await warm(entries)
  await client.flushall()
  const all = await Promise.all(many(20, () => entries).map(decide))
  t.equal(all.filter(facts => facts.admitted).length, 1)
  t.equal(await store.renew(entries[0] as Entry, 'somebody else, 24 chars.'), false)
})

t.test('decisions at once count different values as they would one after another', async t => {
  const { decide, warm } = await open()
  const spec = distinct([3, 60_000])
  await warm([sentTo(spec, 0)])
  const all = await Promise.all(many(20, i => [sentTo(spec, i % 5)]).map(decide))
  t.strictSame(
    all.map(facts => facts.admitted),
    all.map((_, i) => i % 5 < 3)
  )
})

t.test('an error of one decision fails no other in its call, and nothing is counted twice', async t => {
  const { decide, warm } = await open()
  const spec = log([5, 60_000])
  const shared = entry(count(1_000, 'day'))
  await warm([entry(spec), shared])
  const asked = many(40, i => [entry(spec, i), shared])
  const [foreign, damaged] = [asked[17], asked[30]].map(entries => entries?.[0] as Entry)
  await client.rpush(keyOf(foreign as Entry), 'theirs')
  await client.set(keyOf(damaged as Entry), 'abc')
  const all = await Promise.allSettled(asked.map(decide))
  const failed = all.flatMap(({ status }, i) => (status === 'rejected' ? [i] : []))
  t.strictSame(failed, [17, 30])
  t.match(all[17], { reason: /WRONGTYPE/ })
  t.match(all[30], { reason: /data string too short/ })
  const used = all.map(each => (each.status === 'fulfilled' ? each.value.entries[1]?.limits[0]?.used : -1))
  t.strictSame(new Set(used), new Set([-1, ...Array(38).keys()]))
  for (const [i, [mine]] of asked.entries())
    if (![17, 30].includes(i)) t.equal(await client.strlen(keyOf(mine as Entry)), 6)
  t.strictSame(await client.lrange(keyOf(foreign as Entry), 0, -1), ['theirs'])
})

t.test('a foreign value of any size is read as stamps, and shifts no other value in its call', async t => {
  const { decide, warm } = await open()
  const spec = log([1_000, 60_000])
  await warm([entry(spec)])
  const asked = many(9, i => [entry(spec, i)])
  for (const [i, size] of [30, 36, 252, 258, 65_532, 65_538, 300_000].entries())
    await client.set(keyOf(asked[i]?.[0] as Entry), fields(...Array.from({ length: size / 6 }, () => 1)))
  const all = await Promise.all(asked.map(decide))
  t.ok(all.every(facts => facts.admitted))
  t.strictSame(
    all.map(facts => facts.entries[0]?.limits[0]?.used),
    Array(9).fill(0),
    'its stamps are long out of the window'
  )
  t.equal((await decide(asked[6] as Entry[])).entries[0]?.limits[0]?.used, 1)
})

t.test('a lock that is refunded is free for the next decision, even in the same turn', async t => {
  const { store, decide, warm } = await open()
  await new RedisServer(client, 'test:').load()
  const spec = lock(30_000)
  await warm([entry(spec)])
  await client.flushall()
  const held = [entry(spec, 'held')]
  const holder = token()
  await store.reserve(held, holder)
  const [other, , next] = await Promise.all([
    decide([entry(spec, 'other')]),
    store.refund([{ entry: held[0] as Entry, receipt: 1, ends: 0 }], holder),
    decide(held)
  ])
  t.ok(other?.admitted)
  t.ok(next?.admitted)
})

t.test('a cleared entry is free for the next decision, even in the same turn', async t => {
  const { store, decide, warm } = await open()
  const [entries, spec] = [[entry(lock(30_000))], log([1, 60_000])]
  await warm(entries)
  const [first, , next, ...looks] = await Promise.all([
    decide(entries),
    store.clear(entries),
    decide(entries),
    store.peek(entries),
    store.peek([entry(spec)])
  ])
  t.strictSame([first.admitted, next.admitted], [true, true])
  t.strictSame([usedOf(entries, looks[0]), usedOf([entry(spec)], looks[1])], [[1], [0]])
})

t.test(
  'refunds at once share calls: each gives back its own slots once, and an error of one fails no other',
  async t => {
    const { store } = await open()
    await new RedisServer(client, 'test:').load()
    const [rolling, locked, shared] = [log([5, 60_000]), lock(30_000), entry(count(1_000, 'day'))]
    const asked = many(40, i => [entry(rolling, i), shared, entry(locked, i)])
    const holders = asked.map(token)
    const taken = await Promise.all(
      asked.map(async (entries, i) =>
        takenOf(entries, named(entries, await store.reserve(entries, holders[i] as string)))
      )
    )
    const left = () =>
      client.exists(...asked.flatMap(([mine, , own]) => [mine, own]).map(each => keyOf(each as Entry)))
    const used = async () => usedOf([shared], await store.peek([shared]))[0]
    const refund = (i: number, by = i) => store.refund(taken[i] as Taken[], holders[by] as string)
    await Promise.all([refund(0), refund(0), refund(1, 2)])
    t.strictSame(
      [await used(), await left()],
      [38, 77],
      'a repeated refund gives back one slot, and only its holder releases a lock'
    )
    const damaged = entry(count(1_000, 'day'), 'damaged')
    await client.set(keyOf(damaged), 'abc')
    const before = (await scriptCalls(client)).called
    const [failed] = await Promise.allSettled([
      store.refund([{ entry: damaged, receipt: 1, ends: 1 }], ''),
      ...many(7, i => refund(i))
    ])
    t.match(failed, { status: 'rejected', reason: /data string too short/ })
    t.strictSame([await used(), await left()], [33, 66])
    await Promise.all(many(33, i => refund(7 + i)))
    t.ok((await scriptCalls(client)).called - before < 20)
    t.strictSame([await used(), await left()], [0, 0])
  }
)

t.test('a Redis that takes no writes fails all decisions at once, and nothing is written', async t => {
  const { decide, warm } = await open()
  const spec = log([5, 60_000])
  await warm([entry(spec)])
  const asked = many(20, i => [entry(spec, i)])
  await client.config('SET', 'maxmemory', '1')
  t.teardown(() => client.config('SET', 'maxmemory', '0'))
  const all = await Promise.allSettled(asked.map(decide))
  for (const each of all) t.match(each, { status: 'rejected', reason: /OOM/ })
  const writes = written(client)
  const alone = decide(asked[0] as Entry[])
  await turn()
  t.equal(writes.count, 1, 'all are answered, so a single decision leaves at once')
  await t.rejects(alone, /OOM/)
  await client.config('SET', 'maxmemory', '0')
  t.equal(await client.dbsize(), 0)
  t.ok((await Promise.all(asked.map(decide))).every(facts => facts.admitted))
})

t.test('only the decisions that were sent with wrong calendar periods are asked again', async t => {
  const { time, decide, warm } = await open()
  const [day, rolling] = [count(5, 'day'), log([5, 60_000])]
  const both = (i: number) => [entry(rolling, i), entry(day, i)]
  await warm(both(0))
  await decide(both(99))
  // For a period that has begun, Redis needs no boundaries.
  time.advanceMs(3 * 86_400_000)
  await Promise.all(
    [1, 2].map(i =>
      client.set(keyOf(both(i)[1] as Entry), fields(time.ticks + 8_640_000_000, 1, 1), 'PX', 9e7)
    )
  )
  const all = await Promise.all(many(8, both).map(decide))
  t.ok(all.every(facts => facts.admitted))
  t.strictSame(
    all.map(facts => facts.entries.map(each => each.limits[0]?.used)),
    all.map((_, i) => [0, i === 1 || i === 2 ? 1 : 0])
  )
})

t.test('scripts that Redis has forgotten are sent again, with all the decisions', async t => {
  const { decide, warm } = await open()
  const entries = [entry(log([10, 60_000]))]
  await warm(entries)
  await client.script('FLUSH')
  const all = await Promise.all(many(30, () => entries).map(decide))
  t.equal(all.filter(facts => facts.admitted).length, 10)
})

/** A Redis value made of these numbers. */
function fields(...numbers: number[]): Buffer {
  const value = Buffer.alloc(numbers.length * 6)
  for (const [i, number] of numbers.entries()) value.writeUIntBE(number, i * 6, 6)
  return value
}

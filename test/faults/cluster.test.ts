import t from 'tap'
import { ADMITTED, BLOCKED, PASSES, REFUSES } from '../../plugin/store/facts.js'
import { RedisStore } from '../../plugin/store/redis.js'
import type { Entry, Spec } from '../../plugin/store/store.js'
import {
  count,
  entry,
  identity,
  lock,
  log,
  named,
  observed,
  takenOf,
  token,
  usedOf
} from '../contract/specs.js'
import { Time } from '../contract/time.js'
import { clusterOf, startCluster } from '../helper/cluster.js'
import { scriptCalls } from '../helper/redis.js'
import { written } from '../helper/writes.js'

const START = '2026-03-01T00:00:00Z'
const cluster = await startCluster(t)
const client = await cluster.connect()
const { store } = clusterOf(new RedisStore(client, 'test:'))

/** By node, some people whose keys are on it. */
const people: string[][] = [[], [], []]
for (let i = 0; people.some(some => some.length < 20); i++)
  people[await cluster.nodeOf(`test:{${identity(`p${i}`)}}:x`)]?.push(`p${i}`)

function on(node: number, spec: Spec, person = 0): Entry {
  return entry(spec, people[node]?.[person])
}

async function open(): Promise<Time> {
  await cluster.flush()
  return new Time(START, cluster.clock)
}

async function reserve(entries: Entry[]) {
  const holder = token()
  const facts = named(entries, await store.reserve(entries, holder))
  return { ...facts, holder, taken: takenOf(entries, facts) }
}

async function used(entries: Entry[]): Promise<(number | undefined)[]> {
  return usedOf(entries, await store.peek(entries))
}

const states = ({ entries }: { entries: { state: number }[] }) => entries.map(({ state }) => state)
const receipts = ({ entries }: { entries: { receipt: number }[] }) => entries.map(each => each.receipt !== 0)

async function keys(): Promise<number[]> {
  return (await cluster.contents()).map(found => Object.keys(found).length)
}

t.test('one decision counts on every node, and a refund gives back every slot', async t => {
  const time = await open()
  const entries = [
    on(0, log([1, 60_000])),
    on(1, count(1, 'day')),
    on(2, lock(30_000)),
    on(1, log([3, 9_000]), 1)
  ]
  const first = await reserve(entries)
  t.equal(first.admitted, true)
  t.strictSame(receipts(first), [true, true, true, true])
  t.strictSame(await keys(), [1, 2, 1])
  const second = await reserve(entries)
  t.equal(second.admitted, false)
  t.strictSame(states(second), [REFUSES, REFUSES, REFUSES, PASSES], 'every entry that refuses is named')
  t.strictSame(receipts(second), [false, false, false, false])
  await store.refund(first.taken, first.holder)
  t.strictSame(await used(entries), [0, 0, 0, 0])
  time.advanceMs(1)
  const third = await reserve(entries)
  await store.refund(first.taken, first.holder)
  t.equal(third.admitted, true)
  t.strictSame(
    await used(entries),
    [1, 1, 1, 1],
    'the repeated refund gives back nothing of the next decision'
  )
})

t.test('the facts come in the order of the entries, however the nodes alternate', async t => {
  const time = await open()
  const entries = [
    on(2, log([5, 1_000], [9, 60_000])),
    on(0, lock(30_000)),
    on(2, count(4, 'hour')),
    on(1, log([2, 5_000])),
    on(0, log([3, 7_000])),
    on(2, lock(20_000))
  ]
  t.equal((await reserve(entries)).admitted, true)
  time.advanceMs(100)
  const told = named(entries, await store.peek(entries))
  t.equal(told.now, time.ticks)
  t.strictSame(
    told.entries.map(({ limits }) => limits.map(({ reset }) => reset / 100)),
    [[900, 59_900], [29_900], [3_599_900], [4_900], [6_900], [19_900]]
  )
})

t.test('a decision that one node refuses changes no byte on any node', async t => {
  const time = await open()
  const specs = { log: log([1, 600_000]), count: count(1, 'day'), lock: lock(600_000) }
  const room = log([50, 600_000])
  const blocked = on(0, log([5, 600_000]), 3)
  t.equal((await reserve([on(0, specs.log), on(1, specs.count), on(2, specs.lock)])).admitted, true)
  t.equal((await reserve([0, 1, 2].map(node => on(node, room, 1)))).admitted, true)
  await store.block([blocked], 0)
  const before = await cluster.contents()
  const fulls: [Entry, number][] = [
    [on(0, specs.log), REFUSES],
    [on(1, specs.count), REFUSES],
    [on(2, specs.lock), REFUSES],
    [blocked, BLOCKED]
  ]
  for (const [full, state] of fulls) {
    for (const person of [1, 2]) {
      time.advance(137)
      const others = [0, 1, 2].map(node => on(node, room, person))
      const rest = [on(1, count(9, 'hour'), person), on(2, lock(1_000), person)]
      const answer = await reserve([...others, full, ...rest])
      t.equal(answer.admitted, false)
      t.strictSame(states(answer), [PASSES, PASSES, PASSES, state, PASSES, PASSES])
      t.strictSame(answer.taken, [])
    }
  }
  t.strictSame(await cluster.contents(), before)
})

t.test('observed rules are counted with the others, and refuse nothing', async t => {
  await open()
  const seen = on(1, observed(log([1, 60_000])))
  const full = on(2, log([2, 60_000]))
  const entries = [on(0, log([9, 60_000])), seen, full]
  t.strictSame(receipts(await reserve(entries)), [true, true, true])
  const second = await reserve(entries)
  t.equal(second.admitted, true)
  t.strictSame(states(second), [PASSES, REFUSES, PASSES])
  t.strictSame(receipts(second), [true, false, true])
  const before = await cluster.contents()
  const fresh = on(1, observed(log([1, 60_000])), 1)
  const third = await reserve([fresh, ...entries])
  t.equal(third.admitted, false)
  t.strictSame(states(third), [PASSES, PASSES, REFUSES, REFUSES])
  t.strictSame(
    await cluster.contents(),
    before,
    'an observed rule is not counted when a rule in force refuses on another node'
  )
})

t.test(
  'of 50 decisions at once over shared identities no more than max are admitted, and only those are counted',
  async t => {
    const shared = log([9, 60_000])
    const half = count(6, 'day')
    const own = log([1, 60_000])
    for (let round = 0; round < 5; round++) {
      const time = await open()
      const all = Array.from({ length: 50 }, (_, i) => [
        on(0, shared),
        on(1, half, i % 2),
        // Two of them are one person.
        on(2, own, i % 19)
      ])
      const answers = await Promise.all(all.map(entries => reserve(entries)))
      const admitted = answers.flatMap(({ admitted }, i) => (admitted ? [i] : []))
      const accounts = [0, 1].map(n => admitted.filter(i => i % 2 === n).length)
      t.ok(admitted.length >= 1 && admitted.length <= 9, `${admitted.length} of 9`)
      t.ok(Math.max(...accounts) <= 6, `${accounts} of 6`)
      t.equal(new Set(admitted.map(i => i % 19)).size, admitted.length, 'nobody is admitted twice')
      for (const answer of answers) if (!answer.admitted) t.strictSame(answer.taken, [])
      const each = Array.from({ length: 19 }, (_, n) => on(2, own, n))
      const asked = [on(0, shared), on(1, half, 0), on(1, half, 1), ...each]
      const theirs = each.map((_, n) => admitted.filter(i => i % 19 === n).length)
      t.strictSame(
        await used(asked),
        [admitted.length, ...accounts, ...theirs],
        'what was admitted is counted, and no more'
      )
      time.advance(1)
      let more = 0
      for (const entries of all) more += Number((await reserve(entries)).admitted)
      t.equal(admitted.length + more, 9, 'the rest of the limit can still be used')
    }
  }
)

t.test(
  'of 50 decisions at once for a lock on one node, with room on the others, one is admitted',
  async t => {
    const [held, room, calendar] = [lock(30_000), log([60, 60_000]), count(60, 'hour')]
    for (let round = 0; round < 5; round++) {
      await open()
      const entries = [on(0, room), on(1, calendar), on(2, held)]
      const answers = await Promise.all(Array.from({ length: 50 }, () => reserve(entries)))
      const winners = answers.filter(({ admitted }) => admitted)
      t.equal(winners.length, 1)
      t.strictSame(await used(entries), [1, 1, 1])
      const [winner] = winners
      t.equal(
        await store.renew(on(2, held), winner?.holder ?? ''),
        true,
        'the one that was admitted holds the lock'
      )
      for (const { taken, holder } of answers)
        if (holder !== winner?.holder) await store.refund(taken, holder)
      t.strictSame(await used(entries), [1, 1, 1])
      await store.refund(winner?.taken ?? [], winner?.holder ?? '')
      t.strictSame(await used(entries), [0, 0, 0])
    }
  }
)

t.test('of many clients that ask for the last slots on all nodes at once, one is admitted', async t => {
  const clients = await Promise.all(Array.from({ length: 4 }, () => cluster.connect()))
  const stores = clients.map(each => clusterOf(new RedisStore(each, 'test:')).store)
  const entries = [on(0, lock(30_000)), on(1, log([1, 60_000])), on(2, count(1, 'day'))]
  // The clients name the entries in different orders.
  const orders = [entries, entries.toReversed(), [entries[1], entries[2], entries[0]] as Entry[], entries]
  for (let round = 0; round < 40; round++) {
    await open()
    const all = stores.flatMap((each, i) =>
      Array.from({ length: 5 }, () => each.reserve(orders[i] as Entry[], token()))
    )
    const winners = (await Promise.all(all)).filter(facts => facts[ADMITTED] === 1)
    t.equal(winners.length, 1)
    t.strictSame(await used(entries), [1, 1, 1])
  }
})

t.test('locks on several nodes are renewed, and renewing one that has ended says so', async t => {
  const time = await open()
  const both = [on(0, lock(30_000)), on(1, lock(10_000))]
  const { holder } = await reserve(both)
  const renewed = () => Promise.all(both.map(each => store.renew(each, holder)))
  t.strictSame(await renewed(), [true, true])
  time.advanceMs(10_000)
  t.strictSame(await renewed(), [true, false])
  t.strictSame(await used(both), [1, 0])
})

t.test('when the clocks of nodes differ, a count is refunded in its own period', async t => {
  await open()
  const entries = [on(0, log([1, 60_000])), on(1, count(1, 'day')), on(2, count(1, 'hour'))]
  for (const ms of [
    [0, 3_000, -2_000],
    [-7_000, 0, 5_000],
    // Midnight is past on some of the nodes.
    [4_000, -4_000, -1],
    [-4_000, 4_000, 1]
  ]) {
    await cluster.flush()
    for (const [i, { clock }] of cluster.nodes.entries())
      clock.set(Date.parse('2026-03-05T00:00:00Z') + (ms[i] ?? 0))
    const first = await reserve(entries)
    t.equal(first.admitted, true, `${ms}`)
    t.strictSame(await used(entries), [1, 1, 1])
    await store.refund(first.taken, first.holder)
    t.strictSame(await used(entries), [0, 0, 0])
    // A stamp is a receipt: no two in one tick.
    for (const { clock } of cluster.nodes) clock.advance(0.01)
    const again = await reserve(entries)
    await store.refund(first.taken, first.holder)
    t.strictSame(await used(entries), [1, 1, 1], 'the repeated refund gives nothing back')
    t.equal(again.admitted, true)
  }
})

t.test('when the clocks of nodes differ, whoever waits as long as told is admitted', async t => {
  await open()
  const midnight = Date.parse('2026-03-05T00:00:00Z')
  const [ahead, behind] = [on(0, log([9, 60_000])), on(1, count(1, 'day'))]
  const [first, second] = cluster.nodes
  first?.clock.set(midnight + 5_000)
  second?.clock.set(midnight - 3_000)
  t.equal((await reserve([ahead, behind])).admitted, true)
  const refused = await reserve([ahead, behind])
  t.equal(refused.admitted, false)
  t.equal(refused.entries[1]?.limits[0]?.reset, 300_000, "until midnight by the clock of the count's node")
  cluster.clock.advance(2_999)
  t.equal((await reserve([ahead, behind])).admitted, false)
  cluster.clock.advance(1)
  t.equal((await reserve([ahead, behind])).admitted, true)
})

t.test('clear, block and unblock reach every node', async t => {
  await open()
  const entries = [on(0, log([2, 60_000])), on(1, count(2, 'day')), on(2, log([2, 60_000]))]
  await reserve(entries)
  await store.block(entries, 0)
  t.strictSame(states(await reserve(entries)), [BLOCKED, BLOCKED, BLOCKED])
  await store.unblock(entries)
  t.strictSame(await used(entries), [1, 1, 1])
  await store.clear(entries)
  t.strictSame(await keys(), [0, 0, 0])
})

t.test(
  'the keys of one identity share a hash tag, so they are on one node and take one script call',
  async t => {
    await open()
    const specs = [log([2, 60_000]), count(5, 'day'), lock(30_000)]
    for (const node of [0, 1, 2]) {
      const entries = specs.map(spec => on(node, spec))
      // The first decision over a mixture of kinds sends its script.
      await reserve(entries)
      await store.clear(entries)
      await Promise.all(cluster.nodes.map(each => each.client.config('RESETSTAT')))
      t.equal((await reserve(entries)).admitted, true)
      const held = (await cluster.contents()).map(found => Object.keys(found))
      t.strictSame(held[node], entries.map(({ identity: who, spec }) => `test:{${who}}:${spec.name}`).sort())
      const calls = await Promise.all(
        cluster.nodes.map(async each => (await scriptCalls(each.client)).called)
      )
      t.strictSame(
        calls,
        [0, 1, 2].map(n => Number(n === node))
      )
    }
  }
)

t.test('every call goes to the right node at the first try', async t => {
  await open()
  await Promise.all(cluster.nodes.map(each => each.client.config('RESETSTAT')))
  const entries = [on(0, log([2, 60_000])), on(1, count(2, 'day')), on(2, lock(30_000))]
  const { taken, holder } = await reserve(entries)
  await store.peek(entries)
  await store.renew(entries[2] as Entry, holder)
  await store.block(entries.slice(0, 2), 1_000)
  await store.unblock(entries.slice(0, 2))
  await store.refund(taken, holder)
  await store.clear(entries)
  const spec = log([2, 60_000])
  await Promise.all([0, 1, 2, 0].map((node, i) => store.reserve([on(node, spec, i)], token())))
  for (const { client } of cluster.nodes) t.notMatch(await client.info('errorstats'), /MOVED|CROSSSLOT/)
})

t.test('decisions asked for together leave in one write to each node', async t => {
  await open()
  const writes = client.nodes('master').map(written)
  const spec = log([2, 60_000])
  await Promise.all([0, 1, 2, 0, 1, 2].map((node, i) => store.reserve([on(node, spec, i)], token())))
  t.strictSame(
    writes.map(each => each.count),
    [1, 1, 1]
  )
})

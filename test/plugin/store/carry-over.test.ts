import { deepStrictEqual } from 'node:assert/strict'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { Cluster, Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { Carried } from '../../../plugin/store/carried.js'
import { Fallback } from '../../../plugin/store/fallback.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { Outage } from '../../../plugin/store/outage.js'
import { StandIn } from '../../../plugin/store/stand-in.js'
import type { Entry, Settling, Spec, Store, Taken } from '../../../plugin/store/store.js'
import { watched } from '../../../plugin/store/watched.js'
import { seeded } from '../../contract/history.js'
import {
  costing,
  count,
  distinct,
  entriesOf,
  entry,
  lock,
  log,
  named,
  observed,
  takenOf,
  token,
  usedOf
} from '../../contract/specs.js'
import { Time } from '../../contract/time.js'
import { activeTimers } from '../../helper/active-timers.js'
import { gate } from '../../helper/gate.js'
import { intervals } from '../../helper/intervals.js'
import { until } from '../../helper/until.js'

/** Long enough for a busy machine. */
const TIMEOUT_MS = 200
const FULL = new Error('OOM command not allowed')
const KEY = new Error('WRONGTYPE of a key')

/** A store that fails while `broken` is set, with a stand-in memory. */
function open(t?: Test, { maxKeys = 1_000, timeout = TIMEOUT_MS } = {}) {
  const time = new Time('2026-03-01T00:00:00Z')
  const memory = new MemoryStore({ clock: time.clock, maxKeys: 200_000 })
  const own = new MemoryStore({ clock: time.clock, maxKeys })
  const standIn = new StandIn(own)
  const state: { broken?: Error; ofWrites?: Error; nodeOf?: (entry: Entry) => Outage; told: number } = {
    told: 0
  }
  const lost = <T>(call: () => T, ...breaks: (Error | undefined)[]): T => {
    for (const error of breaks) if (error) throw error
    return call()
  }
  const primary: Store = {
    ...watched(memory, () => {}),
    name: 'redis',
    reserve: async (entries, token) => {
      const refuses = lost(() => memory.peek(entries), state.broken)[1] === 0
      return lost(() => memory.reserve(entries, token), refuses ? undefined : state.ofWrites)
    },
    count: async (entry, ago, ends) => {
      state.told++
      return lost(() => memory.count(entry, ago, ends), state.broken, state.ofWrites)
    },
    peek: async entries => lost(() => memory.peek(entries), state.broken)
  }
  const heard: unknown[] = []
  const outage = new Outage(timeout)
  const fallback = new Fallback(primary, {
    timeout,
    substitute: standIn,
    outageOf: ([entry]) => state.nodeOf?.(entry as Entry) ?? outage,
    isRequestError: error => error === KEY,
    onError() {},
    onUncounted: (error, entries) => heard.push(error, entries),
    onRefundFailed: error => heard.push(error)
  })
  t?.teardown(() => fallback.close())
  const used = (entries: readonly Entry[]) => usedOf(entries, memory.peek(entries))
  async function send(entries: readonly Entry[]): Promise<{ taken: Taken[]; store: Settling } | undefined> {
    const { facts, store } = await fallback.reserve(entries, '')
    const found = named(entries, facts ?? [])
    return found.admitted ? { taken: takenOf(entries, found), store } : undefined
  }
  const back = () =>
    until(async () => {
      // When nothing waits to be carried over, a look finds out whether the store is back.
      await fallback.peek([entry(specs[0] as Spec)])
      return !outage.lost
    }, 'its return')
  return { time, memory, own, primary, state, outage, fallback, heard, used, send, back }
}

const gone = () => new Error('gone')

const specs = [log([2, 1_000], [5, 10_000]), count(6, 'hour'), distinct([2, 5_000]), count(9, 'day')]
/** What one send is counted as, with a cost under the last spec. */
const sendOf = (who: number, value: number) =>
  entriesOf(specs, who, value).map(each => (each.spec === specs[3] ? costing(each, value) : each))
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ send: fc.integer({ min: 0, max: 2 }), value: fc.integer({ min: 1, max: 3 }) })
  },
  { weight: 2, arbitrary: fc.record({ refund: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ lost: fc.boolean() }) },
  {
    weight: 3,
    arbitrary: fc.record({
      wait: fc.oneof(fc.integer({ max: 400_000, min: 1 }), fc.constant(360_000_000))
    })
  }
)

/** Breaks the store, and sends once so that the loss is found out. @returns that send */
async function lose({ state, send }: ReturnType<typeof open>) {
  state.broken = gone()
  return send([entry(log([1, 60_000]), 'first')])
}

/** Holds back the answers to carried-over sends. @returns the gate that lets them through */
function withheld(primary: Store) {
  const told = gate()
  const { count } = primary
  primary.count = async (...given) => {
    await told.opened
    return count(...given)
  }
  return told
}

t.test('with one process, decisions are the same as if the store had never been lost', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async steps => {
      const { time, memory, state, fallback, send, back } = open(undefined, { timeout: 20 })
      const never = new MemoryStore({ clock: time.clock })
      const sent: [Awaited<ReturnType<typeof send>>, Taken[]][] = []
      for (const each of steps) {
        time.advance(1)
        if ('send' in each) {
          const entries = sendOf(each.send, each.value)
          const found = await send(entries)
          const expected = named(entries, never.reserve(entries, ''))
          deepStrictEqual(found !== undefined, expected.admitted)
          if (found) sent.push([found, takenOf(entries, expected)])
        } else if ('wait' in each) time.advance(each.wait)
        else if ('lost' in each) {
          if (each.lost) state.broken = gone()
          else delete state.broken
          if (!each.lost) await back()
        } else if (sent.length > 0) {
          const [found, taken] = sent[each.refund % sent.length] as (typeof sent)[number]
          await found?.store.refund(found.taken, '')
          never.refund(taken, '')
        }
      }
      delete state.broken
      await back()
      for (const who of [0, 1, 2])
        deepStrictEqual(memory.peek(entriesOf(specs, who)), never.peek(entriesOf(specs, who)))
      await fallback.close()
      never.close()
    }),
    seeded(t, 100)
  )
})

t.test('locks, attempts and observed rules are not carried over', async t => {
  const opened = open(t)
  const { state, fallback, used, back } = opened
  await lose(opened)
  const attempts = { ...log([5, 60_000]), forgettable: true }
  const entries = [lock(60_000), attempts, observed(log([5, 60_000])), log([5, 60_000])].map(each =>
    entry(each)
  )
  await fallback.reserve(entries, token())
  delete state.broken
  await back()
  t.strictSame(used(entries), [0, 0, 0, 1])
  t.equal(state.told, 2)
})

t.test('while sends wait to be carried over, no decision waits for the store', async t => {
  const opened = open(t)
  const { primary, fallback, outage } = opened
  await lose(opened)
  primary.reserve = () => t.fail('asked') as never
  for (let i = 0; i < 20; i++) await setImmediate(await fallback.reserve([entry(log([1, 60_000]), i)], ''))
  t.ok(outage.lost)
})

t.test('sends are carried over as soon as it is known that the store is back', async t => {
  for (const known of ['by a later decision', 'while the send is decided']) {
    const { outage, used, send } = open(t, { timeout: 3_600_000 })
    const sent = [entry(log([1, 60_000]))]
    outage.failed(gone())
    const sending = send(sent)
    if (known === 'by a later decision') await sending
    outage.answered(true)
    t.ok(await sending)
    if (known === 'by a later decision') await send([entry(log([1, 60_000]), 'later')])
    await until(() => used(sent)[0] === 1, `the carry-over, ${known}`)
  }
})

t.test(
  'while sends beyond the first 32 are still to be carried over, the store and the memory both decide',
  async t => {
    const opened = open(t)
    const { memory, primary, outage, fallback, used, send } = opened
    const spec = log([1, 60_000])
    await lose(opened)
    for (let who = 0; who < 100; who++) await send([entry(spec, who)])
    const told = gate()
    const { count } = primary
    let telling = 0
    primary.count = async (...given) => {
      if (telling++ >= 32) await told.opened
      return count(...given)
    }
    delete opened.state.broken
    await until(() => !outage.lost, 'its return')
    const decided = async (entries: Entry[]) => {
      const { facts, store } = await fallback.reserve(entries, token())
      return [store.name, facts?.[1]]
    }
    const [late, elsewhere, other] = [99, 'elsewhere', 'other'].map(who => entry(spec, who)) as [
      Entry,
      Entry,
      Entry
    ]
    memory.reserve([elsewhere], '')
    t.strictSame(used([late]), [0])
    t.strictSame(await decided([late]), ['memory', 0])
    const beside = entry(log([9, 60_000]))
    t.strictSame(await decided([elsewhere, beside]), ['redis', 0])
    t.strictSame(await decided([other, beside]), ['redis', 1])
    t.strictSame(await decided([other]), ['memory', 0])
    const locked = entry(lock(60_000))
    const taken = await fallback.reserve([locked, beside], token())
    t.equal(taken.store.name, 'redis')
    told.open()
    await until(() => used([late])[0] === 1, 'the other carry-overs')
    t.strictSame(used([other, beside]), [1, 2])
    t.equal(telling, 101, 'each send was carried over once, and no other')
  }
)

t.test(
  'what the store admits in time passes only if the memory has admitted nothing in its place',
  async t => {
    const opened = open(t, { timeout: 3_600_000 })
    const { memory, primary, state, used, send } = opened
    const [once, twice] = [[entry(log([1, 60_000]))], [entry(log([2, 60_000]))]]
    const full = [entry(log([1, 60_000]))]
    memory.reserve(full, '')
    const { reserve } = primary
    const hangs = gate()
    primary.reserve = async (entries, token) => {
      await hangs.opened
      return reserve(entries, token)
    }
    const underWay = [once, twice, full].map(send)
    primary.reserve = reserve
    await lose(opened)
    t.ok(await send(once))
    t.ok(await send(twice))
    delete state.broken
    hangs.open()
    const [refused, admitted, elsewhere] = await Promise.all(underWay)
    t.strictSame([refused, elsewhere], [undefined, undefined])
    await until(() => used(once)[0] === 1 && used(twice)[0] === 2, 'the carry-over')
    await admitted?.store.refund(admitted.taken, '')
    t.strictSame(used([...once, ...twice, ...full]), [1, 1, 1])
  }
)

t.test('a send admitted while a store took no writes limits its key before it is carried over', async t => {
  const { primary, state, fallback, used, send } = open(t)
  const sent = [entry(log([1, 60_000]))]
  state.ofWrites = FULL
  t.ok(await send(sent))
  const told = withheld(primary)
  delete state.ofWrites
  // By then a decision may ask the store.
  await sleep(2 * TIMEOUT_MS)
  t.equal((await fallback.reserve(sent, '')).facts?.[1], 0)
  t.strictSame(used(sent), [0])
  told.open()
  await until(() => used(sent)[0] === 1, 'the carry-over')
})

t.test(
  'a replica that takes over a lost node decides together with the memory until the sends are carried over',
  async t => {
    const opened = open(t)
    const { primary, state, outage, fallback, used, send } = opened
    await lose(opened)
    const sent = [entry(log([1, 60_000]))]
    t.ok(await send(sent))
    const told = withheld(primary)
    delete state.broken
    const other = new Outage(TIMEOUT_MS)
    state.nodeOf = () => other
    outage.answered(true)
    const { facts, store } = await fallback.reserve(sent, '')
    t.strictSame([store.name, facts?.[1]], ['memory', 0])
    t.strictSame(used(sent), [0])
    told.open()
    await until(() => used(sent)[0] === 1, 'the carry-over')
  }
)

t.test(
  'a slot that the memory held while a failing store was asked is free again when the memory decides',
  async t => {
    const opened = open(t)
    const { state, outage, fallback, send } = opened
    const spec = log([1, 60_000])
    await lose(opened)
    t.ok(await send([entry(spec, 'waits')]))
    const other = new Outage(TIMEOUT_MS)
    state.nodeOf = () => other
    outage.answered(true)
    const { facts, store } = await fallback.reserve([entry(spec)], '')
    t.strictSame([store.name, facts?.[1]], ['memory', 1])
  }
)

t.test('of one send a slot that was refunded is not carried over, and the other one is', async t => {
  const opened = open(t)
  const { state, used, send } = opened
  await lose(opened)
  const [kept, given] = [entry(log([2, 60_000])), entry(count(2, 'hour'))]
  const sent = await send([kept, given])
  await sent?.store.refund(
    sent.taken.filter(each => each.entry === given),
    ''
  )
  delete state.broken
  await until(() => used([kept])[0] === 1, 'the carry-over')
  t.strictSame(used([given]), [0])
})

t.test(
  'sends that waited for an unknown node are carried over to the node of their key once that answers',
  async t => {
    const opened = open(t)
    const { primary, state, outage, heard, used, send } = opened
    await lose(opened)
    const [there, away] = [1, 2].map(who => entry(log([1, 60_000]), who)) as [Entry, Entry]
    for (const each of [there, away]) await send([each])
    const { count, peek } = primary
    let isAway = true
    const lost = (each?: Entry) => {
      if (isAway && each?.identity === away.identity) throw gone()
    }
    primary.count = async (each, ...more) => {
      lost(each)
      return count(each, ...more)
    }
    primary.peek = async entries => {
      lost(entries[0])
      return peek(entries)
    }
    const [one, other] = [new Outage(TIMEOUT_MS), new Outage(TIMEOUT_MS)]
    state.nodeOf = ({ identity }) => (identity === away.identity ? other : one)
    delete state.broken
    outage.answered(true)
    await until(() => used([there])[0] === 1, 'the carry-over to the node that answers')
    await sleep(2 * TIMEOUT_MS)
    isAway = false
    await until(() => used([away])[0] === 1, 'the carry-over to the other node')
    t.strictSame(heard, [])
  }
)

t.test('a send that the store itself counted too late is not carried over', async t => {
  for (const [counts, told] of [
    ['admits', 0],
    ['refuses', 1],
    ['fails', 1],
    ['is silent', 1]
  ] as const) {
    const { memory, primary, state, outage, used, send, back } = open(t)
    const entries = [entry(log([5, 60_000]))]
    const answered = gate()
    const { reserve } = primary
    primary.reserve = async () => {
      await answered.opened
      if (counts === 'fails') throw gone()
      if (counts === 'is silent') await new Promise(() => {})
      const refused = [0, 0, 1, 0, 1, 0]
      return counts === 'admits' ? memory.reserve(entries, '') : refused
    }
    state.broken = gone()
    t.ok(await send(entries))
    t.ok(outage.lost)
    answered.open()
    await setImmediate()
    primary.reserve = reserve
    delete state.broken
    await back()
    t.equal(state.told, told, counts)
    t.strictSame(used(entries), [1])
  }
})

t.test(
  'the carry-over waits one time-out for late answers once the store answers, however long it was lost',
  async t => {
    const { memory, primary, state, used, send, back } = open(t)
    const entries = [entry(log([5, 60_000]))]
    const answered = gate()
    const { peek, reserve } = primary
    primary.reserve = async () => {
      await answered.opened
      return memory.reserve(entries, '')
    }
    primary.peek = async asked => {
      const facts = await peek(asked)
      void sleep(TIMEOUT_MS / 4).then(answered.open)
      return facts
    }
    state.broken = gone()
    t.ok(await send(entries))
    primary.reserve = reserve
    await sleep(2 * TIMEOUT_MS)
    delete state.broken
    await back()
    t.strictSame([state.told, used(entries)], [0, [1]])
  }
)

t.test(
  'a late answer is waited for one time-out from the send on, if the store answered before that',
  async t => {
    const counted = sleep(TIMEOUT_MS / 4).then(() => false)
    const carried = new Carried({ entry: entry(log([5, 60_000])), receipt: 1, ends: 0 }, 0, counted)
    const store = { count: () => t.fail('counted twice') as never }
    const answers = performance.now() - 2 * TIMEOUT_MS
    t.equal(await carried.count(store, () => 0, TIMEOUT_MS, answers), 0)
  }
)

t.test('a carry-over that a store without room refuses is tried again until it has room', async t => {
  const { memory, state, outage, heard, fallback, used, send, back } = open(t)
  const [full, sent] = [[entry(log([1, 60_000]), 1)], [entry(log([1, 60_000]), 2)]]
  memory.reserve(full, '')
  state.ofWrites = FULL
  t.ok(await send(sent))
  await until(() => state.told > 1, 'a second try')
  const storeOf = async (entries: Entry[]) => (await fallback.reserve(entries, '')).store.name
  await until(async () => (await storeOf(full)) === 'redis', 'a refusal by the store itself')
  t.ok(outage.lost)
  delete state.ofWrites
  await back()
  t.strictSame([used(sent), heard], [[1], []])
})

t.test('a store that is back without room is asked what it refuses while sends wait for room', async t => {
  const opened = open(t)
  const { memory, state, outage, fallback } = opened
  const full = [entry(log([1, 60_000]))]
  memory.reserve(full, '')
  await lose(opened)
  state.ofWrites = FULL
  delete state.broken
  await until(async () => (await fallback.peek(full)).store.name === 'redis', 'a refusal by the store itself')
  t.ok(outage.lost)
  state.broken = gone()
  await until(() => outage.silent, 'its silence')
  t.equal((await fallback.peek(full)).store.name, 'memory')
})

/** Clients that are not connected, and queue nothing. */
const turningAway = {
  'a single Redis': () => new Redis({ port: 1, enableOfflineQueue: false, retryStrategy: null }),
  'a cluster': () => new Cluster([{ port: 1 }], { enableOfflineQueue: false, clusterRetryStrategy: null })
}

for (const [whose, connect] of Object.entries(turningAway))
  t.test(`a carry-over that never left the client of ${whose} is tried again`, async t => {
    const client = connect().on('error', () => {})
    t.teardown(() => client.disconnect())
    const turnedAway = await client.get('key').catch(error => error)
    const opened = open(t)
    const { primary, state, heard, used, send, back } = opened
    await lose(opened)
    const entries = [1, 2].map(who => entry(log([1, 60_000]), who))
    for (const each of entries) await send([each])
    const { count } = primary
    primary.count = async () => {
      primary.count = count
      throw turnedAway
    }
    delete state.broken
    await back()
    await until(() => used(entries)[0] === 1, 'a second try')
    t.strictSame([used(entries), heard], [[1, 1], []])
  })

t.test('sends whose carry-over is tried again count in the order in which they were admitted', async t => {
  const opened = open(t)
  const { time, memory, state, used, send, back } = opened
  await lose(opened)
  const entries = [entry(log([100, 60_000]), 1)]
  for (let sends = 0; sends < 40; sends++) {
    time.advanceMs(1_000)
    await send(entries)
  }
  state.ofWrites = FULL
  delete state.broken
  await until(() => state.told > 32, 'a second try')
  delete state.ofWrites
  await back()
  await until(() => used(entries)[0] === 40, 'all sends')
  t.equal(memory.peek(entries)[5], (60 - 39) * 100_000, 'the first one leaves its window first')
})

t.test('a foreign value under a key holds up no other send, and is reported as uncounted', async t => {
  const opened = open(t)
  const { primary, state, heard, used, send, back } = opened
  const entries = Array.from({ length: 40 }, (_, who) => entry(log([1, 60_000]), who))
  await lose(opened)
  for (const each of entries) await send([each])
  const { count, peek } = primary
  primary.count = async (each, ...more) => {
    if (each === entries[1]) throw KEY
    return count(each, ...more)
  }
  let looks = 0
  primary.peek = async all => {
    // All other looks ask whether the store is back.
    if (!state.broken && all[0]?.spec !== specs[0] && looks++ === 0) throw KEY
    return peek(all)
  }
  delete state.broken
  await back()
  await until(() => used(entries).at(-1) === 1, 'the last carry-over')
  t.strictSame([used(entries.slice(0, 3)), heard, looks], [[1, 0, 1], [KEY, 1], 1])
})

t.test(
  'sends whose carry-over is not answered are reported as uncounted, and not carried over again',
  async t => {
    const opened = open(t)
    const { primary, state, heard, used, send, back } = opened
    await lose(opened)
    const entries = Array.from({ length: 100 }, (_, who) => entry(log([1, 60_000]), who))
    for (const each of entries) await send([each])
    const { count } = primary
    let told = 0
    primary.count = async (...given) => {
      if ([30, 31].includes(told++)) await new Promise(() => {})
      return count(...given)
    }
    delete state.broken
    await back()
    t.equal(told, 101)
    t.equal(used(entries).filter(used => used === 1).length, 98)
    t.match(heard, [{ code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' }, 2])
  }
)

t.test(
  'a refund before the carry-over prevents it, and during or after it gives the slot back in the store',
  async t => {
    const opened = open(t)
    const { primary, state, used, send, back } = opened
    await lose(opened)
    const entries = [1, 2, 3].map(who => [entry(log([1, 60_000]), who)])
    const [before, meanwhile, after] = await Promise.all(entries.map(send))
    let isTelling = false
    const told = gate()
    const { count } = primary
    primary.count = async (...given) => {
      const receipt = await count(...given)
      isTelling = true
      await told.opened
      return receipt
    }
    await before?.store.refund(before.taken, '')
    delete state.broken
    await until(() => isTelling, 'the carry-over')
    const given = meanwhile?.store.refund(meanwhile.taken, '')
    told.open()
    await given
    await back()
    t.strictSame(used(entries.flat()), [0, 0, 1])
    for (let times = 0; times < 2; times++) await after?.store.refund(after.taken, '')
    t.strictSame(used(entries.flat()), [0, 0, 0])
    t.equal(state.told, 3, 'two of the three sends, and the one that found the loss')
  }
)

t.test('a refund reaches a send whose carry-over was answered too late', async t => {
  const opened = open(t)
  const { primary, state, heard, used, send, back } = opened
  await lose(opened)
  const [before, after] = [1, 2].map(who => [entry(log([1, 60_000]), who)]) as [Entry[], Entry[]]
  const sent = [await send(before), await send(after)]
  const late = gate()
  const { count } = primary
  primary.count = async (...given) => {
    await late.opened
    return count(...given)
  }
  delete state.broken
  await until(() => heard.length > 0, 'the report of a missing answer')
  primary.count = count
  await back()
  const given = sent[0]?.store.refund(sent[0].taken, '')
  late.open()
  await given
  await sent[1]?.store.refund(sent[1].taken, '')
  t.strictSame(used([...before, ...after]), [0, 0])
})

t.test('a refund of a send whose carry-over has failed does not ask the store', async t => {
  const opened = open(t)
  const { primary, state, used, send, back } = opened
  await lose(opened)
  const entries = [entry(log([1, 60_000]))]
  const sent = await send(entries)
  state.ofWrites = FULL
  delete state.broken
  await until(() => state.told > 0, 'a try')
  await setImmediate()
  primary.refund = () => t.fail('asked') as never
  await sent?.store.refund(sent.taken, '')
  delete state.ofWrites
  await back()
  t.strictSame(used(entries), [0])
})

t.test('a refund waits no longer than the time-out for its carry-over', async t => {
  const opened = open(t)
  const { primary, state, heard, send } = opened
  await lose(opened)
  const sent = await send([entry(log([1, 60_000]))])
  primary.count = () => new Promise(() => {})
  delete state.broken
  await until(() => heard.length > 0, 'the report of a missing answer')
  await t.rejects(async () => sent?.store.refund(sent.taken, ''), {
    code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE'
  })
})

t.test('a slot that the memory cannot give back is given back in the store all the same', async t => {
  const opened = open(t)
  const { own, state, used, send, back } = opened
  await lose(opened)
  const entries = [entry(log([1, 60_000]))]
  const sent = await send(entries)
  delete state.broken
  await back()
  own.refund = () => {
    throw new Error('full')
  }
  await t.rejects(Promise.resolve(sent?.store.refund(sent.taken, '')), { message: 'full' })
  await until(() => used(entries)[0] === 0, 'its slot')
})

t.test('a send cleared before its carry-over is not carried over', async t => {
  const opened = open(t)
  const { time, state, fallback, used, send, back } = opened
  await lose(opened)
  const [cleared, other] = [log([9, 60_000]), log([9, 60_000])].map(spec => entry(spec)) as [Entry, Entry]
  const somebodyElse = entry(cleared.spec, 'b')
  await send([cleared, other, somebodyElse])
  const clearing = fallback.store.clear([{ ...cleared, spec: { ...cleared.spec } }])
  time.advance(1)
  await send([cleared])
  await clearing
  delete state.broken
  await back()
  t.strictSame(used([cleared, other, somebodyElse]), [1, 1, 1])
})

t.test('a send carried over between a clear and its answer is given back', async t => {
  const opened = open(t)
  const { memory, primary, state, fallback, used, send } = opened
  await lose(opened)
  const [cleared, other] = [log([9, 60_000]), log([9, 60_000])].map(spec => entry(spec)) as [Entry, Entry]
  await send([cleared, other])
  const answered = gate()
  primary.clear = async entries => {
    memory.clear(entries)
    await answered.opened
  }
  const { count } = primary
  primary.count = async (...given) => {
    const receipt = await count(...given)
    await answered.opened
    return receipt
  }
  // From the look before the carry-over on.
  let clearing: unknown
  const { peek } = primary
  primary.peek = entries => {
    if (!state.broken) clearing ??= fallback.store.clear([cleared])
    return peek(entries)
  }
  delete state.broken
  await until(() => used([cleared])[0] === 1, 'the carry-over')
  answered.open()
  await clearing
  t.strictSame(used([cleared, other]), [0, 1])
})

t.test('of more than 65,536 entries only the latest wait for their carry-over', async t => {
  const opened = open(t, { maxKeys: 200_000 })
  const { state, heard, used, send, back } = opened
  await lose(opened)
  const spec = log([1, 60_000])
  const entries = Array.from({ length: 2 ** 16 }, (_, who) => entry(spec, who))
  for (const each of entries) await send([each])
  t.match(heard, [{ message: 'more than 65536 wait' }, 4_096])
  delete state.broken
  await back()
  t.equal(state.told, 2 ** 16 * (15 / 16) + 1)
  t.strictSame(used([entries[4_094] as Entry, entries[4_095] as Entry, entries.at(-1) as Entry]), [0, 1, 1])
})

t.test('once all is carried over, no timer is left', async t => {
  const opened = open(t)
  const { state, send, back } = opened
  const running = intervals(t)
  await lose(opened)
  await send([entry(log([1, 60_000]))])
  t.equal(running.size, 1)
  delete state.broken
  await back()
  await until(() => running.size === 0, 'the end of the timer')
})

t.test('closing carries over what it still can, reports the rest, and leaves no timer', async t => {
  const before = activeTimers()
  const running = intervals(t)
  for (const broken of [true, false]) {
    const opened = open()
    const { primary, state, heard, fallback, used, send } = opened
    await lose(opened)
    const [entries, given] = [1, 2].map(who => [entry(log([1, 60_000]), who)]) as [Entry[], Entry[]]
    await send(entries)
    const back = await send(given)
    await back?.store.refund(back.taken, '')
    if (!broken) delete state.broken
    await fallback.close()
    t.strictSame(used([...entries, ...given]), [broken ? 0 : 1, 0])
    t.match(heard, broken ? [{ message: 'the app ends' }, 2] : [])
    t.equal(heard.length, broken ? 2 : 0)
    t.equal(activeTimers(), before)
    t.equal(running.size, 0, 'nor one that would let the process end')
    primary.peek = () => t.fail('looked at') as never
    await sleep(2 * TIMEOUT_MS)
  }
})

t.test('what is given up on closing keeps no later decision from a store that is back', async t => {
  const opened = open()
  const { state, heard, fallback, send } = opened
  await lose(opened)
  await fallback.close()
  delete state.broken
  const decided = async () => (await send([entry(log([1, 60_000]))]).catch(() => undefined)) !== undefined
  await until(decided, 'a decision')
  t.match(heard, [{ message: 'the app ends' }, 1])
  t.equal(heard.length, 2)
  t.equal(state.told, 0, 'what was reported as uncounted stays so')
})

t.test('closing does not report sends that were refunded', async t => {
  const opened = open()
  const sent = await lose(opened)
  await sent?.store.refund(sent.taken, '')
  await opened.fallback.close()
  t.same(opened.heard, [])
})

t.test(
  'a send whose answer was lost is carried over, also on closing, and refuses others meanwhile',
  async t => {
    for (const ends of [true, false]) {
      const { primary, outage, heard, fallback, used, send } = open()
      const { reserve } = primary
      primary.reserve = () => new Promise(() => {})
      const entries = [entry(log([1, 60_000]))]
      t.ok(await send(entries))
      primary.reserve = reserve
      const passed: unknown[] = []
      const again = async () => {
        passed.push(await send(entries))
        return !outage.lost
      }
      if (!ends) await until(again, 'its return')
      await fallback.close()
      t.strictSame([used(entries), heard, passed.some(Boolean)], [[1], [], false])
    }
  }
)

t.test('the late answers of many lost sends are waited for together', async t => {
  const { primary, state, heard, used, send } = open(t, { maxKeys: 10_000 })
  const { reserve } = primary
  primary.reserve = () => new Promise(() => {})
  // Waiting for 32 at a time would take longer than a test waits.
  const entries = Array.from({ length: 6_000 }, (_, who) => entry(log([1, 60_000]), who))
  await Promise.all(entries.map(each => send([each])))
  primary.reserve = reserve
  await until(() => state.told === entries.length, 'the last carry-over')
  t.strictSame([used(entries.slice(-1)), heard], [[1], []])
})

for (const how of ['given back', 'cleared'])
  t.test(`a send that is ${how} while its late answer is still waited for is not carried over`, async t => {
    const { primary, state, fallback, used, send, back } = open(t)
    const { reserve, peek } = primary
    primary.reserve = () => new Promise(() => {})
    const entries = [entry(log([1, 60_000]))]
    const sent = await send(entries)
    primary.reserve = reserve
    let looked = false
    primary.peek = async all => {
      looked = true
      return peek(all)
    }
    await until(() => looked, 'a look')
    await setImmediate()
    if (how === 'cleared') await fallback.store.clear(entries)
    else await sent?.store.refund(sent.taken, '')
    await back()
    // While anything waits to be carried over, both decide.
    await fallback.close()
    t.strictSame([state.told, used(entries)], [0, [0]])
  })

import { randomBytes } from 'node:crypto'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { StoreFullError } from '../../../plugin/errors.js'
import { limitPlugin, type Rule } from '../../../plugin/index.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { type Entry, type LogSpec, type Taken, toTicks } from '../../../plugin/store/store.js'
import { asked, entriesOf, everything, seeded } from '../../contract/history.js'
import {
  count,
  distinct,
  entry,
  lock,
  log,
  named,
  sentTo,
  takenOf,
  token,
  usedOf
} from '../../contract/specs.js'
import { Time } from '../../contract/time.js'
import { appOf } from '../../helper/face.js'
import { isKept } from '../../helper/heap.js'

type Test = typeof t

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const BEHIND = Date.UTC(2026, 2, 1)
const AHEAD = Date.UTC(2027, 2, 1)

function open(t: Pick<Test, 'teardown'>, maxKeys = 1_000): { store: MemoryStore; time: Time } {
  const time = new Time('2026-03-01T00:00:00Z')
  const store = new MemoryStore({ clock: time.clock, maxKeys })
  t.teardown(() => store.close())
  return { store, time }
}

const used = (store: MemoryStore, entries: readonly Entry[]) => usedOf(entries, store.peek(entries))
const forgettable = (spec: LogSpec): LogSpec => ({ ...spec, forgettable: true })

t.test('the text of an identity is nowhere in memory a second after it was asked about', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { store } = open(t)
  const backwards = randomBytes(8).toString('hex')
  const ask = () => {
    const identity = `a code: ${[...backwards].reverse().join('')}`
    const entries = [{ spec: log([1, 60_000]), identity }]
    store.reserve(entries, '')
    store.block(entries, 0)
  }
  ask()
  t.ok(await isKept(backwards))
  mock.timers.tick(1_000)
  t.notOk(await isKept(backwards))
})

t.test('requests whose slots are all refunded do not fill the store', async t => {
  const { store } = open(t, 10)
  for (let i = 0; i < 11; i++) {
    const entries = [log([5, 60_000]), count(5, 'day'), distinct([5, 60_000])].map(spec =>
      entry(spec, `${i}`)
    )
    const [first, second] = [1, 2].map(() => takenOf(entries, named(entries, store.reserve(entries, ''))))
    store.refund(first as Taken[], '')
    store.refund(second as Taken[], '')
    t.equal(store.size, 0)
  }
})

t.test('of any number of sends that another store admitted, a log keeps twice its max', async t => {
  const { store } = open(t)
  const each = entry(log([1_000, 3_600_000]))
  for (let i = 0; i < 2_100; i++) t.not(store.count(each, 0), 0)
  t.strictSame(used(store, [each]), [2_000])
})

t.test('values that come twice and are then over leave nothing in a log', async t => {
  const { store, time } = open(t)
  const spec = distinct([1, 1_000])
  for (let value = 0; value < 1_100; value++) {
    for (let times = 0; times < 2; times++)
      t.equal((await store.reserve([sentTo(spec, value)], ''))[1], 1, `value ${value}`)
    time.advanceMs(1_001)
  }
})

t.test('of any number of values that another store counted, the newest 500 are kept', async t => {
  const { store } = open(t)
  const spec = distinct([100, 3_600_000])
  for (let i = 0; i < 1_002; i++) store.count(sentTo(spec, i >> 1), 0)
  t.strictSame(used(store, [sentTo(spec, 1_000)]), [500])
})

t.test(
  'sends that another store admitted beyond max are kept as long as they are in the longest window',
  async t => {
    const { store, time } = open(t)
    const each = entry(log([3, 3_600_000], [1, 60_000]))
    let receipt = 0
    for (let i = 0; i < 4; i++) {
      receipt = store.count(each, 0)
      time.advanceMs(61_000)
    }
    store.refund([{ entry: each, receipt, ends: 0 }], '')
    t.strictSame(used(store, [each]), [3])
  }
)

t.test(
  'a send that another store admitted under a replaced rule counts in the window of the new rule',
  async t => {
    for (const days of [1, 200]) {
      const { store, time } = open(t)
      const [former, present] = [log([1, 60_000]), log([9, days * DAY_MS])]
      Object.assign(present, { series: former.series, inForce: former.inForce })
      former.inForce.spec = present
      const at = store.ticks
      time.advanceMs((days - 1) * DAY_MS + 61_000)
      t.not(store.count(entry(former), store.ticks - at), 0)
      store.reserve([entry(former)], '')
      t.strictSame(used(store, [entry(present)]), [2])
      time.advanceMs(DAY_MS - 30_000)
      t.strictSame(used(store, [entry(present)]), [1])
    }
  }
)

for (const kind of [log, distinct])
  t.test(`a send that was counted late keeps no room once its time is over: ${kind.name}`, async t => {
    const { store, time } = open(t, 1)
    time.advanceMs(50_000)
    t.not(store.count(entry(kind([1, 60_000])), 5_000_000), 0)
    time.advanceMs(11_000)
    t.equal(store.reserve([entry(log([1, 60_000]))], '')[1], 1)
  })

t.test('the store answers without a promise, by the clocks of the system', async t => {
  const store = new MemoryStore()
  t.teardown(() => store.close())
  const entries = [entry(log([1, 60_000])), entry(count(1, 'month')), entry(lock(60_000))]
  t.equal(store.reserve(entries, token())[1], 1)
  t.equal(store.reserve(entries, token())[1], 0)
  t.equal(store.size, 3)
})

t.test('a machine whose clock starts in 1970 counts, and counts anew once the clock is set', async t => {
  const clock = { now: 0, monotonic: () => 0, wall: () => clock.now }
  const store = new MemoryStore({ clock })
  t.teardown(() => store.close())
  const entries = [entry(count(1, 'day'))]
  t.equal(store.reserve(entries, '')[1], 1)
  t.equal(store.reserve(entries, '')[1], 0)
  clock.now = Date.UTC(2026, 2, 1)
  t.equal(store.reserve(entries, '')[1], 1)
})

t.test('a machine whose clock is beyond 2109 counts, and counts anew once the clock is set', async t => {
  for (const year of [2109, 2110, 9999]) {
    const clock = { now: Date.UTC(year, 5, 1), monotonic: () => 0, wall: () => clock.now }
    const store = new MemoryStore({ clock })
    t.teardown(() => store.close())
    const entries = (['hour', 'day', 'week', 'month'] as const).map(per => entry(count(1, per)))
    for (const each of entries) {
      t.equal(store.reserve([each], '')[1], 1, `${each.spec.name} in ${year}`)
      t.equal(store.reserve([each], '')[1], 0, `${each.spec.name} in ${year}`)
    }
    clock.now = Date.UTC(2026, 2, 1)
    t.equal(store.reserve(entries, '')[1], 1)
  }
})

t.test('windows are exact by a monotonic clock, whatever its origin', async t => {
  for (const origin of [0, -30_000, -1e12, 3e12]) {
    const clock = {
      now: 0,
      monotonic: () => origin + clock.now,
      wall: () => Date.UTC(2026, 2, 1) + clock.now
    }
    const store = new MemoryStore({ clock })
    t.teardown(() => store.close())
    const specs = [log([1, 60_000]), distinct([1, 60_000]), lock(60_000)]
    for (const [now, admitted] of [
      [0, 1],
      [59_999, 0],
      [60_000, 1]
    ] as const) {
      clock.now = now
      for (const spec of specs)
        t.equal(
          store.reserve([{ ...entry(spec), value: now }], token())[1],
          admitted,
          `${spec.kind} ${origin} ${now}`
        )
    }
  }
})

t.test('a store that is full of live limits throws rather than forget one, and counts nothing', async t => {
  const { store } = open(t, 10)
  const spec = log([2, 60_000])
  for (let who = 0; who < 8; who++) store.reserve([entry(spec, who)], '')
  const held = entry(lock(60_000))
  const both = [held, entry(spec, 'x'), entry(count(5, 'day'), 'x')]
  const full = { code: 'FST_SEND_LIMIT_STORE_FULL', stack: undefined }
  t.throws(() => store.reserve(both, token()), full, 'without a stack, which takes time')
  t.strictSame(used(store, both), [0, 0, 0], 'nothing of the decision is counted')
  t.equal(store.size, 8)
  for (let who = 0; who < 8; who++) t.strictSame(used(store, [entry(spec, who)]), [1])
  t.equal(store.reserve([held, entry(spec, 'x')], token())[1], 1, 'what fits is counted')
  for (const one of [spec, count(5, 'day'), lock(60_000), distinct([5, 60_000])])
    t.throws(() => store.reserve([entry(one, 'y')], token()), { code: 'FST_SEND_LIMIT_STORE_FULL' }, one.kind)
})

t.test('a send that fails for want of room for a field counts nothing under its calendar limit', async t => {
  const { store, time } = open(t)
  const [long, day] = [log([1_000, 60_000]), count(5, 'day')]
  const send = [entry(day, 'x'), entry(lock(30_000), 'x')]
  store.reserve([entry(day, 'y')], '')
  const fill = () => {
    for (let who = 0; ; who++) {
      const sends = [entry(long, who)]
      for (let i = 0; i < 1_000; i++) store.reserve(sends, '')
    }
  }
  t.throws(fill, { code: 'FST_SEND_LIMIT_STORE_FULL' })
  for (let i = 0; i < 3; i++) {
    t.throws(() => store.reserve(send, token()), { code: 'FST_SEND_LIMIT_STORE_FULL' })
    t.strictSame(used(store, send), [0, 0])
  }
  store.reserve([entry(day, 'x')], '')
  t.throws(() => store.reserve(send, token()), { code: 'FST_SEND_LIMIT_STORE_FULL' })
  t.strictSame(used(store, send), [1, 0], 'what was counted before stays')
  time.advanceMs(61_000)
  t.equal(store.reserve(send, token())[1], 1)
  t.strictSame(used(store, send), [2, 1])
})

t.test('a decision that fails for want of room gives back exactly what it took', async t => {
  const { store, time } = open(t, 2)
  const known = entry(log([3, 60_000]))
  store.reserve([known, entry(log([1, 60_000]))], '')
  time.advanceMs(5)
  const before = store.peek([known])
  t.throws(() => store.reserve([known, entry(log([1, 60_000]))], ''), { code: 'FST_SEND_LIMIT_STORE_FULL' })
  t.strictSame(store.peek([known]), before)
})

t.test('a send that fails for want of room leaves no trace in a calendar limit', async t => {
  const { store, time } = open(t, 3)
  const [day, once] = [count(5, 'day'), log([1, 60_000])]
  for (const who of ['a', 'b']) store.reserve([entry(once, who)], '')
  const daily = [entry(day, 'x')]
  const ask = () => store.reserve([...daily, entry(once, 'x')], '')
  t.throws(ask, { code: 'FST_SEND_LIMIT_STORE_FULL' })
  t.equal(store.size, 2, 'it has no key')

  const sent = takenOf(daily, named(daily, store.reserve(daily, '')))
  const errors = Array.from({ length: 1_001 }, () => {
    try {
      return ask()
    } catch (error) {
      return (error as { code: string }).code
    }
  })
  t.same(new Set(errors), new Set(['FST_SEND_LIMIT_STORE_FULL']))
  time.advanceMs(1)
  store.refund(sent, '')
  t.strictSame(used(store, daily), [0], 'the failed sends took no room from the refund of the real one')
})

t.test('a refund that fails for want of room throws, and its slots stay counted', async t => {
  const { store, time } = open(t)
  const days = [count(5, 'day'), log([1_000, 86_400_000])] as const
  const daily = [entry(days[0], 'x')]
  const sent = Array.from({ length: 3 }, () => takenOf(daily, named(daily, store.reserve(daily, ''))))
  const others = Array.from({ length: 500 }, (_, who) => [entry(days[1], who)])
  t.throws(
    () => {
      // More than 2 MiB, which every store has.
      for (let i = 0; i < 500_000; i++) {
        time.advanceMs(1)
        store.reserve(others[i % 500] as Entry[], '')
      }
    },
    { code: 'FST_SEND_LIMIT_STORE_FULL' }
  )
  const once = entry(log([1, 60_000]), 'y')
  t.throws(() => store.refund([...(sent[0] ?? []), { entry: once, receipt: 1, ends: 0 }], ''), {
    code: 'FST_SEND_LIMIT_STORE_FULL'
  })
  t.strictSame(used(store, daily), [3])
  t.throws(
    () => store.refund(sent[2] ?? [], ''),
    { code: 'FST_SEND_LIMIT_STORE_FULL' },
    'the last slot cannot be given back either'
  )
  t.strictSame(used(store, daily), [3])
})

t.test('random sends with little room: a send that fails for want of room changes nothing', async t => {
  const step = fc.record({ asked, ticks: fc.constantFrom(100, 600_000, 400_000_000), refund: fc.boolean() })
  let full = 0
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60, size: 'max' }), steps => {
      const { store, time } = open(t, 8)
      const kept = () => JSON.stringify(store.peek(everything))
      for (const { asked, ticks, refund } of steps) {
        time.advance(ticks)
        const entries = entriesOf(asked)
        const [before, holder, { size }] = [kept(), token(), store]
        try {
          const taken = takenOf(entries, named(entries, store.reserve(entries, holder)))
          if (refund) store.refund(taken, holder)
        } catch (error) {
          if (!(error instanceof StoreFullError)) throw error
          full++
          if (kept() !== before) throw new Error(`${before}\n${kept()}`)
          if (store.size > size) throw new Error(`${size} keys became ${store.size}`)
        }
      }
    }),
    seeded(t, 100)
  )
  t.comment(`${full} refused`)
  t.ok(full > 100)
})

t.test('when the store is full, attempts are forgotten, oldest first, and sends stay', async t => {
  const { store, time } = open(t, 10)
  const sends = log([1, 3_600_000])
  const attempts = forgettable(log([5, 600_000]))
  for (let who = 0; who < 5; who++) store.reserve([entry(sends, who)], '')
  for (let who = 0; who < 5; who++) {
    time.advanceMs(60_000)
    store.reserve([entry(attempts, who)], '')
  }
  store.reserve([entry(sends, 'new')], '')
  const who = [0, 1, 2, 3, 4]
  t.strictSame(
    used(
      store,
      who.map(each => entry(attempts, each))
    ),
    [0, 1, 1, 1, 1]
  )
  t.strictSame(
    used(
      store,
      who.map(each => entry(sends, each))
    ),
    [1, 1, 1, 1, 1]
  )
})

t.test('attempts that another store counted are forgotten too when the store is full', async t => {
  const { store } = open(t, 2)
  const attempts = forgettable(log([1, 60_000]))
  for (const who of 'ab') store.count(entry(attempts, who), 0)
  t.not(store.count(entry(log([1, 60_000])), 0), 0)
})

t.test('when the store is full, attempts for a minute keep a share beside attempts for an hour', async t => {
  const { store, time } = open(t, 100)
  const rules = [log([2, 60_000]), log([50, HOUR_MS])].map(forgettable)
  const ask = (who: string) => {
    time.advanceMs(1_000)
    return store.reserve(
      rules.map(rule => entry(rule, who)),
      ''
    )[1]
  }
  for (let i = 0; i < 200; i++) ask(`before ${i}`)
  const answers = [0, 1, 2, 3].map(i => {
    ask(`beside ${i}`)
    return ask('one')
  })
  t.strictSame(answers, [1, 1, 0, 0])
})

t.test(
  'a decision that fails for want of room does not give back an entry it has itself forgotten',
  async t => {
    const { store } = open(t, 10)
    const [hourly, sends, daily] = [
      { ...count(5, 'hour'), forgettable: true },
      log([5, HOUR_MS]),
      log([5, DAY_MS])
    ]
    for (let i = 0; i < 9; i++) store.reserve([entry(sends, i)], '')
    const entries = [hourly, sends, daily].map(spec => entry(spec, 'new'))
    t.throws(() => store.reserve(entries, ''), StoreFullError)
    t.strictSame(used(store, entries), [0, 0, 0])
  }
)

/** Random numbers from 0 to 1, the same in each run. */
function chance(): () => number {
  let state = 12_345
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return state / 2 ** 31
  }
}

t.test('no attempt is forgotten while there is room, however the sizes of logs change', async t => {
  const { store, time } = open(t, 10_000)
  const next = chance()
  const attempts = forgettable(log([100, HOUR_MS]))
  const all = Array.from({ length: 3_500 }, (_, i) => [entry(attempts, i)])
  for (let i = 0; i < 300_000; i++) {
    time.advance(1)
    store.reserve(all[Math.floor(next() * all.length)] as Entry[], '')
  }
  t.equal(store.size, all.length)
})

t.test('a few long logs left of many keep no room from shorter logs', async t => {
  const { store, time } = open(t, 10_000)
  const [minute, day] = [log([500, 60_000]), log([500, DAY_MS])]
  const isRoom = (one: Entry) => {
    try {
      return store.reserve([one], '') !== undefined
    } catch (error) {
      if (error instanceof StoreFullError) return false
      throw error
    }
  }
  const fill = (who: number) => {
    const one = entry(who % 8 === 0 ? day : minute, who)
    for (let i = 0; i < 400; i++) if (!isRoom(one)) return false
    return true
  }
  for (let who = 0; fill(who); who++);
  time.advanceMs(120_000)
  for (let i = 0; i < 2_000; i++) isRoom(entry(minute, 'anybody'))
  t.ok(store.size < 200)
  const mail = log([1, 60_000], [5, HOUR_MS], [10, DAY_MS])
  let refused = 0
  for (let sends = 0; sends < 4; sends++) {
    // One identity fewer each time, so that each page is still in use.
    for (let who = sends; who < 100; who++) if (!isRoom(entry(mail, who))) refused++
    time.advanceMs(61_000)
  }
  t.equal(refused, 0)
})

t.test('a flood of attempts stays within the bound and frees no live send', async t => {
  const { store } = open(t, 1_000)
  const sends = log([1, 3_600_000])
  const attempts = forgettable(log([5, 600_000]))
  for (let who = 0; who < 500; who++) store.reserve([entry(sends, who)], '')
  for (let who = 0; who < 20_000; who++) store.reserve([entry(attempts, who)], '')
  t.equal(store.size, 1_000)
  let live = 0
  for (let who = 0; who < 500; who++) live += used(store, [entry(sends, who)])[0] ?? 0
  t.equal(live, 500)
})

t.test(
  'when a rule for attempts is replaced by one for sends, what it has counted is not forgotten',
  async t => {
    const { store } = open(t, 2)
    const spec = log([5, 60_000])
    store.reserve([entry(forgettable(spec), 1)], '')
    store.reserve([entry(spec, 2)], '')
    t.throws(() => store.reserve([entry(spec, 3)], ''), { code: 'FST_SEND_LIMIT_STORE_FULL' })
  }
)

t.test('expired records are freed once a second, until the store is closed', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { store, time } = open(t)
  const [blocked, some] = [
    [entry(log([1, 60_000]), 'blocked')],
    [1, 2, 3].map(who => entry(log([1, 1_000]), who))
  ]
  store.block(blocked, 60_000)
  for (let round = 0; round < 2; round++) {
    store.reserve(some, '')
    mock.timers.tick(1_000)
    t.equal(store.size, 3, 'live')
    time.advanceMs(2_000)
    mock.timers.tick(1_000)
    t.equal(store.size, round * 3)
    store.close()
  }
  t.equal(store.peek(blocked)[1], 0)
})

t.test('a block that has ended is forgotten', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { store, time } = open(t)
  const { blocks } = store as unknown as { blocks: { size: number } }
  const spec = log([1, 60_000])
  for (let who = 0; who < 3; who++) store.block([entry(spec, who)], 1_000)
  store.block([entry(spec, 'for ever')], 0)
  time.advance(99_999)
  mock.timers.tick(1_000)
  t.equal(blocks.size, 4)
  time.advance(1)
  mock.timers.tick(1_000)
  t.equal(blocks.size, 1)
  for (let who = 0; who < 14_999; who++) store.block([entry(spec, who)], 1_000)
  time.advanceMs(1_000)
  mock.timers.tick(1_000)
  t.ok(blocks.size >= 5_000 && blocks.size < 5_010, 'of many blocks, only some are forgotten at a time')
  t.equal(store.peek([entry(spec, 14_998)])[1], 1)
  mock.timers.tick(1_000)
  t.equal(blocks.size, 1)
  for (let who = 0; who < 50; who++) store.block([entry(spec, who)], 1)
  for (let who = 50; who < 110; who++) {
    time.advanceMs(1)
    store.block([entry(spec, who)], 1)
  }
  t.ok(blocks.size < 10, 'each new block looks at two others')
  const forEver = [entry(spec, 'for ever')]
  t.equal(store.peek(forEver)[1], 0)
  store.unblock(forEver)
  mock.timers.tick(1_000)
  store.block(forEver, 0)
  t.equal(store.peek(forEver)[1], 0, 'blocked again when there is no block left')
})

t.test('expired records make room for new ones as the store is used', async t => {
  const { store, time } = open(t, 10)
  const spec = log([1, 60_000])
  for (let who = 0; who < 10; who++) store.reserve([entry(spec, who)], '')
  t.throws(() => store.reserve([entry(spec, 'late')], ''), { code: 'FST_SEND_LIMIT_STORE_FULL' })
  time.advanceMs(61_000)
  t.equal(store.reserve([entry(spec, 'late')], '')[1], 1)
  for (let who = 0; who < 10; who++)
    t.equal(store.reserve([entry(spec, `again ${who % 5}`)], '')[1], Number(who < 5))
  t.ok(store.size <= 10)
})

t.test('counts whose day ends late keep no room from counts whose day is over', async t => {
  const { store, time } = open(t, 100)
  const spec = count(1, 'day')
  const ask = (who: number, timeZone: string) =>
    store.reserve([{ ...entry({ ...spec, timeZone }, who), zoned: true }], '')
  for (let who = 0; who < 50; who++) ask(who, 'Europe/London')
  for (let who = 50; who < 100; who++) ask(who, 'Asia/Shanghai')
  // A count is kept for an hour after its day, in case the clock is set back.
  time.advanceMs(17.5 * 3_600_000)
  const asked = () => {
    try {
      return ask(100, 'UTC')[1]
    } catch {
      return 0
    }
  }
  let refused = 0
  while (refused < 100 && asked() === 0) refused++
  t.ok(refused <= 25, `${refused} refused`)
  t.equal(ask(0, 'Europe/London')[1], 0, 'a count whose day is not over stays')
})

for (const spec of [log([2, 60_000]), distinct([2, 60_000])])
  t.test(
    `a later live send keeps no room from keys whose newest send was refunded: ${spec.kind}`,
    async t => {
      const { store, time } = open(t, 100)
      const send = (who: number | string) => {
        const entries = [entry(spec, who)]
        return takenOf(entries, named(entries, store.reserve(entries, '')))
      }
      for (let who = 1; who < 100; who++) send(who)
      time.advanceMs(58_000)
      send(0)
      time.advanceMs(1_000)
      for (let who = 1; who < 100; who++) store.refund(send(who), '')
      time.advanceMs(2_000)
      let refused = 0
      for (let who = 0; who < 90; who++)
        try {
          send(`late ${who}`)
        } catch {
          refused++
        }
      t.ok(refused <= 1, `${refused} refused`)
      const other = { ...entry(spec, 0), value: 1 }
      t.strictSame(usedOf([other], store.peek([other])), [1], 'the live send stays')
    }
  )

t.test('a renewed lock keeps no room from locks that have ended', async t => {
  const { store, time } = open(t, 2)
  const spec = lock(60_000)
  const mine = token()
  store.reserve([entry(spec, 'mine')], mine)
  store.reserve([entry(spec, 'another')], token())
  time.advanceMs(50_000)
  t.equal(store.renew(entry(spec, 'mine'), mine), true)
  time.advanceMs(11_000)
  t.equal(store.reserve([entry(spec, 'late')], token())[1], 1)
})

t.test('expired records are freed faster than new ones are added', async t => {
  const { store, time } = open(t)
  const specs = [log([1, 60_000]), log([2, 60_000]), log([3, 60_000])]
  const reserve = (who: string) =>
    store.reserve(
      specs.map(spec => entry(spec, who)),
      ''
    )
  for (let i = 0; i < 10; i++) reserve(`${i}`)
  time.advanceMs(61_000)
  reserve('late')
  t.equal(store.size, 27, 'a few at a time')
  for (let i = 0; i < 4; i++) reserve(`later ${i}`)
  t.equal(store.size, 15)
})

t.test('a refund of the last value leaves no key, though another came twice before', async t => {
  const { store, time } = open(t)
  const spec = distinct([5, 60_000])
  for (let times = 0; times < 2; times++) store.reserve([sentTo(spec, 1)], '')
  time.advanceMs(spec.ttl + 1)
  const entries = [sentTo(spec, 2)]
  store.refund(takenOf(entries, named(entries, store.reserve(entries, ''))), '')
  t.equal(store.size, 0)
})

t.test('a refund of everything that was counted leaves no key', async t => {
  const { store } = open(t)
  const entries = [entry(log([1, 60_000]))]
  store.refund(takenOf(entries, named(entries, store.reserve(entries, ''))), '')
  t.equal(store.size, 0)
})

t.test(
  'under a calendar limit, the 95,000 sends before the latest refunded one can still be refunded',
  async t => {
    const { store } = open(t)
    const entries = [entry(count(200_000, 'day'))]
    const sent: Taken[] = []
    for (let i = 0; i < 100_001; i++)
      sent.push(...takenOf(entries, named(entries, store.reserve(entries, ''))))
    const refund = (...which: number[]) =>
      store.refund(
        which.map(i => sent[i] as Taken),
        ''
      )
    refund(0, 47, 48, 5_001)
    refund(100_000)
    t.strictSame(used(store, entries), [99_996])
    refund(1, 4_000)
    t.strictSame(
      used(store, entries),
      [99_996],
      'older sends stay counted: too few messages rather than too many'
    )
    refund(0, 47, 48, 5_001, 100_000)
    t.strictSame(used(store, entries), [99_996], 'none is refunded twice')
    refund(5_000, 5_002, 99_999)
    t.strictSame(used(store, entries), [99_993])
  }
)

t.test('refunds in a period before take no room from a count that begins anew', async t => {
  const { store, time } = open(t)
  const counts = Array.from({ length: 300 }, (_, i) => [entry(count(5, 'day'), `${i}`)])
  for (const ms of [DAY_MS - 1_000, 2_000]) {
    time.advanceMs(ms)
    for (const entries of counts) {
      const first = named(entries, store.reserve(entries, ''))
      store.reserve(entries, '')
      store.refund(takenOf(entries, first), '')
    }
  }
  for (const entries of counts) t.strictSame(used(store, entries), [1])
})

t.test('no receipt is issued twice, even within one tick', async t => {
  const { store, time } = open(t)
  const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
  const others = entries.map(({ spec }) => entry(spec, 'somebody else'))
  const take = (some = entries) => takenOf(some, named(some, store.reserve(some, '')))
  const older = take(others)
  time.advance(1)
  const first = take()
  store.refund(first, '')
  store.refund(older, '')
  const second = take()
  store.refund(first, '')
  t.strictSame(used(store, entries), [1, 1], 'after a refund and a new send')
  store.clear(entries)
  take()
  store.refund(first, '')
  store.refund(second, '')
  t.strictSame(used(store, entries), [1, 1], 'after a clear and a new send')
  store.clear(entries)
  time.advance(9)
  const last = take()
  store.refund(last, '')
  for (const each of entries) store.count(each, 0)
  store.refund(last, '')
  t.strictSame(used(store, entries), [1, 1], 'after a refund and a count for another store')
  store.clear(entries)
  time.advance(9)
  const cleared = take()
  store.clear(entries)
  take()
  store.refund(cleared, '')
  t.strictSame(used(store, entries), [1, 1], 'after a clear in the same tick and a new send')
  store.clear(entries)
  take(others)
  time.advance(9)
  const given = take()
  store.refund(given, '')
  store.clear(others)
  take()
  store.refund(given, '')
  t.strictSame(used(store, entries), [1, 1], 'after a refund, a clear of another identity and a new send')
})

t.test('a renewed lock stays while other records expire', async t => {
  const { store, time } = open(t)
  const [held, others] = [entry(lock(30_000)), [entry(log([9, 1_000]), 'somebody else')]]
  const holder = token()
  time.advanceMs(3_600_000)
  store.reserve([held], holder)
  time.advanceMs(29_000)
  t.equal(store.renew(held, holder), true)
  for (let i = 0; i < 9; i++) store.reserve(others, '')
  time.advanceMs(29_000)
  store.reserve(others, '')
  t.strictSame(used(store, [held]), [1])
})

t.test('setting the wall clock moves calendar limits, and neither rolling limits nor locks', async t => {
  let wall = Date.parse('2026-03-01T12:00:00Z')
  const store = new MemoryStore({ maxKeys: 10, clock: { monotonic: () => 5_000, wall: () => wall } })
  t.teardown(() => store.close())
  const entries = [entry(log([1, 60_000])), entry(lock(60_000)), entry(count(1, 'day'))]
  store.reserve(entries, token())
  wall += 86_400_000
  t.strictSame(used(store, entries), [1, 1, 0])
  wall -= 86_400_000
  t.strictSame(used(store, entries), [1, 1, 1], 'after the clock is set back, the count is still there')
})

t.test(
  'a send counted in the next period by another store, whose clock is ahead, begins that period',
  async t => {
    const day = 86_400_000
    const wall = Date.parse('2026-03-01T23:59:00Z')
    const store = new MemoryStore({ maxKeys: 10, clock: { monotonic: () => 5_000, wall: () => wall } })
    t.teardown(() => store.close())
    const each = entry(count(9, 'day'))
    for (let i = 0; i < 3; i++) store.reserve([each], '')
    const ends = toTicks(wall + 60_000 + day)
    t.not(store.count(each, 0, ends), 0)
    t.strictSame(used(store, [each]), [1])
    t.equal(store.count(each, 0, toTicks(wall + 60_000)), 0, 'the period before is over')
    t.not(store.count(each, 0, ends), 0)
    t.strictSame(used(store, [each]), [2])
  }
)

t.test('a count is kept for an hour after its period, in case the wall clock is set back', async t => {
  const clock = {
    passed: 0,
    back: 0,
    monotonic: () => clock.passed,
    wall: () => start + clock.passed - clock.back
  }
  const start = Date.parse('2026-03-01T23:59:59Z')
  const store = new MemoryStore({ maxKeys: 10, clock })
  t.teardown(() => store.close())
  const entries = [entry(count(1, 'day'))]
  const others = [entry(log([1, 60_000]))]
  t.equal(store.reserve(entries, '')[1], 1)
  clock.passed += 3_600_000
  store.reserve(others, '')
  clock.back = 3_600_000
  t.equal(store.reserve(entries, '')[1], 0)
  clock.passed += 2_000
  store.reserve(others, '')
  t.equal(store.size, 1, 'after that hour it is freed')
})

// The clock of this process, or of the Redis that it stands in for, was ahead.
for (const [whose, first] of [
  ['this clock', (store: MemoryStore, one: Entry) => store.reserve([one], '')],
  ['another', (store: MemoryStore, one: Entry) => store.count(one, 0, toTicks(AHEAD))]
] as const) {
  t.test(`a period counted while ${whose} was far ahead keeps no later count from being freed`, async t => {
    let [steady, wall] = [0, whose === 'another' ? BEHIND : AHEAD]
    const clock = { monotonic: () => steady, wall: () => wall }
    const store = new MemoryStore({ maxKeys: 100, clock })
    t.teardown(() => store.close())
    const spec = { ...count(1, 'day'), ttl: 26 * HOUR_MS }
    first(store, entry(spec, 'first'))
    wall = BEHIND
    for (let day = 0; day < 40; day++) {
      for (let i = 0; i < 5; i++) store.reserve([entry(spec, `${day} ${i}`)], '')
      steady += 24 * HOUR_MS
      wall += 24 * HOUR_MS
    }
    t.ok(store.size <= 15, `${store.size} are kept`)
  })
}

t.test('counts of observed rules give way when the store is full, and never fail a request', async t => {
  const limits = [{ max: 9, window: '1h' }]
  const rules: Rule[] = [
    { name: 'all', key: 'all', limits },
    { name: 'trial', key: { value: 'query.who' }, mode: 'observe', limits }
  ]
  for (const maxKeys of [2, 1]) {
    const app = appOf(t)
    await app.register(limitPlugin, { rules, maxKeys })
    app.get('/', { config: { limit: ['all', 'trial'] } }, async () => '')
    const statuses = []
    for (const who of 'abca') statuses.push((await app.inject(`/?who=${who}`)).statusCode)
    t.strictSame(statuses, [200, 200, 200, 200], `${maxKeys} keys`)
  }
})

t.test('counts of observed rules give way to those of other rules, which stay', async t => {
  const limits = [{ max: 9, window: '1h' }]
  const send: Rule = { name: 'send', key: { value: 'query.who' }, limits }
  const app = appOf(t)
  await app.register(limitPlugin, { rules: [send, { ...send, name: 'trial', mode: 'observe' }], maxKeys: 2 })
  app.get('/', { config: { limit: ['send', 'trial'] } }, async () => '')
  const statuses = []
  for (const who of 'abc') statuses.push((await app.inject(`/?who=${who}`)).statusCode)
  t.strictSame(statuses, [200, 200, 503])
})

t.test('attempts of ever new identities do not fill the store', async t => {
  const limits = [{ max: 9, window: '1h' }]
  const rules: Rule[] = [
    { name: 'all', key: 'all', limits },
    { name: 'tries', key: { value: 'query.who' }, counts: 'attempts', limits }
  ]
  const app = appOf(t)
  await app.register(limitPlugin, { rules, maxKeys: 2 })
  app.get('/', { config: { limit: ['all', 'tries'] } }, async () => '')
  const statuses = []
  for (const who of 'abca') statuses.push((await app.inject(`/?who=${who}`)).statusCode)
  t.strictSame(statuses, [200, 200, 200, 200])
})

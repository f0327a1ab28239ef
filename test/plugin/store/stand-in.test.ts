import { deepStrictEqual } from 'node:assert/strict'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { Journal } from '../../../plugin/store/journal.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { StandIn } from '../../../plugin/store/stand-in.js'
import {
  BLOCKED,
  type Entry,
  PASSES,
  REFUSES,
  type Settling,
  type Taken
} from '../../../plugin/store/store.js'
import { watched } from '../../../plugin/store/watched.js'
import { seeded } from '../../contract/history.js'
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

/** Two memories: one that decides, one that stands in for it, by the same clock or another. */
function open({ maxKeys = 1_000, ahead = 0 } = {}) {
  const time = new Time('2026-03-01T00:00:00Z')
  const { monotonic, wall } = time.clock
  let older = 0
  const primary = new MemoryStore({
    clock: { monotonic: () => monotonic() + older, wall: () => wall() + ahead }
  })
  // Its receipts are others.
  older = 5_000
  const memory = new MemoryStore({ clock: time.clock, maxKeys })
  const standIn = new StandIn(memory)
  const close = () => {
    primary.close()
    standIn.close()
  }
  /** Decides, and notes what is admitted. */
  function reserve(entries: readonly Entry[], holder = ''): { taken: Taken[]; counted: Settling } {
    const facts = primary.reserve(entries, holder)
    const taken = takenOf(entries, named(entries, facts))
    return {
      taken,
      counted: facts[1] === 1 ? standIn.note(entries, facts, primary, standIn.blockings) : primary
    }
  }
  const used = (entries: readonly Entry[], store: MemoryStore = standIn.caughtUp()) =>
    usedOf(entries, store.peek(entries))
  return { time, primary, memory, standIn, reserve, used, close }
}

const spec = log([1, 60_000])
const specs = [log([2, 1_000], [5, 10_000]), count(6, 'hour'), distinct([2, 5_000])]
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ send: fc.integer({ min: 0, max: 2 }), value: fc.integer({ min: 1, max: 3 }) })
  },
  { weight: 2, arbitrary: fc.record({ refund: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ clear: fc.integer({ min: 0, max: 2 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      wait: fc.oneof(fc.constant(0), fc.integer({ max: 400_000, min: 1 }), fc.constant(360_000_000))
    })
  },
  { weight: 1, arbitrary: fc.record({ peek: fc.integer({ min: 0, max: 2 }) }) }
)

t.test('whenever it is asked, it knows what it would know had it decided itself', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async steps => {
      const { time, primary, standIn, reserve, close } = open()
      const followed = standIn.following(primary)
      const entriesOf = (who: number, value = 1) =>
        specs.map(spec => (spec.kind === 'distinct' ? sentTo(spec, value, undefined, who) : entry(spec, who)))
      const sent: ReturnType<typeof reserve>[] = []
      const compare = (who: number) => {
        const entries = entriesOf(who)
        deepStrictEqual(standIn.caughtUp().peek(entries), primary.peek(entries))
      }
      for (const each of steps) {
        // Within one tick, what follows a refund is counted a tick later there.
        time.advance(1)
        if ('send' in each) sent.push(reserve(entriesOf(each.send, each.value)))
        else if ('wait' in each) time.advance(each.wait)
        else if ('peek' in each) compare(each.peek)
        else if ('clear' in each) await followed.clear(entriesOf(each.clear))
        else if (sent.length > 0) {
          const { taken, counted } = sent[each.refund % sent.length] as (typeof sent)[number]
          await counted.refund(taken, '')
        }
      }
      for (const who of [0, 1, 2]) compare(who)
      close()
    }),
    seeded(t, 100)
  )
})

t.test('it counts as far as it has room', async t => {
  const { time, reserve, used, close } = open({ maxKeys: 2 })
  t.teardown(close)
  const entries = ['a', 'b', 'c'].map(who => entry(spec, who))
  const last = entries.map(each => reserve([each])).pop()
  t.strictSame(used(entries), [1, 1, 0])
  await last?.counted.refund(last.taken, '')
  t.strictSame(used(entries), [1, 1, 0], 'what is not counted is not given back')
  time.advanceMs(61_000)
  const late = [entry(spec, 'late')]
  reserve(late)
  t.strictSame(used(late), [1], 'what has expired makes room')
})

t.test('whose day ends late keeps no room from those whose day is over', async t => {
  const { time, reserve, used, close } = open({ maxKeys: 100 })
  t.teardown(close)
  const daily = count(1, 'day')
  const day = (timeZone: string, who: number) => [{ ...entry({ ...daily, timeZone }, who), zoned: true }]
  for (let who = 0; who < 50; who++) reserve(day('Europe/London', who))
  for (let who = 50; who < 100; who++) reserve(day('Asia/Shanghai', who))
  t.strictSame(used(day('Asia/Shanghai', 99)), [1])
  // Kept for an hour more, should the clock be set back.
  time.advanceMs(17.5 * 3_600_000)
  const later = Array.from({ length: 40 }, (_, who) => entry(spec, `later ${who}`))
  for (const each of later) reserve([each])
  t.strictSame(used(later.slice(-1)), [1])
  t.strictSame(used(day('Europe/London', 0)), [1], 'that one lives')
})

t.test('what is over when it would be counted takes no room', async t => {
  const { time, memory, reserve, used, close } = open()
  t.teardown(close)
  const entries = [entry(spec)]
  reserve(entries)
  time.advanceMs(spec.ttl)
  t.strictSame(used(entries), [0])
  t.equal(memory.size, 0)
})

t.test('locks, attempts and what is only observed are counted in the other store alone', async t => {
  const { primary, standIn, reserve, used, close } = open()
  t.teardown(close)
  const holder = token()
  const attempts = { ...log([5, 60_000]), forgettable: true }
  const entries = [lock(60_000), attempts, observed(log([5, 60_000])), spec].map(each => entry(each))
  const { taken, counted } = reserve(entries, holder)
  t.strictSame(used(entries, primary), [1, 1, 1, 1])
  t.strictSame(used(entries), [0, 0, 0, 1])
  t.equal(await counted.renew(entries[0] as Entry, holder), true)
  t.equal(await counted.renew(entries[0] as Entry, token()), false)
  await counted.refund(taken, holder)
  t.strictSame(used(entries, primary), [0, 0, 0, 0])
  t.strictSame(used(entries), [0, 0, 0, 0])
  standIn.caughtUp().reserve(entries.slice(0, 1), token())
  const again = reserve(entries, holder)
  await again.counted.refund(again.taken, holder)
  t.strictSame(used(entries), [1, 0, 0, 0], 'a lock that the memory has given is not theirs to release')
})

t.test('a calendar limit is counted in the period of the other store', async t => {
  const { time, reserve, used, close } = open({ ahead: 2_000 })
  t.teardown(close)
  time.advanceMs(86_399_000)
  const entries = [entry(count(5, 'day'))]
  const first = reserve(entries)
  reserve(entries)
  t.strictSame(used(entries), [2])
  time.advanceMs(3_000)
  t.strictSame(used(entries), [2], 'after midnight')
  await first.counted.refund(first.taken, '')
  t.strictSame(used(entries), [1])
})

t.test('a calendar limit that is counted late is kept to the end of its period', async t => {
  const { time, standIn, reserve, used, close } = open()
  t.teardown(close)
  const entries = [entry(count(5, 'day'))]
  reserve(entries)
  time.advanceMs(8 * 3_600_000)
  t.strictSame(used(entries), [1])
  time.advanceMs(15 * 3_600_000)
  standIn.caughtUp().reserve([entry(spec)], '')
  t.strictSame(used(entries), [1])
})

t.test('where the memory is still in the period before, the later one begins', async t => {
  for (const soon of [true, false]) {
    const { time, standIn, reserve, used, close } = open({ ahead: 2_000 })
    t.teardown(close)
    time.advanceMs(86_399_000)
    const entries = [entry(count(5, 'day'))]
    for (let i = 0; i < 3; i++) standIn.caughtUp().reserve(entries, '')
    reserve(entries)
    if (soon) standIn.caughtUp()
    time.advanceMs(3_000)
    t.strictSame(used(entries), [1], soon ? 'counted before it begins here' : 'counted after')
  }
})

t.test('where the memory is in the period after, the one before changes nothing', async t => {
  const { time, standIn, reserve, used, close } = open({ ahead: -2_000 })
  t.teardown(close)
  const entries = [entry(count(5, 'day'))]
  time.advanceMs(86_401_000)
  for (let i = 0; i < 3; i++) standIn.caughtUp().reserve(entries, '')
  reserve(entries)
  t.strictSame(used(entries), [3])
})

t.test('what is cleared stays so when its note has made room', async t => {
  const { primary, standIn, reserve, used, close } = open()
  t.teardown(close)
  const [known, others] = [[entry(spec)], [entry(count(100_000, 'month'))]]
  reserve(known)
  t.strictSame(used(known), [1])
  await standIn.following(primary).clear(known)
  for (let i = 0; i < 2 ** 16; i++) reserve(others)
  t.strictSame([used(known), used(others)], [[0], [2 ** 16]])
})

t.test('a clear that is heard of late ends what was counted before it, and nothing behind it', async t => {
  for (const behind of [false, true]) {
    const { time, primary, standIn, reserve, used, close } = open()
    t.teardown(close)
    const entries = [entry(spec)]
    reserve(entries)
    const cleared = standIn.following(primary).clear(entries)
    time.advance(1)
    if (behind) reserve(entries)
    standIn.caughtUp()
    await cleared
    t.equal(used(entries)[0] === 0, !behind)
  }
})

t.test('a clear that fails changes nothing', async t => {
  const { primary, standIn, reserve, used, close } = open()
  t.teardown(close)
  const [sent, unsent] = [1, 2].map(who => [entry(spec, who)]) as [Entry[], Entry[]]
  reserve(sent)
  const clear = async () => {
    throw new Error('gone')
  }
  const { clear: cleared } = standIn.following({ ...watched(primary, () => {}), clear })
  for (const entries of [sent, unsent]) await t.rejects(Promise.resolve(cleared(entries)), /gone/)
  t.strictSame([used(sent), used(unsent)], [[1], [0]])
})

t.test('what it has admitted itself stays, however much is admitted there and given back', async t => {
  for (const max of [1, 2, 10, 1_000]) {
    const { standIn, reserve, used, close } = open()
    t.teardown(close)
    const entries = [entry(log([max, 60_000]))]
    for (let i = 0; i < max; i++) standIn.caughtUp().reserve(entries, '')
    const sent = Array.from({ length: max }, () => reserve(entries))
    t.strictSame(used(entries), [2 * max])
    for (const { taken, counted } of sent) await counted.refund(taken, '')
    t.strictSame(used(entries), [max])
    t.equal(standIn.caughtUp().reserve(entries, '')[1], 0)
  }
})

t.test('what is given back twice is that of nobody behind it', async t => {
  const { reserve, used, close } = open()
  t.teardown(close)
  const entries = [1, 2, 3].map(who => entry(spec, who))
  const [, second] = entries.map(each => reserve([each]))
  for (let times = 0; times < 2; times++) await second?.counted.refund(second.taken, '')
  t.strictSame(used(entries), [1, 0, 1])
})

t.test('of more different values than there is room for, the latest stay', async t => {
  const { time, primary, reserve, used, close } = open()
  t.teardown(close)
  const spec = distinct([100, 3_600_000])
  const values = [...Array(700).keys()].map(value => [sentTo(spec, value)])
  for (const [i, entries] of values.entries()) {
    // As another process does: this one does not hear of it.
    if (i % 100 === 0) primary.clear(entries)
    reserve(entries)
    time.advanceMs(1_000)
  }
  t.strictSame(used([sentTo(spec, 1_000)]), [500])
  time.advanceMs(3_600_000 - 450_500)
  t.strictSame(used([sentTo(spec, 1_000)]), [450])
})

t.test('it keeps no process from ending', async t => {
  const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
  const before = timers()
  const { close } = open()
  t.teardown(close)
  t.equal(timers(), before)
})

t.test('it counts little by little', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  const { time, memory, reserve, close } = open()
  t.teardown(() => {
    close()
    mock.timers.reset()
  })
  for (const who of [1, 2, 3]) reserve([entry(spec, who)])
  t.equal(memory.size, 0)
  // One at least each time, however busy the machine.
  mock.timers.tick(3_000)
  t.equal(memory.size, 3)
  reserve([entry(spec, 4)])
  time.advanceMs(61_000)
  close()
  mock.timers.tick(3_000)
  t.equal(memory.size, 3, 'nothing once it is closed')
})

t.test('however much is noted, it is not all counted at a time', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  const { memory, standIn, reserve, close } = open({ maxKeys: 2 ** 16 })
  t.teardown(() => {
    close()
    mock.timers.reset()
  })
  for (let who = 0; who < 2 ** 16; who++) reserve([entry(spec, who)])
  mock.timers.tick(1_000)
  t.ok(memory.size > 0 && memory.size < 2 ** 16)
  const caughtUp = standIn.catchUp()
  t.ok(memory.size < 2 ** 16)
  t.equal(standIn.catchUp(), caughtUp, 'one for all who wait')
  await caughtUp
  t.equal(memory.size, 2 ** 16)
  t.not(standIn.catchUp(), caughtUp)
})

t.test('who is blocked in the other store is blocked', async t => {
  const { primary, standIn, reserve, close } = open()
  t.teardown(close)
  const entries = [entry(spec)]
  const state = () => named(entries, standIn.caughtUp().peek(entries)).entries[0]?.state
  const followed = standIn.following(primary)
  await followed.block(entries, 0)
  t.equal(state(), BLOCKED)
  await followed.unblock(entries)
  t.equal(state(), PASSES)
  await followed.block(entries, 0)
  primary.unblock(entries)
  reserve(entries)
  t.equal(state(), REFUSES, 'unblocked by another process')
})

t.test('an answer that is older than a block does not end it', async t => {
  const { primary, standIn, close } = open()
  t.teardown(close)
  const entries = [entry(spec)]
  const before = standIn.blockings
  const facts = primary.reserve(entries, '')
  const blocking = standIn.following(primary).block(entries, 0)
  const meanwhile = standIn.blockings
  await blocking
  for (const blockings of [before, meanwhile]) standIn.note(entries, facts, primary, blockings)
  t.equal(named(entries, standIn.caughtUp().peek(entries)).entries[0]?.state, BLOCKED)
})

t.test('what is struck out before it is counted has no receipt', async t => {
  const journal = new Journal()
  for (const at of [7, 8]) journal.note(entry(spec), 0, at)
  journal.countNext(() => 9)
  t.equal(journal.strike(spec, 1, 1), 0)
  t.equal(journal.strike(spec, 0, 1), 9)
})

t.test('the latest 65,536 are kept', async t => {
  const journal = new Journal()
  const entries = Array.from({ length: 7 }, (_, who) => entry(spec, who))
  for (let at = 0; at < 2 ** 16 + 5; at++) journal.note(entries[at % 7] as Entry, 0, at)
  const times: number[] = []
  const count = ({ identity }: Entry, at: number) => {
    if (!entries[at % 7]?.identity.startsWith(identity)) throw new Error(`note ${at}`)
    return times.push(at)
  }
  t.equal(journal.clear(4), false, 'its place is that of another')
  while (journal.countNext(count));
  t.strictSame([times.length, times[0], times.at(-1)], [2 ** 16, 5, 2 ** 16 + 4])
  t.equal(journal.strike(spec, 0, 5), 0, 'gone')
  t.equal(journal.strike(spec, 5, 1), 1)
  t.equal(journal.strike(spec, 5, 1), 0, 'struck out')
  t.equal(journal.countNext(count), false)
})

import { deepStrictEqual } from 'node:assert/strict'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { ADMITTED, BLOCKED, PASSES, REFUSES } from '../../../plugin/store/facts.js'
import { Journal } from '../../../plugin/store/journal.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { StandIn } from '../../../plugin/store/stand-in.js'
import type { Entry, Settling, Taken } from '../../../plugin/store/store.js'
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
  sentTo,
  takenOf,
  token,
  usedOf
} from '../../contract/specs.js'
import { Time } from '../../contract/time.js'
import { activeTimers } from '../../helper/active-timers.js'

/** Two memory stores: the primary, and the stand-in memory, by the same wall clock or another. */
function open({ maxKeys = 1_000, ahead = 0 } = {}) {
  const time = new Time('2026-03-01T00:00:00Z')
  const { monotonic, wall } = time.clock
  let older = 0
  const primary = new MemoryStore({
    clock: { monotonic: () => monotonic() + older, wall: () => wall() + ahead }
  })
  // So that its receipts differ from those of the primary store.
  older = 5_000
  const memory = new MemoryStore({ clock: time.clock, maxKeys })
  const standIn = new StandIn(memory)
  const close = () => {
    primary.close()
    standIn.close()
  }
  /** Decides in the primary store, and notes in the stand-in memory what is admitted. */
  function reserve(entries: readonly Entry[], holder = ''): { taken: Taken[]; counted: Settling } {
    const asked = performance.now()
    const facts = primary.reserve(entries, holder)
    const taken = takenOf(entries, named(entries, facts))
    return {
      taken,
      counted: facts[ADMITTED] === 1 ? standIn.note(entries, facts, primary, asked) : primary
    }
  }
  const used = (entries: readonly Entry[], store: MemoryStore = standIn.caughtUp()) =>
    usedOf(entries, store.peek(entries))
  return { time, primary, memory, standIn, reserve, used, close }
}

const spec = log([1, 60_000])
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
  { weight: 1, arbitrary: fc.record({ clear: fc.integer({ min: 0, max: 2 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      wait: fc.oneof(fc.constant(0), fc.integer({ max: 400_000, min: 1 }), fc.constant(360_000_000))
    })
  },
  { weight: 1, arbitrary: fc.record({ peek: fc.integer({ min: 0, max: 2 }) }) }
)

t.test('whenever the stand-in memory is asked, it has the same facts as the primary store', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async steps => {
      const { time, primary, standIn, reserve, close } = open()
      const followed = standIn.following(primary)
      const sent: ReturnType<typeof reserve>[] = []
      const compare = (who: number) => {
        const entries = entriesOf(specs, who)
        deepStrictEqual(standIn.caughtUp().peek(entries), primary.peek(entries))
      }
      for (const each of steps) {
        // Within one tick, a send after a refund would be counted a tick later in the stand-in memory.
        time.advance(1)
        if ('send' in each) sent.push(reserve(sendOf(each.send, each.value)))
        else if ('wait' in each) time.advance(each.wait)
        else if ('peek' in each) compare(each.peek)
        else if ('clear' in each) await followed.clear(entriesOf(specs, each.clear))
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

t.test('the stand-in memory counts sends as far as it has room', async t => {
  const { time, reserve, used, close } = open({ maxKeys: 2 })
  t.teardown(close)
  const entries = ['a', 'b', 'c'].map(who => entry(spec, who))
  const last = entries.map(each => reserve([each])).pop()
  t.strictSame(used(entries), [1, 1, 0])
  await last?.counted.refund(last.taken, '')
  t.strictSame(used(entries), [1, 1, 0], 'a refund of a send that was not counted changes nothing')
  time.advanceMs(61_000)
  const late = [entry(spec, 'late')]
  reserve(late)
  t.strictSame(used(late), [1], 'expired records make room')
})

t.test('counts whose day ends late keep no room from counts whose day is over', async t => {
  const { time, reserve, used, close } = open({ maxKeys: 100 })
  t.teardown(close)
  const daily = count(1, 'day')
  const day = (timeZone: string, who: number) => [{ ...entry({ ...daily, timeZone }, who), zoned: true }]
  for (let who = 0; who < 50; who++) reserve(day('Europe/London', who))
  for (let who = 50; who < 100; who++) reserve(day('Asia/Shanghai', who))
  t.strictSame(used(day('Asia/Shanghai', 99)), [1])
  // A count is kept for an hour after its day, in case the clock is set back.
  time.advanceMs(17.5 * 3_600_000)
  const later = Array.from({ length: 40 }, (_, who) => entry(spec, `later ${who}`))
  for (const each of later) reserve([each])
  t.strictSame(used(later.slice(-1)), [1])
  t.strictSame(used(day('Europe/London', 0)), [1], 'a count whose day is not over stays')
})

t.test('a send that is out of its window when it would be counted takes no room', async t => {
  const { time, memory, reserve, used, close } = open()
  t.teardown(close)
  const entries = [entry(spec)]
  reserve(entries)
  time.advanceMs(spec.ttl)
  t.strictSame(used(entries), [0])
  t.equal(memory.size, 0)
})

t.test('locks, attempts and observed rules are counted in the primary store alone', async t => {
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
  t.strictSame(used(entries), [1, 0, 0, 0], 'a lock that the stand-in memory has given is not released')
})

t.test('a calendar limit is counted in the period of the primary store', async t => {
  const { time, reserve, used, close } = open({ ahead: 2_000 })
  t.teardown(close)
  time.advanceMs(86_399_000)
  const entries = [entry(count(5, 'day'))]
  const first = reserve(entries)
  reserve(entries)
  t.strictSame(used(entries), [2])
  time.advanceMs(3_000)
  t.strictSame(used(entries), [2], 'after midnight by the clock of the stand-in memory')
  await first.counted.refund(first.taken, '')
  t.strictSame(used(entries), [1])
})

t.test('a count that was noted and counted late is kept to the end of its period', async t => {
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

t.test(
  'when the stand-in memory is still in the period before, a noted send begins the later period',
  async t => {
    for (const soon of [true, false]) {
      const { time, standIn, reserve, used, close } = open({ ahead: 2_000 })
      t.teardown(close)
      time.advanceMs(86_399_000)
      const entries = [entry(count(5, 'day'))]
      for (let i = 0; i < 3; i++) standIn.caughtUp().reserve(entries, '')
      reserve(entries)
      if (soon) standIn.caughtUp()
      time.advanceMs(3_000)
      t.strictSame(used(entries), [1], soon ? 'counted before that period begins here' : 'counted after that')
    }
  }
)

t.test('when the stand-in memory is in the next period already, a noted send changes nothing', async t => {
  const { time, standIn, reserve, used, close } = open({ ahead: -2_000 })
  t.teardown(close)
  const entries = [entry(count(5, 'day'))]
  time.advanceMs(86_401_000)
  for (let i = 0; i < 3; i++) standIn.caughtUp().reserve(entries, '')
  reserve(entries)
  t.strictSame(used(entries), [3])
})

t.test('a cleared send stays cleared when later notes have taken its place', async t => {
  const { primary, standIn, reserve, used, close } = open()
  t.teardown(close)
  const [known, others] = [[entry(spec)], [entry(count(100_000, 'month'))]]
  reserve(known)
  t.strictSame(used(known), [1])
  await standIn.following(primary).clear(known)
  for (let i = 0; i < 2 ** 16; i++) reserve(others)
  t.strictSame([used(known), used(others)], [[0], [2 ** 16]])
})

t.test('a clear that is answered late clears the send before it, and not a send after it', async t => {
  for (const kept of [log([2, 60_000]), count(5, 'day')])
    for (const behind of ['no send', 'a send that is noted', 'a send of the stand-in memory']) {
      const { time, primary, standIn, reserve, used, close } = open()
      t.teardown(close)
      const entries = [entry(kept)]
      reserve(entries)
      time.advanceMs(1_000)
      const cleared = standIn.following(primary).clear(entries)
      time.advance(1)
      if (behind === 'a send that is noted') reserve(entries)
      const memory = standIn.caughtUp()
      if (behind === 'a send of the stand-in memory') memory.reserve(entries, '')
      await cleared
      t.equal(used(entries)[0] === 0, behind === 'no send', `${kept.kind}, ${behind} after it`)
    }
})

t.test('a clear clears what was counted before it, whatever was given back since', async t => {
  for (const kept of [log([5, 60_000]), count(5, 'day'), distinct([5, 60_000])])
    for (const sends of [0, 1]) {
      const { time, primary, standIn, reserve, close } = open()
      t.teardown(close)
      const to = (value: number) => [kept.kind === 'distinct' ? sentTo(kept, value) : entry(kept)]
      const given = [reserve(to(1)), reserve(to(2))]
      time.advanceMs(1_000)
      const cleared = standIn.following(primary).clear(to(1))
      const memory = standIn.caughtUp()
      for (let i = 0; i < sends; i++) memory.reserve(to(3), '')
      // As while sends wait to be carried over: a slot is held until the primary store has answered.
      standIn.release(takenOf(to(4), named(to(4), memory.reserve(to(4), ''))), '')
      await given[0]?.counted.refund(given[0].taken, '')
      await cleared
      const left = usedOf(to(5), memory.peek(to(5)))
      t.strictSame(left, [sends === 0 ? 0 : 2], `${kept.kind}, ${sends} sends after it`)
    }
})

t.test('a clear that fails in the primary store changes nothing', async t => {
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

t.test(
  'sends that the stand-in memory admitted itself stay, however many others are noted and refunded',
  async t => {
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
  }
)

t.test('a send that is refunded twice takes away no later send', async t => {
  const { reserve, used, close } = open()
  t.teardown(close)
  const entries = [1, 2, 3].map(who => entry(spec, who))
  const [, second] = entries.map(each => reserve([each]))
  for (let times = 0; times < 2; times++) await second?.counted.refund(second.taken, '')
  t.strictSame(used(entries), [1, 0, 1])
})

t.test('of more different values than there is room for, the latest are kept', async t => {
  const { time, primary, reserve, used, close } = open()
  t.teardown(close)
  const spec = distinct([100, 3_600_000])
  const values = [...Array(700).keys()].map(value => [sentTo(spec, value)])
  for (const [i, entries] of values.entries()) {
    // As another process does, without the stand-in memory hearing of it.
    if (i % 100 === 0) primary.clear(entries)
    reserve(entries)
    time.advanceMs(1_000)
  }
  t.strictSame(used([sentTo(spec, 1_000)]), [500])
  time.advanceMs(3_600_000 - 450_500)
  t.strictSame(used([sentTo(spec, 1_000)]), [450])
})

t.test('the stand-in memory keeps no process from ending', async t => {
  const before = activeTimers()
  const { close } = open()
  t.teardown(close)
  t.equal(activeTimers(), before)
})

t.test('notes are counted little by little, and no more after close', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  const { time, memory, reserve, close } = open()
  t.teardown(() => {
    close()
    mock.timers.reset()
  })
  for (const who of [1, 2, 3]) reserve([entry(spec, who)])
  t.equal(memory.size, 0)
  // At least one note each time, however busy the machine.
  mock.timers.tick(3_000)
  t.equal(memory.size, 3)
  reserve([entry(spec, 4)])
  time.advanceMs(61_000)
  close()
  mock.timers.tick(3_000)
  t.equal(memory.size, 3, 'nothing is counted once it is closed')
})

t.test('many notes are not all counted at a time, not even to catch up', async t => {
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
  t.equal(standIn.catchUp(), caughtUp, 'all who wait share one promise')
  await caughtUp
  t.equal(memory.size, 2 ** 16)
  t.not(standIn.catchUp(), caughtUp)
})

t.test('a key that is blocked or unblocked in the primary store is so in the stand-in memory', async t => {
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

t.test('an answer to a call before a block does not end the block', async t => {
  const { primary, standIn, close } = open()
  t.teardown(close)
  const entries = [entry(spec)]
  const before = performance.now()
  const facts = primary.reserve(entries, '')
  const blocking = standIn.following(primary).block(entries, 0)
  const meanwhile = performance.now()
  await blocking
  for (const asked of [before, meanwhile]) standIn.note(entries, facts, primary, asked)
  t.equal(named(entries, standIn.caughtUp().peek(entries)).entries[0]?.state, BLOCKED)
})

t.test('a note that is struck out before it is counted has no receipt', async t => {
  const journal = new Journal()
  for (const at of [7, 8]) journal.note(entry(spec), 0, at)
  journal.countNext(() => 9)
  t.equal(journal.strike(spec, 1, 1), 0)
  t.equal(journal.strike(spec, 0, 1), 9)
})

t.test('the journal keeps the latest 65,536 notes', async t => {
  const journal = new Journal()
  const entries = Array.from({ length: 7 }, (_, who) => entry(spec, who))
  for (let at = 0; at < 2 ** 16 + 5; at++) journal.note(entries[at % 7] as Entry, 0, at)
  const times: number[] = []
  const count = ({ identity }: Entry, at: number) => {
    if (!entries[at % 7]?.identity.startsWith(identity)) throw new Error(`note ${at}`)
    return times.push(at)
  }
  t.equal(journal.clear(4), 0, 'its place has been taken by a later note')
  while (journal.countNext(count));
  t.strictSame([times.length, times[0], times.at(-1)], [2 ** 16, 5, 2 ** 16 + 4])
  t.equal(journal.clear(5), 1, 'the earliest note that is kept')
  t.equal(journal.strike(spec, 0, 5), 0, 'a note that was overwritten')
  t.equal(journal.strike(spec, 5, 1), 1)
  t.equal(journal.strike(spec, 5, 1), 0, 'a note that is struck out already')
  t.equal(journal.countNext(count), false)
})

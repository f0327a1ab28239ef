import type { Test } from 'tap'
import { BLOCKED, type Entry, PASSES, REFUSES, type Store, type Taken } from '../../plugin/store/store.js'
import { distinctCases } from './distinct.js'
import {
  count,
  entry,
  lock,
  log,
  type NamedFacts,
  named,
  observed,
  oneRule,
  takenOf,
  token
} from './specs.js'
import type { Time } from './time.js'

export interface Opened {
  store: Store
  time: Time
}

/** A store of its own for each case, at this date. */
export type Open = (t: Test, start: string) => Promise<Opened>

/** A store with the words that the cases speak in. */
export class Subject {
  readonly store: Store
  readonly time: Time

  constructor(
    readonly t: Test,
    { store, time }: Opened
  ) {
    this.store = store
    this.time = time
  }

  async reserve(entries: Entry[], holder = token()): Promise<NamedFacts> {
    return named(entries, await this.store.reserve(entries, holder))
  }

  async peek(entries: Entry[]): Promise<NamedFacts> {
    return named(entries, await this.store.peek(entries))
  }

  /** Reserves what must be admitted. @returns how to give it back */
  async take(entries: Entry[], holder = token()): Promise<Taken[]> {
    const facts = await this.reserve(entries, holder)
    this.t.equal(facts.admitted, true, 'admitted')
    return takenOf(entries, facts)
  }

  /** How many are used, by entry and limit. */
  async used(entries: Entry[]): Promise<number[][]> {
    return (await this.peek(entries)).entries.map(({ limits }) => limits.map(({ used }) => used))
  }

  async admits(entries: Entry[], expected: boolean, message: string): Promise<void> {
    this.t.equal((await this.peek(entries)).admitted, expected, message)
  }

  async refund(taken: Taken[], holder = ''): Promise<void> {
    await this.store.refund(taken, holder)
  }
}

const states = (facts: NamedFacts) => facts.entries.map(({ state }) => state)
const counted = (facts: NamedFacts) => facts.entries.map(({ receipt }) => receipt !== 0)
const blocks = (facts: NamedFacts) => facts.entries.map(({ blockedFor }) => blockedFor)
const hour = 3_600_000
const day = 24 * hour

/** What every store promises, in the order of its page. */
const cases: [string, (s: Subject) => Promise<void>][] = [
  [
    'an unused log, count and lock admit, and say how much is used',
    async s => {
      const entries = [entry(log([2, 1_000], [5, 9_000])), entry(count(7, 'hour')), entry(lock(500))]
      const facts = await s.reserve(entries)
      s.t.equal(facts.now, s.time.ticks, 'the wall clock')
      s.t.equal(facts.admitted, true)
      s.t.strictSame(states(facts), [PASSES, PASSES, PASSES])
      s.t.strictSame(counted(facts), [true, true, true])
      s.t.strictSame(
        facts.entries.map(({ limits }) => limits),
        [
          [
            { used: 0, reset: 0 },
            { used: 0, reset: 0 }
          ],
          [{ used: 0, reset: hour * 100 }],
          [{ used: 0, reset: 0 }]
        ]
      )
      s.t.strictSame(await s.used(entries), [[1, 1], [1], [1]])
    }
  ],
  [
    'a count that was begun by a clock far ahead is not for the clock that was put right',
    async s => {
      const entries = [entry(count(1, 'month'))]
      const longer = 33 * day
      s.time.advanceMs(longer)
      const ahead = await s.take(entries)
      await s.admits(entries, false, 'by the clock that is ahead')
      s.time.advanceMs(-longer)
      await s.admits(entries, true, 'put right')
      const right = await s.take(entries)
      await s.refund(ahead)
      s.t.strictSame(await s.used(entries), [[1]])
      await s.refund(right)
      s.t.strictSame(await s.used(entries), [[0]])
    }
  ],
  [
    'a count that was begun by a clock a little ahead goes on when the clock is put right',
    async s => {
      const entries = [entry(count(1, 'month'))]
      await s.take(entries)
      s.time.advanceMs(-2 * hour)
      await s.admits(entries, false, 'in the month before')
      s.t.equal((await s.reserve(entries)).admitted, false)
      // From here its end is as far away as that of a month may be in any zone.
      s.time.advanceMs(-26 * hour)
      s.t.equal((await s.reserve(entries)).admitted, false)
      s.time.advance(-1)
      await s.take(entries)
      s.t.strictSame(await s.used(entries), [[1]], 'begun anew')
    }
  ],
  [
    'a stamp counts up to, and not with, the instant one window later',
    async s => {
      const entries = [entry(log([1, 60_000]))]
      await s.take(entries)
      s.time.advance(6_000_000 - 1)
      const facts = await s.reserve(entries)
      s.t.equal(facts.admitted, false, 'refused one tick before')
      s.t.strictSame(facts.entries, [
        { state: REFUSES, receipt: 0, blockedFor: 0, limits: [{ used: 1, reset: 1 }] }
      ])
      s.time.advance(1)
      await s.take(entries)
    }
  ],
  [
    'a window rolls: never more than max in any span',
    async s => {
      const entries = [entry(log([3, 10_000]))]
      for (const pause of [0, 4_000, 5_999]) {
        s.time.advanceMs(pause)
        await s.take(entries)
      }
      await s.admits(entries, false, 'full')
      s.time.advanceMs(1)
      await s.take(entries)
      await s.admits(entries, false, 'the first has gone, the others count')
      s.t.equal((await s.peek(entries)).entries[0]?.limits[0]?.reset, 400_000)
    }
  ],
  [
    'stamps of one instant are told apart',
    async s => {
      const entries = [entry(log([3, 10_000]))]
      const receipts = [await s.take(entries), await s.take(entries), await s.take(entries)].map(
        ([taken]) => taken?.receipt
      )
      s.t.equal(new Set(receipts).size, 3)
      s.time.advanceMs(10_000)
      s.t.strictSame(await s.used(entries), [[2]])
      s.time.advance(2)
      s.t.strictSame(await s.used(entries), [[0]])
    }
  ],
  [
    'each of several limits refuses, and tells of itself',
    async s => {
      const entries = [entry(log([1, 60_000], [2, hour]))]
      await s.take(entries)
      s.t.strictSame((await s.reserve(entries)).entries[0], {
        state: REFUSES,
        receipt: 0,
        blockedFor: 0,
        limits: [
          { used: 1, reset: 6_000_000 },
          { used: 1, reset: hour * 100 }
        ]
      })
      s.time.advanceMs(60_000)
      await s.take(entries)
      s.time.advanceMs(60_000)
      s.t.strictSame((await s.reserve(entries)).entries[0], {
        state: REFUSES,
        receipt: 0,
        blockedFor: 0,
        limits: [
          { used: 0, reset: 0 },
          { used: 2, reset: (hour - 120_000) * 100 }
        ]
      })
    }
  ],
  [
    'all or nothing: one that refuses keeps all from being counted',
    async s => {
      const full = entry(log([1, 60_000]))
      const held = entry(lock(60_000))
      const spent = entry(count(1, 'day'))
      await s.take([full, held, spent])
      const others = [entry(log([2, 60_000])), entry(count(5, 'day')), entry(lock(60_000))]
      for (const one of [full, held, spent]) {
        const entries = [...others.slice(0, 2), one, ...others.slice(2)]
        const facts = await s.reserve(entries)
        s.t.equal(facts.admitted, false)
        s.t.strictSame(states(facts), [PASSES, PASSES, REFUSES, PASSES])
        s.t.strictSame(counted(facts), [false, false, false, false])
      }
      s.t.strictSame(await s.used(others), [[0], [0], [0]])
    }
  ],
  [
    'every one that refuses is told, not the first alone',
    async s => {
      const entries = [entry(log([1, 60_000])), entry(count(1, 'day')), entry(lock(60_000))]
      await s.take(entries)
      s.t.strictSame(states(await s.reserve(entries)), [REFUSES, REFUSES, REFUSES])
    }
  ],
  [
    'identities do not touch each other',
    async s => {
      const specs = [log([1, 60_000]), count(1, 'day'), lock(60_000)]
      await s.take(specs.map(spec => entry(spec, 'a')))
      await s.take(specs.map(spec => entry(spec, 'b')))
      await s.take([entry(specs[0] as never, 'c'), entry(log([1, 60_000]), 'a')])
    }
  ],
  [
    'an observed rule that would refuse is not counted, and refuses nothing',
    async s => {
      const seen = entry(observed(log([1, 60_000])))
      const real = entry(log([3, 60_000]))
      await s.take([seen, real])
      const facts = await s.reserve([seen, real])
      s.t.equal(facts.admitted, true)
      s.t.strictSame(states(facts), [REFUSES, PASSES])
      s.t.strictSame(counted(facts), [false, true])
      s.t.strictSame(await s.used([seen, real]), [[1], [2]])
    }
  ],
  [
    'an observed rule of several entries stands and falls together',
    async s => {
      const [first, second, third] = oneRule([log([5, 60_000]), count(1, 'day'), log([5, 1_000])], true).map(
        spec => entry(spec)
      )
      const real = entry(log([5, 60_000]))
      const entries = [first, real, second, third] as Entry[]
      await s.take(entries)
      s.t.strictSame(counted(await s.reserve(entries)), [false, true, false, false])
      s.t.strictSame(await s.used(entries), [[1], [2], [1], [1]])
    }
  ],
  [
    'an observed rule is charged only when all in force admit',
    async s => {
      const seen = entry(observed(log([5, 60_000])))
      const real = entry(log([1, 60_000]))
      await s.take([seen, real])
      s.t.strictSame(counted(await s.reserve([seen, real])), [false, false])
      s.t.strictSame(await s.used([seen]), [[1]])
    }
  ],
  [
    "a lock is one holder's until it ends",
    async s => {
      const held = [entry(lock(30_000))]
      await s.take(held)
      s.time.advance(3_000_000 - 1)
      s.t.strictSame((await s.reserve(held)).entries[0]?.limits, [{ used: 1, reset: 1 }])
      s.time.advance(1)
      await s.take(held)
    }
  ],
  [
    'a lock is released by its holder alone',
    async s => {
      const held = [entry(lock(30_000))]
      const mine = token()
      const taken = await s.take(held, mine)
      const [first, second, third] = [mine.slice(0, 8), mine.slice(8, 16), mine.slice(16)]
      const other = token().slice(0, 8)
      for (const stranger of [token(), other + second + third, first + other + third, first + second + other])
        await s.refund(taken, stranger)
      await s.admits(held, false, 'a stranger released nothing')
      await s.refund(taken, mine)
      await s.admits(held, true, 'its holder did')
      await s.refund(taken, mine)
      s.t.equal(await s.store.renew(held, mine), false, 'nothing is left to renew')
      const theirs = token()
      await s.take(held, theirs)
      await s.refund(taken, mine)
      await s.admits(held, false, 'once')
    }
  ],
  [
    'a lock is renewed by its holder alone, while it lasts',
    async s => {
      const held = [entry(lock(30_000))]
      const mine = token()
      await s.take(held, mine)
      s.time.advanceMs(20_000)
      s.t.equal(await s.store.renew(held, token()), false, 'not by a stranger')
      s.t.equal(await s.store.renew(held, mine), true)
      s.time.advanceMs(29_999)
      await s.admits(held, false, 'it lasts from the renewal on')
      s.time.advanceMs(1)
      s.t.equal(await s.store.renew(held, mine), false, 'not once it has ended')
      await s.take(held)
      s.t.equal(await s.store.renew(held, mine), false, "not once it is another's")
    }
  ],
  [
    'several locks are renewed; one that is lost is told, the others go on',
    async s => {
      const all = [entry(lock(10_000)), entry(lock(30_000)), entry(lock(10_000))]
      const mine = token()
      await s.take(all, mine)
      s.time.advanceMs(10_000)
      s.t.equal(await s.store.renew(all, mine), false)
      s.time.advanceMs(25_000)
      s.t.strictSame(await s.used(all), [[0], [1], [0]])
    }
  ],
  [
    'a count of two zones rolls over at the midnight of each',
    async s => {
      const spec = count(1, 'day', 'Asia/Shanghai')
      const shanghai = entry(spec, 'a')
      const york = entry({ ...spec, timeZone: 'America/New_York' }, 'b')
      s.time.advanceMs(12 * hour)
      await s.take([shanghai, york])
      const waits = (await s.peek([shanghai, york])).entries.map(({ limits }) => limits[0]?.reset)
      for (const entry of [shanghai, york]) await s.admits([entry], false, 'used up')
      s.time.advance((waits[0] as number) - 1)
      await s.admits([shanghai], false, 'before midnight in Shanghai')
      s.time.advance(1)
      await s.admits([shanghai], true, 'midnight in Shanghai')
      await s.admits([york], false, 'and not in New York')
      s.time.advance((waits[1] as number) - (waits[0] as number) - 1)
      await s.admits([york], false, 'before midnight in New York')
      s.time.advance(1)
      await s.take([york])
      await s.take([shanghai])
    }
  ],
  [
    'a period in force ends when it ends, whatever zone is asked for next',
    async s => {
      const spec = count(2, 'day', 'Asia/Shanghai')
      const before = entry(spec)
      const after = entry({ ...spec, timeZone: 'America/New_York' })
      const [first] = await s.take([before])
      const reset = (await s.peek([before])).entries[0]?.limits[0]?.reset ?? 0
      await s.take([after])
      s.t.same((await s.peek([after])).entries[0]?.limits, [{ used: 2, reset }])
      await s.refund([first as Taken])
      s.t.same(await s.used([before, after]), [[1], [1]], 'a slot goes back all the same')
      s.time.advance(reset)
      s.t.same(await s.used([after]), [[0]])
    }
  ],
  [
    'a count begins anew with its period',
    async s => {
      const entries = [entry(count(2, 'day', 'Asia/Shanghai'))]
      await s.take(entries)
      await s.take(entries)
      const facts = await s.reserve(entries)
      s.t.strictSame(facts.entries, [
        { state: REFUSES, receipt: 0, blockedFor: 0, limits: [{ used: 2, reset: 16 * hour * 100 }] }
      ])
      s.time.advanceMs(16 * hour - 1)
      await s.admits(entries, false, 'the last millisecond')
      s.time.advance(99)
      await s.admits(entries, false, 'the last tick')
      s.time.advance(1)
      s.t.strictSame((await s.peek(entries)).entries[0]?.limits, [{ used: 0, reset: day * 100 }])
      await s.take(entries)
      s.t.strictSame(await s.used(entries), [[1]])
    }
  ],
  [
    'periods of every kind end where their zone says',
    async s => {
      // The night in which Berlin's clocks go forward: its day has 23 hours.
      const ends: [ReturnType<typeof count>, number][] = [
        [count(1, 'hour', 'Europe/Berlin'), hour],
        [count(1, 'day', 'Europe/Berlin'), 23 * hour],
        [count(1, 'week', 'Europe/Berlin'), 23 * hour],
        [count(1, 'month', 'Europe/Berlin'), 71 * hour],
        [count(1, 'day', 'UTC'), hour],
        [count(1, 'day', 'Asia/Kolkata'), 19.5 * hour]
      ]
      s.time.advanceMs(27 * day + 23 * hour)
      const entries = ends.map(([spec]) => entry(spec))
      const facts = await s.reserve(entries)
      s.t.strictSame(
        facts.entries.map(each => each.limits[0]?.reset),
        ends.map(([, ms]) => ms * 100)
      )
      // In the order of time.
      for (const [i, [, ms]] of [...ends.entries()].sort(([, [, one]], [, [, other]]) => one - other)) {
        s.time.set(facts.now + ms * 100 - 1)
        await s.admits([entries[i] as Entry], false, `${i}: the last tick`)
        s.time.advance(1)
        await s.admits([entries[i] as Entry], true, `${i}: the end`)
      }
    }
  ],
  [
    'a refund returns its own slot, once, however often it is told',
    async s => {
      const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
      const first = await s.take(entries)
      await s.take(entries)
      s.time.advanceMs(1)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[1], [1]])
      await s.take(entries)
      for (let i = 0; i < 5; i++) await s.refund(first)
      s.t.strictSame(await s.used(entries), [[2], [2]], "nothing of a stranger's")
      s.time.advanceMs(59_999)
      s.t.strictSame(await s.used(entries), [[2], [2]])
      s.time.advance(1)
      s.t.strictSame(await s.used(entries), [[1], [2]], "the second one's instant is still its own")
    }
  ],
  [
    'a refund of the later one stays known while others are counted',
    async s => {
      const entries = [entry(log([5, 60_000])), entry(count(5, 'day'))]
      await s.take(entries)
      const second = await s.take(entries)
      s.time.advanceMs(1)
      await s.refund(second)
      await s.take(entries)
      await s.refund(second)
      s.t.strictSame(await s.used(entries), [[2], [2]])
    }
  ],
  [
    'refunds in any order each return one slot',
    async s => {
      const entries = [entry(log([5, 60_000])), entry(count(5, 'day'))]
      const taken: Taken[][] = []
      for (let i = 0; i < 5; i++) taken.push(await s.take(entries))
      for (const [i, which] of [3, 0, 4, 2, 1].entries()) {
        await s.refund(taken[which] as Taken[])
        await s.refund(taken[which] as Taken[])
        s.t.strictSame(await s.used(entries), [[4 - i], [4 - i]])
      }
    }
  ],
  [
    'a refund after the window changes nothing',
    async s => {
      const entries = [entry(log([2, 60_000]))]
      const first = await s.take(entries)
      s.time.advanceMs(60_000)
      await s.take(entries)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[1]])
      s.time.advanceMs(hour)
      await s.refund(first)
      await s.take(entries)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[1]])
    }
  ],
  [
    'a refund in the next period changes nothing there',
    async s => {
      const entries = [entry(count(2, 'hour'))]
      const first = await s.take(entries)
      s.time.advanceMs(hour)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[0]])
      await s.take(entries)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[1]])
    }
  ],
  [
    'what was never issued is not given back',
    async s => {
      const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
      const [stamp, number] = (await s.take(entries)) as [Taken, Taken]
      await s.refund([
        { ...stamp, receipt: stamp.receipt + 1 },
        { ...number, receipt: number.receipt + 1 }
      ])
      await s.refund([
        { ...stamp, receipt: 1 },
        { ...number, receipt: 1 }
      ])
      await s.refund([{ ...number, ends: number.ends + 1 }])
      await s.refund([
        { ...stamp, entry: entry(stamp.entry.spec, 'b') },
        { ...number, entry: entry(number.entry.spec, 'b') }
      ])
      s.t.strictSame(await s.used(entries), [[1], [1]])
    }
  ],
  [
    'a refund of some entries leaves the others',
    async s => {
      const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
      const [stamp, number] = (await s.take(entries)) as [Taken, Taken]
      await s.refund([number])
      s.t.strictSame(await s.used(entries), [[1], [0]])
      await s.refund([stamp])
      s.t.strictSame(await s.used(entries), [[0], [0]])
    }
  ],
  [
    'a refund from before a clear does not touch what came after',
    async s => {
      const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
      const before = [...(await s.take(entries)), ...(await s.take(entries))]
      // The next tick: a receipt later than the last one.
      s.time.advance(2)
      await s.store.clear(entries)
      await s.take(entries)
      for (let i = 0; i < 3; i++) await s.refund(before.slice(0, 2))
      await s.refund(before.slice(2))
      s.t.strictSame(await s.used(entries), [[1], [1]])
    }
  ],
  [
    'a count remembers a thousand refunds; then old receipts pass for refunded',
    async s => {
      const entries = [entry(count(5_000, 'month'))]
      const all: Taken[] = []
      for (let i = 0; i < 1_004; i++) all.push(...(await s.take(entries)))
      const among = all[700] as Taken
      for (const taken of all.slice(2, 1_002)) if (taken !== among) await s.refund([taken])
      await s.refund([all[1] as Taken])
      s.t.strictSame(await s.used(entries), [[4]])
      await s.refund([all[500] as Taken])
      s.t.strictSame(await s.used(entries), [[4]], 'each is remembered')
      await s.refund([all[0] as Taken])
      s.t.strictSame(
        await s.used(entries),
        [[4]],
        'older than all that are remembered: too few messages rather than too many'
      )
      await s.refund([all[1_002] as Taken])
      s.t.strictSame(await s.used(entries), [[3]], 'a later one is still given back')
      await s.refund([among])
      s.t.strictSame(await s.used(entries), [[2]], 'and one among them')
      for (const taken of all.slice(0, 1_003)) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[2]], 'and none twice, those forgotten neither')
    }
  ],
  [
    'clear forgets what is counted, and keeps blocks',
    async s => {
      const entries = [entry(log([1, 60_000])), entry(count(1, 'day')), entry(lock(60_000))]
      await s.take(entries)
      await s.store.clear(entries)
      s.t.strictSame(await s.used(entries), [[0], [0], [0]])
      await s.take(entries)
      await s.store.block(entries.slice(0, 2), 0)
      await s.store.clear(entries)
      s.t.strictSame(states(await s.peek(entries)), [BLOCKED, BLOCKED, PASSES])
      await s.store.unblock(entries.slice(0, 2))
      s.t.strictSame(await s.used(entries), [[0], [0], [0]])
      await s.store.clear([entry(log([1, 60_000]))])
    }
  ],
  [
    'a block for a time ends by itself; what is counted stays',
    async s => {
      const entries = [entry(log([3, hour])), entry(count(3, 'day'))]
      await s.take(entries)
      await s.store.block(entries, 60_000)
      s.time.advance(6_000_000 - 1)
      const facts = await s.reserve(entries)
      s.t.equal(facts.admitted, false)
      s.t.strictSame(states(facts), [BLOCKED, BLOCKED])
      s.t.strictSame(blocks(facts), [1, 1])
      s.t.strictSame(
        facts.entries.map(each => each.limits[0]?.used),
        [1, 1]
      )
      s.time.advance(1)
      await s.take(entries)
      s.t.strictSame(await s.used(entries), [[2], [2]])
    }
  ],
  [
    'a block without a time lasts until unblocked',
    async s => {
      const entries = [entry(log([3, hour])), entry(count(9, 'month'))]
      await s.take(entries)
      await s.store.block(entries, 0)
      s.time.advanceMs(20 * day)
      const facts = await s.reserve(entries)
      s.t.strictSame(states(facts), [BLOCKED, BLOCKED])
      s.t.strictSame(blocks(facts), [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY])
      s.time.advanceMs(400 * day)
      s.t.strictSame(states(await s.reserve(entries)), [BLOCKED, BLOCKED])
      await s.store.unblock(entries)
      await s.take(entries)
      await s.store.unblock(entries)
      s.t.strictSame(await s.used(entries), [[1], [1]])
    }
  ],
  [
    'of one rule, too, what is not blocked passes',
    async s => {
      const entries = oneRule([log([3, hour]), count(9, 'month')]).map(spec => entry(spec))
      await s.store.block(entries.slice(1), 0)
      s.t.strictSame(states(await s.reserve(entries)), [PASSES, BLOCKED])
    }
  ],
  [
    'unblock keeps what is counted; blocking again replaces the block',
    async s => {
      const entries = [entry(log([1, hour])), entry(count(1, 'day'))]
      await s.take(entries)
      await s.store.block(entries, 0)
      await s.store.block(entries, 1_000)
      s.t.strictSame(states(await s.peek(entries)), [BLOCKED, BLOCKED])
      await s.store.unblock(entries)
      s.t.strictSame(states(await s.peek(entries)), [REFUSES, REFUSES])
      await s.store.block(entries, 0)
      await s.store.block(entries, 1_000)
      s.time.advanceMs(1_000)
      s.t.strictSame(states(await s.peek(entries)), [REFUSES, REFUSES])
    }
  ],
  [
    'whoever was never counted can be blocked, and what is blocked refunded',
    async s => {
      const entries = [entry(log([5, hour])), entry(count(5, 'day'))]
      await s.store.block(entries, 0)
      s.t.strictSame(states(await s.reserve(entries)), [BLOCKED, BLOCKED])
      await s.store.unblock(entries)
      const taken: Taken[][] = []
      for (let i = 0; i < 5; i++) taken.push(await s.take(entries))
      await s.store.block(entries, 0)
      for (const i of [2, 0, 4, 0, 1, 2, 3, 3]) await s.refund(taken[i] as Taken[])
      s.t.strictSame(
        (await s.peek(entries)).entries.map(({ state, limits }) => [state, limits[0]?.used]),
        [
          [BLOCKED, 0],
          [BLOCKED, 0]
        ]
      )
    }
  ],
  [
    'a block of an observed rule refuses nothing',
    async s => {
      const seen = entry(observed(log([3, hour])))
      await s.store.block([seen], 0)
      const facts = await s.reserve([seen, entry(log([3, hour]))])
      s.t.equal(facts.admitted, true)
      s.t.strictSame(counted(facts), [false, true])
    }
  ],
  [
    'the first of all rules may be an observed one',
    async s => {
      const seen = entry({ ...observed(log([1, hour])), rule: 0 })
      s.t.strictSame(counted(await s.reserve([seen])), [true])
      const facts = await s.reserve([seen, entry(log([3, hour]))])
      s.t.equal(facts.admitted, true)
      s.t.strictSame(counted(facts), [false, true])
    }
  ],
  [
    'peek says what reserve would find, and changes nothing',
    async s => {
      const seen = oneRule([log([1, 60_000]), count(5, 'day')], true)
      const entries = [log([2, 60_000], [3, hour]), count(3, 'hour'), ...seen, lock(1)].map(spec =>
        entry(spec)
      )
      const blank = (facts: NamedFacts) => ({
        ...facts,
        entries: facts.entries.map(each => ({ ...each, receipt: 0 }))
      })
      for (let i = 0; i < 5; i++) {
        await s.peek(entries)
        const seen = await s.peek(entries)
        s.t.strictSame(
          counted(seen),
          entries.map(() => false)
        )
        s.t.strictSame(seen, blank(await s.reserve(entries)))
        s.time.advance(3_700_000)
      }
    }
  ],
  [
    "a max of the request's own holds for that decision alone",
    async s => {
      const spec = log([5, 60_000], [9, hour])
      const calendar = count(5, 'day')
      const asked = (max: number) => [entry(spec, 'a', [max, 9]), entry(calendar, 'a', [max])]
      for (let i = 0; i < 3; i++) await s.take(asked(5))
      s.t.strictSame(states(await s.reserve(asked(3))), [REFUSES, REFUSES])
      s.t.strictSame(states(await s.reserve(asked(0))), [REFUSES, REFUSES])
      s.t.strictSame(states(await s.reserve([entry(spec, 'a', [5, 3])])), [REFUSES])
      await s.take(asked(4))
      s.t.strictSame(states(await s.peek(asked(5))), [PASSES, PASSES])
    }
  ],
  [
    'with a lower max the wait is until enough have gone',
    async s => {
      const spec = log([5, 60_000])
      for (let i = 0; i < 4; i++) {
        await s.take([entry(spec)])
        s.time.advanceMs(1_000)
      }
      const resets: [number, number][] = [
        [5, 56_000],
        [4, 56_000],
        [3, 57_000],
        [2, 58_000],
        [1, 59_000],
        [0, 0]
      ]
      for (const [max, ms] of resets) {
        s.t.strictSame(
          (await s.peek([entry(spec, 'a', [max])])).entries[0]?.limits,
          [{ used: 4, reset: ms * 100 }],
          `max ${max}`
        )
      }
    }
  ],
  [
    'windows of 40 and of 130 days hold',
    async s => {
      for (const days of [40, 130]) {
        const entries = [entry(log([2, days * day]))]
        await s.take(entries)
        s.time.advanceMs((days - 1) * day)
        await s.take(entries)
        s.time.advance(day * 100 - 1)
        await s.admits(entries, false, 'one tick before')
        s.time.advance(1)
        await s.take(entries)
      }
    }
  ],
  [
    'a log holds as many as its largest max, no more',
    async s => {
      const spec = log([1, 1_000], [2, 2_000])
      for (let i = 0; i < 4; i++) {
        await s.take([entry(spec)])
        s.time.advanceMs(1_000)
      }
      const wider = { ...log([9, hour]), rule: spec.rule, name: spec.name, series: spec.series }
      s.t.strictSame(await s.used([entry(wider)]), [[2]], 'to a rule that was put in its place')
    }
  ],
  [
    'the largest log is kept whole',
    async s => {
      const entries = [entry(log([1_000, hour]))]
      const first = await s.take(entries)
      for (let i = 1; i < 1_000; i++) await s.reserve(entries)
      s.t.strictSame(await s.used(entries), [[1_000]])
      await s.admits(entries, false, 'full')
      await s.refund(first)
      await s.take(entries)
      await s.admits(entries, false, 'full')
    }
  ]
]

/** Runs every case on a store. */
export async function storeContract(t: Test, name: string, open: Open): Promise<void> {
  for (const [i, [promise, run]] of [...cases, ...distinctCases].entries()) {
    await t.test(`${name} ${i + 1}: ${promise}`, async t =>
      run(new Subject(t, await open(t, '2026-03-01T00:00:00Z')))
    )
  }
}

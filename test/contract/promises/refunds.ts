import { type Taken, TICKS_PER_MS } from '../../../plugin/store/store.js'
import { count, entry, log, observed } from '../specs.js'
import { hour, type Promised } from './subject.js'

/** What every store promises of refunds. */
export const refunds: Promised[] = [
  [
    'a refund gives back its own slot, and only once, however often it is repeated',
    async s => {
      const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
      const first = await s.take(entries)
      await s.take(entries)
      s.time.advanceMs(1)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[1], [1]])
      await s.take(entries)
      for (let i = 0; i < 5; i++) await s.refund(first)
      s.t.strictSame(await s.used(entries), [[2], [2]], 'a refund that is repeated gives back no other slot')
      s.time.advanceMs(59_999)
      s.t.strictSame(await s.used(entries), [[2], [2]])
      s.time.advance(1)
      s.t.strictSame(
        await s.used(entries),
        [[1], [2]],
        'the second stamp leaves the window at its own instant'
      )
    }
  ],
  [
    'a refund of a decision that counted nothing gives nothing back',
    async s => {
      const entries = [entry(observed(log([1, 60_000])))]
      await s.take(entries)
      const nothing = await s.take(entries)
      s.t.strictSame(nothing, [])
      await s.refund(nothing)
      s.t.strictSame(await s.used(entries), [[1]])
    }
  ],
  [
    'a refund of the newest slot, repeated after others were counted, gives nothing more back',
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
    'refunds in any order give back one slot each',
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
    'a refund counts until its period ends, and changes nothing in the next period',
    async s => {
      const entries = [entry(count(2, 'hour'))]
      const [first, second] = [await s.take(entries), await s.take(entries)]
      s.time.advance(hour * TICKS_PER_MS - 1)
      await s.refund(second)
      s.t.strictSame(await s.used(entries), [[1]])
      s.time.advance(1)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[0]])
      await s.take(entries)
      await s.refund(first)
      s.t.strictSame(await s.used(entries), [[1]])
    }
  ],
  [
    'a receipt that was never issued gives nothing back',
    async s => {
      const entries = [entry(log([3, 60_000])), entry(count(3, 'day'))]
      const [stamp, number] = (await s.take(entries)) as [Taken, Taken]
      await s.refund([
        { ...stamp, receipt: stamp.receipt + 1 },
        { ...number, receipt: number.receipt + 1 }
      ])
      await s.refund([
        { ...stamp, receipt: stamp.receipt - 1 },
        { ...number, receipt: number.receipt - 1 }
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
    'a refund of a slot from before a clear does not touch slots counted after it',
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
    'a count gives back each of 2,500 slots once, in any order',
    async s => {
      const entries = [entry(count(5_000, 'month'))]
      const all: Taken[] = []
      for (let i = 0; i < 2_500; i++) all.push(...(await s.take(entries)))
      // In mixed order, with none left out: 1,001 and 2,500 have no divisor in common.
      const given = all.map((_, i) => all[(i * 1_001) % all.length] as Taken).filter((_, i) => i % 100 !== 7)
      for (const taken of given) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[25]])
      for (const taken of given.reverse()) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[25]], 'the same refunds again change nothing')
      for (let i = 0; i < 50; i++) await s.take(entries)
      s.t.strictSame(await s.used(entries), [[75]])
      for (const taken of all) await s.refund([taken])
      s.t.strictSame(
        await s.used(entries),
        [[50]],
        'the slots left out at first are given back too, and none of the later ones'
      )
    }
  ],
  [
    'a count of which every slot was refunded goes on with later sends',
    async s => {
      const entries = [entry(count(5, 'day'))]
      const before = [...(await s.take(entries)), ...(await s.take(entries))]
      s.time.advance(2)
      for (const taken of before) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[0]])
      const after = [...(await s.take(entries)), ...(await s.take(entries))]
      for (const taken of before) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[2]], 'the same refunds again change nothing')
      for (const taken of after) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[0]])
    }
  ],
  [
    'a count whose receipts run ahead of the clock gives no slot back twice',
    async s => {
      const entries = [entry(count(5, 'day'))]
      const before = [...(await s.take(entries)), ...(await s.take(entries)), ...(await s.take(entries))]
      for (const taken of before) await s.refund([taken])
      await s.take(entries)
      await s.take(entries)
      for (const taken of before) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[2]])
    }
  ],
  [
    'a count that was cleared after refunds gives back later slots',
    async s => {
      const entries = [entry(count(5, 'day'))]
      const before = [...(await s.take(entries)), ...(await s.take(entries))]
      for (const taken of before) await s.refund([taken])
      s.time.advance(2)
      await s.store.clear(entries)
      const after = [...(await s.take(entries)), ...(await s.take(entries))]
      for (const taken of before) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[2]])
      for (const taken of after) await s.refund([taken])
      s.t.strictSame(await s.used(entries), [[0]])
    }
  ]
]

import type { Entry, Taken } from '../../../plugin/store/store.js'
import { count, distinct, entry, log, replaced, sentTo } from '../specs.js'
import { day, hour, type Promised } from './subject.js'

const SECOND = 100_000

/** What every store promises of sends that were admitted elsewhere before (`count`). */
export const elsewhere: Promised[] = [
  [
    'a send admitted elsewhere counts as of when it was admitted, and is refunded once by its receipt',
    async s => {
      const each = entry(log([3, 60_000], [5, hour]))
      s.time.advanceMs(hour)
      const receipts = [await s.store.count(each, 40 * SECOND), await s.store.count(each, 10 * SECOND)]
      s.t.strictSame((await s.peek([each])).entries[0]?.limits, [
        { used: 2, reset: 20 * SECOND },
        { used: 2, reset: 3_560 * SECOND }
      ])
      const [first = 0] = receipts
      for (let times = 0; times < 2; times++) {
        await s.refund([{ entry: each, receipt: first, ends: 0 }])
        s.t.strictSame((await s.peek([each])).entries[0]?.limits[0], { used: 1, reset: 50 * SECOND })
      }
      s.time.advance(50 * SECOND - 1)
      s.t.strictSame(await s.used([each]), [[1, 1]])
      s.time.advance(1)
      s.t.strictSame(await s.used([each]), [[0, 1]])
    }
  ],
  [
    'a send admitted elsewhere counts even beyond max, also that of its request, and the limit then refuses',
    async s => {
      for (const [most, own] of [
        [1, undefined],
        [9, [1]]
      ] as const) {
        const specs = [log([most, 60_000]), count(most, 'day'), distinct([most, 60_000])]
        const [, calendar] = await s.take(specs.map(spec => sentTo(spec, 1, own)))
        s.time.advance(SECOND)
        for (const spec of specs)
          s.t.not(await s.store.count(sentTo(spec, 2, own), SECOND / 2, calendar?.ends), 0, spec.kind)
        for (const spec of specs) await s.admits([sentTo(spec, 3, own)], false, spec.kind)
        s.time.advanceMs(day)
        for (const spec of specs) await s.admits([sentTo(spec, 3, own)], true, spec.kind)
      }
    }
  ],
  [
    'a send admitted elsewhere in a period that ends before the one here leaves what is counted here',
    async s => {
      const each = entry(count(5, 'day'))
      const [taken] = await s.take([each])
      const ends = (taken?.ends ?? 0) - SECOND
      s.t.equal(await s.store.count(each, 0, ends), 0)
      s.t.strictSame(await s.used([each]), [[1]])
    }
  ],
  [
    'refunds of sends admitted elsewhere leave the slot that was counted here before, under a full limit',
    async s => {
      for (const spec of [log([1, 60_000]), count(1, 'day'), distinct([1, 60_000])]) {
        const [taken] = await s.take([sentTo(spec, 1)])
        const ends = taken?.ends ?? 0
        s.time.advance(SECOND)
        const each = sentTo(spec, 2)
        const counted: Taken[] = []
        for (let i = 0; i < 3; i++)
          counted.push({ entry: each, receipt: await s.store.count(each, SECOND / 2, ends), ends })
        await s.refund(counted)
        s.t.strictSame(await s.used([sentTo(spec, 3)]), [[1]], spec.kind)
      }
    }
  ],
  [
    'a full log holds a thousand sends admitted elsewhere beside its own, and no more',
    async s => {
      for (const [elsewhere, left] of [
        [1_000, 1],
        [1_001, 0]
      ] as const) {
        const each = entry(log([1, 60_000]))
        await s.take([each])
        s.time.advance(SECOND)
        const counted: Taken[] = []
        for (let i = 0; i < elsewhere; i++)
          counted.push({ entry: each, receipt: await s.store.count(each, SECOND / 2), ends: 0 })
        for (const one of counted) await s.refund([one])
        s.t.strictSame(await s.used([each]), [[left]], `${elsewhere}`)
      }
    }
  ],
  [
    'a send admitted elsewhere before the newest one here counts as of the tick after that one',
    async s => {
      const each = entry(log([3, 60_000]))
      await s.take([each])
      s.time.advance(10 * SECOND)
      const receipt = await s.store.count(each, 20 * SECOND)
      s.time.advance(50 * SECOND)
      s.t.strictSame(await s.used([each]), [[1]])
      await s.refund([{ entry: each, receipt, ends: 0 }])
      s.t.strictSame(await s.used([each]), [[0]])
    }
  ],
  [
    'a send admitted elsewhere during a block here counts once that block has ended',
    async s => {
      const entries = [log([3, 60_000]), count(3, 'day')].map(spec => entry(spec))
      const ends = (await s.take(entries))[1]?.ends
      await s.store.block(entries, 5_000)
      s.time.advance(10 * SECOND)
      const taken = []
      for (const each of entries) {
        const receipt = await s.store.count(each, 8 * SECOND, ends)
        taken.push({ entry: each, receipt, ends: each.spec.kind === 'count' ? (ends ?? 0) : 0 })
      }
      s.t.strictSame(await s.used(entries), [[2], [2]])
      await s.refund(taken)
      s.t.strictSame(await s.used(entries), [[1], [1]])
    }
  ],
  [
    'a send admitted elsewhere longer ago than the window is not counted',
    async s => {
      const spec = log([1, 60_000])
      s.time.advanceMs(hour)
      s.t.equal(await s.store.count(entry(spec), spec.ttl * 100), 0)
      s.t.strictSame(await s.used([entry(spec)]), [[0]])
    }
  ],
  [
    'a send admitted elsewhere under a rule that was replaced since counts in the window of the new rule',
    async s => {
      s.time.advanceMs(hour)
      for (const [before, window, used] of [
        [60_000, hour, 1],
        [hour, 60_000, 0]
      ] as const) {
        const [[former], [present]] = replaced([log([1, before])], [log([1, window])])
        if (!former || !present) throw new Error('no spec')
        former.inForce.spec = present
        s.t.equal((await s.store.count(entry(former), 100 * SECOND)) !== 0, used === 1)
        s.t.strictSame(await s.used([entry(present)]), [[used]])
      }
    }
  ],
  [
    'under a calendar limit a send admitted elsewhere counts in its own period, and in no other',
    async s => {
      const each: Entry = entry(count(5, 'day'))
      const [taken] = await s.take([each])
      const ends = taken?.ends ?? 0
      s.time.advanceMs(23 * hour)
      const receipt = await s.store.count(each, 3_600 * SECOND, ends)
      s.t.strictSame((await s.peek([each])).entries[0]?.limits, [{ used: 2, reset: 3_600 * SECOND }])
      for (let times = 0; times < 2; times++) {
        await s.refund([{ entry: each, receipt, ends }])
        s.t.strictSame(await s.used([each]), [[1]])
      }
      const other: Entry = entry(count(5, 'day'), 'somebody else')
      const first = await s.store.count(other, 3_600 * SECOND, ends)
      await s.refund([{ entry: other, receipt: first, ends }])
      s.t.strictSame(await s.used([other]), [[0]], 'also one that begins the count is refunded')
      s.t.not(await s.store.count(other, 3_600 * SECOND, ends), 0)
      s.t.strictSame((await s.peek([other])).entries[0]?.limits, [{ used: 1, reset: 3_600 * SECOND }])
      s.time.advanceMs(hour)
      s.t.equal(await s.store.count(other, 3_600 * SECOND, ends), 0)
      await s.take([each])
      s.t.equal(await s.store.count(each, 3_600 * SECOND, ends), 0)
      s.t.strictSame(await s.used([each, other]), [[1], [0]])
      s.time.advanceMs(48 * hour)
      s.t.strictSame(await s.used([each, other]), [[0], [0]])
      s.t.equal(await s.store.count(other, 49 * 3_600 * SECOND, ends), 0, 'nor two days later')
    }
  ],
  [
    'of sends admitted elsewhere each different value counts once, as of when it was last sent to',
    async s => {
      const spec = distinct([3, 60_000])
      s.time.advanceMs(hour)
      for (const [value, ago] of [
        [1, 50],
        [2, 40],
        [1, 30]
      ] as const)
        await s.store.count(sentTo(spec, value), ago * SECOND)
      s.t.strictSame((await s.peek([sentTo(spec, 3)])).entries[0]?.limits, [{ used: 2, reset: 20 * SECOND }])
      s.time.advance(20 * SECOND)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[1]])
      s.time.advance(10 * SECOND)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[0]])
    }
  ]
]

import { REFUSES } from '../../../plugin/store/facts.js'
import { entry, log } from '../specs.js'
import { day, hour, type Promised } from './subject.js'

/** What every store promises of rolling limits. */
export const logs: Promised[] = [
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
    'a window rolls: no span of that length has more than max',
    async s => {
      const entries = [entry(log([3, 10_000]))]
      for (const pause of [0, 4_000, 5_999]) {
        s.time.advanceMs(pause)
        await s.take(entries)
      }
      await s.admits(entries, false, 'full')
      s.time.advanceMs(1)
      await s.take(entries)
      await s.admits(entries, false, 'the first has left the window, the others count')
      s.t.equal((await s.peek(entries)).entries[0]?.limits[0]?.reset, 400_000)
    }
  ],
  [
    'stamps of sends at one instant are told apart',
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
    'each of several limits refuses on its own, and says how much is used and when a slot returns',
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
    'under a lower max a slot returns only when enough stamps have left the window',
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
    'a log keeps as many stamps as its largest max, no more',
    async s => {
      const spec = log([1, 1_000], [2, 2_000])
      for (let i = 0; i < 4; i++) {
        await s.take([entry(spec)])
        s.time.advanceMs(1_000)
      }
      const wider = { ...log([9, hour]), rule: spec.rule, name: spec.name, series: spec.series }
      s.t.strictSame(await s.used([entry(wider)]), [[2]], 'a wider rule in its place finds no more')
    }
  ],
  [
    'a log of the largest max, 1,000, keeps every stamp',
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

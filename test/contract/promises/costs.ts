import type { Taken } from '../../../plugin/store/store.js'
import { costing, count, entry, observed, oneRule } from '../specs.js'
import { hour, type Promised } from './subject.js'

/** What every store promises of requests that have a cost. */
export const costs: Promised[] = [
  [
    'a request takes its cost, and passes while that is left',
    async s => {
      const day = entry(count(100, 'day'))
      await s.take([costing(day, 70)])
      await s.admits([costing(day, 31)], false, 'one more than is left')
      await s.take([costing(day, 30)])
      s.t.strictSame(await s.used([day]), [[100]])
      await s.admits([costing(day, 1)], false, 'nothing is left')
      s.time.advanceMs(24 * hour)
      await s.admits([costing(day, 101)], false, 'more than there ever is')
      await s.take([costing(day, 100)])
    }
  ],
  [
    'one identity is refused by the limit that has too little left, and nothing is taken of the other',
    async s => {
      const both = oneRule([count(100, 'day'), count(120, 'month')]).map(spec => entry(spec))
      const all = (cost: number) => both.map(each => costing(each, cost))
      await s.take(all(90))
      s.time.advanceMs(24 * hour)
      s.t.equal((await s.reserve(all(31))).admitted, false)
      s.t.strictSame(await s.used(both), [[0], [90]])
      await s.take(all(30))
    }
  ],
  [
    'a refund gives back the cost of its own request, and only once',
    async s => {
      const day = entry(count(10 ** 12, 'day'))
      const taken: Taken[][] = []
      for (const cost of [1, 900_000_000_000, 300, 4]) taken.push(await s.take([costing(day, cost)]))
      for (const [i, left] of [
        [1, 305],
        [3, 301],
        [0, 300],
        [2, 0]
      ] as const)
        for (let times = 0; times < 2; times++) {
          s.time.advance(2)
          await s.refund(taken[i] as Taken[])
          s.t.strictSame(await s.used([day]), [[left]])
        }
      await s.take([costing(day, 7)])
      for (const each of taken) await s.refund(each)
      s.t.strictSame(await s.used([day]), [[7]], 'nor once the count has begun anew')
    }
  ],
  [
    'a refund of a cost from before a clear leaves what was counted after it',
    async s => {
      const day = entry(count(100_000, 'day'))
      const before = [await s.take([costing(day, 9)]), await s.take([costing(day, 30_000)])]
      s.time.advance(2)
      await s.store.clear([day])
      const after = [await s.take([costing(day, 30_000)]), await s.take([costing(day, 8)])]
      for (const each of before) await s.refund(each)
      s.t.strictSame(await s.used([day]), [[30_008]])
      await s.refund(after[1] as Taken[])
      for (const each of before) await s.refund(each)
      await s.take([costing(day, 5)])
      for (const each of before) await s.refund(each)
      s.t.strictSame(await s.used([day]), [[30_005]])
    }
  ],
  [
    'a rule that gets a cost, or loses it, goes on with what it has counted',
    async s => {
      const spec = count(100_000, 'day')
      const day = entry(spec)
      const replaced = entry({ ...spec })
      const plain = [await s.take([day]), await s.take([day]), await s.take([day])]
      await s.refund(plain[1] as Taken[])
      const costly = [await s.take([costing(replaced, 40_000)]), await s.take([costing(replaced, 500)])]
      s.t.strictSame(await s.used([day]), [[40_502]])
      const later = await s.take([day])
      s.time.advance(2)
      for (const [each, left] of [
        [plain[1], 40_503],
        [plain[0], 40_502],
        [costly[0], 502],
        [plain[2], 501],
        [later, 500],
        [costly[1], 0]
      ] as const)
        for (let times = 0; times < 2; times++) {
          await s.refund(each as Taken[])
          s.t.strictSame(await s.used([day]), [[left]])
        }
    }
  ],
  [
    'what was counted before the rule got a cost is given back all the same, and only once',
    async s => {
      const spec = count(100, 'day')
      const day = entry(spec)
      const before = [...(await s.take([day])), ...(await s.take([day]))]
      await s.take([costing(entry({ ...spec }), 60)])
      for (const [i, taken] of before.entries())
        for (let times = 0; times < 2; times++) {
          await s.refund([taken])
          s.t.strictSame(await s.used([day]), [[61 - i]])
        }
    }
  ],
  [
    'a cost that was admitted elsewhere counts even beyond max, and is refunded once by its receipt',
    async s => {
      const day = costing(entry(count(100, 'day')), 60)
      const [taken] = await s.take([day])
      const ends = taken?.ends ?? 0
      const receipt = await s.store.count(day, 50, ends)
      s.t.strictSame(await s.used([day]), [[120]])
      for (let times = 0; times < 2; times++) {
        await s.refund([{ entry: day, receipt, ends }])
        s.t.strictSame(await s.used([day]), [[60]])
      }
    }
  ],
  [
    'an observed rule takes the cost of what is admitted, while that is left',
    async s => {
      const day = entry(observed(count(100, 'day')))
      for (const used of [60, 60]) {
        await s.take([costing(day, 60)])
        s.t.strictSame(await s.used([day]), [[used]])
      }
    }
  ]
]

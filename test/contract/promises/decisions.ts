import { PASSES, REFUSES } from '../../../plugin/store/facts.js'
import type { Entry } from '../../../plugin/store/store.js'
import { count, entry, lock, log, type NamedFacts, observed, oneRule } from '../specs.js'
import { counted, hour, type Promised, states } from './subject.js'

/** What every store promises of a decision over several entries. */
export const decisions: Promised[] = [
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
    'all or nothing: when one entry refuses, none is counted',
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
    'a refusal names every entry that refuses, not only the first',
    async s => {
      const entries = [entry(log([1, 60_000])), entry(count(1, 'day')), entry(lock(60_000))]
      await s.take(entries)
      s.t.strictSame(states(await s.reserve(entries)), [REFUSES, REFUSES, REFUSES])
    }
  ],
  [
    'each identity is counted on its own',
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
    'of an observed rule with several entries, all are counted or none is',
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
    'an observed rule is counted only when all rules in force admit',
    async s => {
      const seen = entry(observed(log([5, 60_000])))
      const real = entry(log([1, 60_000]))
      await s.take([seen, real])
      s.t.strictSame(counted(await s.reserve([seen, real])), [false, false])
      s.t.strictSame(await s.used([seen]), [[1]])
    }
  ],
  [
    'an observed rule may be the first of all rules, number 0',
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
    'a max that comes with the request holds for that decision alone',
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
  ]
]

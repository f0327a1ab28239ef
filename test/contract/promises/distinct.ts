import { BLOCKED, type Entry, PASSES, REFUSES, type Taken } from '../../../plugin/store/store.js'
import { distinct, entry, log, observed, sentTo, takenOf } from '../specs.js'
import type { Promised, Subject } from './subject.js'

const minute = 60_000

/** Takes one for each value, a second apart. */
async function fill(s: Subject, spec: Entry['spec'], ...values: number[]): Promise<void> {
  for (const value of values) {
    await s.take([sentTo(spec, value)])
    s.time.advanceMs(1_000)
  }
}

/** State, and of each limit how many are used, and milliseconds: as a look and a decision tell them. */
async function facts(s: Subject, one: Entry) {
  const { state, limits } = (await s.peek([one])).entries[0] ?? {}
  const decided = await s.reserve([one])
  s.t.strictSame(decided.entries[0]?.limits, limits)
  s.t.equal(decided.entries[0]?.state, state)
  s.t.equal(decided.admitted, state === PASSES || one.spec.observed)
  const taken = takenOf([one], decided)
  if (taken.length > 0) await s.refund(taken)
  return [state, ...(limits ?? []).map(({ used, reset }) => [used, reset / 100])]
}

/** What every store promises of different values. */
export const distincts: Promised[] = [
  [
    'different values are counted; one that was sent to passes when all are used',
    async s => {
      const spec = distinct([3, minute])
      s.t.strictSame((await s.reserve([sentTo(spec, 1)])).entries[0]?.limits, [{ used: 0, reset: 0 }])
      s.time.advanceMs(1_000)
      await fill(s, spec, 2, 1, 3, 2)
      s.t.strictSame(await facts(s, sentTo(spec, 4)), [REFUSES, [3, 57_000]], 'the oldest is 1, at 2 s')
      s.t.equal((await s.reserve([sentTo(spec, 4)])).admitted, false)
      s.t.strictSame(await facts(s, sentTo(spec, 1)), [PASSES, [2, 58_000]], 'others: 3 and 2')
      for (const value of [1, 2, 3, 3, 3]) await s.take([sentTo(spec, value)])
      await s.take([sentTo(spec, 4, undefined, 'b')])
    }
  ],
  [
    'a value counts up to, and not with, the instant one window after it was last sent to',
    async s => {
      const spec = distinct([2, minute])
      await fill(s, spec, 1, 2, 1)
      s.time.advance(5_800_000 - 1)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [REFUSES, [2, 0.01]])
      s.time.advance(1)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [PASSES, [1, 1_000]], '2 has gone, 1 was sent to anew')
      await s.take([sentTo(spec, 3)])
      await s.admits([sentTo(spec, 2)], false, 'what has gone is as new')
      await s.admits([sentTo(spec, 1)], true, 'what has not may be repeated')
      s.time.advanceMs(1_000)
      await s.take([sentTo(spec, 2)])
      await s.admits([sentTo(spec, 1)], false, 'gone now')
    }
  ],
  [
    'each window has its own values',
    async s => {
      const spec = distinct([1, 10_000], [2, minute])
      await fill(s, spec, 1)
      s.t.strictSame(await facts(s, sentTo(spec, 2)), [REFUSES, [1, 9_000], [1, 59_000]])
      s.time.advanceMs(9_000)
      await fill(s, spec, 2)
      s.t.strictSame(await facts(s, sentTo(spec, 1)), [REFUSES, [1, 9_000], [1, 59_000]])
      s.time.advanceMs(9_000)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [REFUSES, [0, 0], [2, 40_000]])
      await s.take([sentTo(spec, 1)])
    }
  ],
  [
    'a refund frees its own pair: the value counts from when it was sent to before',
    async s => {
      const spec = distinct([2, minute])
      await fill(s, spec, 1)
      const repeat = await s.take([sentTo(spec, 1)])
      s.time.advanceMs(1_000)
      const second = await s.take([sentTo(spec, 2)])
      s.time.advanceMs(1_000)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [REFUSES, [2, 58_000]])
      for (let i = 0; i < 3; i++) await s.refund(repeat)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [REFUSES, [2, 57_000]], 'as it was before the repeat')
      await s.refund(second)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [PASSES, [1, 57_000]])
      await s.take([sentTo(spec, 2)])
      await s.refund(second)
      await s.refund(repeat)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[2]], "nothing of a stranger's")
    }
  ],
  [
    'pairs of one instant are told apart, refunded in any order',
    async s => {
      const spec = distinct([5, minute])
      const taken: Taken[][] = []
      for (const value of [1, 2, 3, 2, 4]) taken.push(await s.take([sentTo(spec, value)]))
      s.time.advanceMs(1)
      for (const [which, left] of [
        [1, 4],
        [0, 3],
        [3, 2],
        [4, 1],
        [2, 0]
      ] as const) {
        for (let i = 0; i < 2; i++) await s.refund(taken[which] as Taken[])
        s.t.strictSame(await s.used([sentTo(spec, 9)]), [[left]], `without the one of ${which}`)
      }
    }
  ],
  [
    'a max that was lowered: the newest values may be repeated, as many as it says; 0 refuses all',
    async s => {
      const spec = distinct([5, minute])
      await fill(s, spec, 1, 2, 3, 4)
      const with2 = (value: number) => facts(s, sentTo(spec, value, [2]))
      s.t.strictSame(await with2(5), [REFUSES, [4, 58_000]], 'until 3 has gone')
      s.t.strictSame(await with2(2), [REFUSES, [3, 58_000]])
      s.t.strictSame(await with2(3), [PASSES, [1, 59_000]])
      s.t.strictSame(await with2(4), [PASSES, [1, 58_000]])
      s.t.strictSame(await facts(s, sentTo(spec, 4, [1])), [PASSES, [0, 0]])
      s.t.strictSame(await facts(s, sentTo(spec, 4, [0])), [REFUSES, [3, 0]])
      s.time.advanceMs(58_000 - 1)
      await s.admits([sentTo(spec, 2, [2])], false, 'as told')
      s.time.advanceMs(1)
      await s.take([sentTo(spec, 2, [2])])
    }
  ],
  [
    'a refusal counts no value, in no rule',
    async s => {
      const spec = distinct([2, minute])
      const full = entry(log([1, minute]))
      await s.take([full])
      const answer = await s.reserve([sentTo(spec, 1), full])
      s.t.strictSame(
        answer.entries.map(({ state, receipt }) => [state, receipt]),
        [
          [PASSES, 0],
          [REFUSES, 0]
        ]
      )
      s.t.strictSame(await s.used([sentTo(spec, 9)]), [[0]])
      await fill(s, spec, 1, 2)
      const other = entry(log([1, minute]))
      s.t.equal((await s.reserve([sentTo(spec, 3), other])).admitted, false)
      s.t.strictSame(await s.used([other]), [[0]])
    }
  ],
  [
    'observed, different values are counted while they would pass',
    async s => {
      const spec = observed(distinct([1, minute]))
      await fill(s, spec, 1)
      const answer = await s.reserve([sentTo(spec, 2)])
      s.t.equal(answer.admitted, true)
      s.t.strictSame(answer.entries, [
        { state: REFUSES, receipt: 0, blockedFor: 0, limits: [{ used: 1, reset: 5_900_000 }] }
      ])
      s.t.strictSame(await facts(s, sentTo(spec, 1)), [PASSES, [0, 0]])
    }
  ],
  [
    'clear, block and unblock need no value',
    async s => {
      const spec = distinct([1, minute])
      const before = await s.take([sentTo(spec, 1)])
      s.time.advanceMs(1)
      await s.store.clear([entry(spec)])
      await s.take([sentTo(spec, 2)])
      await s.refund(before)
      await s.store.block([entry(spec)], 0)
      s.t.equal((await s.peek([sentTo(spec, 2)])).entries[0]?.state, BLOCKED)
      await s.store.unblock([entry(spec)])
      await s.admits([sentTo(spec, 2)], true, 'as before')
      await s.admits([sentTo(spec, 3)], false, 'as before')
    }
  ],
  [
    'values of windows gone by make no difference',
    async s => {
      const spec = distinct([2, 1_000])
      const wrong: number[] = []
      for (let value = 0; value < 700; value++) {
        await s.reserve([sentTo(spec, value)])
        const [[used] = []] = await s.used([sentTo(spec, 1_000)])
        if (used !== Math.min(value + 1, 2)) wrong.push(value)
        s.time.advanceMs(600)
      }
      s.t.strictSame(wrong, [], 'the last two are counted')
    }
  ],
  [
    'a hundred different values keep five pairs each and more, but not all',
    async s => {
      const spec = distinct([100, 3_600_000])
      const taken: Taken[][] = []
      for (let round = 0; round < 10; round++)
        for (let value = 0; value < 100; value++) taken.push(await s.take([sentTo(spec, value)]))
      s.t.strictSame(await facts(s, sentTo(spec, 100)).then(([state]) => state), REFUSES)
      s.time.advanceMs(1)
      for (const each of taken.slice(600)) await s.refund(each)
      s.t.strictSame(await s.used([sentTo(spec, 100)]), [[100]], 'four in flight are given back')
      for (const each of taken.slice(200, 600)) await s.refund(each)
      s.t.strictSame(await s.used([sentTo(spec, 100)]), [[0]], 'the ninth of a value was not kept')
    }
  ],
  [
    'of three values each keeps a third of the pairs, rounded down, behind its newest',
    async s => {
      const spec = distinct([3, 3_600_000])
      const taken: Taken[][] = []
      for (let round = 0; round < 251; round++)
        for (let value = 0; value < 3; value++) taken.push(await s.take([sentTo(spec, value)]))
      s.time.advanceMs(1)
      for (const each of taken.slice(84 * 3)) await s.refund(each)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[3]])
      for (const each of taken.slice(80 * 3, 84 * 3)) await s.refund(each)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[0]], 'no more than a third were kept')
    }
  ],
  [
    'one value that is repeated does not push out the others, nor what they were before',
    async s => {
      const spec = distinct([5, 3_600_000])
      await fill(s, spec, 1, 2)
      for (let i = 0; i < 600; i++) await s.reserve([sentTo(spec, 3)])
      const again = await s.take([sentTo(spec, 1)])
      s.time.advanceMs(1)
      await s.refund(again)
      s.t.strictSame(await s.used([sentTo(spec, 9)]), [[3]])
    }
  ],
  [
    'a hundred repeats in flight are given back, and the value still counts',
    async s => {
      const spec = distinct([5, 3_600_000])
      await fill(s, spec, 1, 2, 3, 4, 5)
      const repeats: Taken[][] = []
      for (let i = 0; i < 99; i++) repeats.push(await s.take([sentTo(spec, 1)]))
      s.time.advanceMs(1)
      for (const repeat of repeats) await s.refund(repeat)
      s.t.strictSame(await facts(s, sentTo(spec, 9)).then(([state, limit]) => [state, limit]), [
        REFUSES,
        [5, 3_600_000 - 5_001]
      ])
    }
  ]
]

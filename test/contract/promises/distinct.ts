import { BLOCKED, PASSES, REFUSES } from '../../../plugin/store/facts.js'
import type { Entry, Taken } from '../../../plugin/store/store.js'
import { distinct, entry, log, observed, sentTo, takenOf } from '../specs.js'
import type { Promised, Subject } from './subject.js'

const minute = 60_000

/** Reserves one slot for each value, a second apart. */
async function fill(s: Subject, spec: Entry['spec'], ...values: number[]): Promise<void> {
  for (const value of values) {
    await s.take([sentTo(spec, value)])
    s.time.advanceMs(1_000)
  }
}

/** The state, and how much of each limit is used and for how many ms: the same by peek and by reserve. */
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

/** What every store promises of limits on different values. */
export const distincts: Promised[] = [
  [
    'different values are counted, and a value already counted passes even when the limit is used up',
    async s => {
      const spec = distinct([3, minute])
      s.t.strictSame((await s.reserve([sentTo(spec, 1)])).entries[0]?.limits, [{ used: 0, reset: 0 }])
      s.time.advanceMs(1_000)
      await fill(s, spec, 2, 1, 3, 2)
      s.t.strictSame(
        await facts(s, sentTo(spec, 4)),
        [REFUSES, [3, 57_000]],
        'the oldest value is 1, last sent to at 2 s'
      )
      s.t.equal((await s.reserve([sentTo(spec, 4)])).admitted, false)
      s.t.strictSame(await facts(s, sentTo(spec, 1)), [PASSES, [2, 58_000]], 'the other values are 3 and 2')
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
      s.t.strictSame(
        await facts(s, sentTo(spec, 3)),
        [PASSES, [1, 1_000]],
        'value 2 has left the window, value 1 was sent to again'
      )
      await s.take([sentTo(spec, 3)])
      await s.admits([sentTo(spec, 2)], false, 'a value that has left the window is a new one')
      await s.admits([sentTo(spec, 1)], true, 'a value in the window may be repeated')
      s.time.advanceMs(1_000)
      await s.take([sentTo(spec, 2)])
      await s.admits([sentTo(spec, 1)], false, 'value 1 has left the window now')
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
    'a refund removes its own pair, so the value counts from its send before that',
    async s => {
      const spec = distinct([2, minute])
      await fill(s, spec, 1)
      const repeat = await s.take([sentTo(spec, 1)])
      s.time.advanceMs(1_000)
      const second = await s.take([sentTo(spec, 2)])
      s.time.advanceMs(1_000)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [REFUSES, [2, 58_000]])
      for (let i = 0; i < 3; i++) await s.refund(repeat)
      s.t.strictSame(
        await facts(s, sentTo(spec, 3)),
        [REFUSES, [2, 57_000]],
        'value 1 counts as before its repeat'
      )
      await s.refund(second)
      s.t.strictSame(await facts(s, sentTo(spec, 3)), [PASSES, [1, 57_000]])
      await s.take([sentTo(spec, 2)])
      await s.refund(second)
      await s.refund(repeat)
      s.t.strictSame(
        await s.used([sentTo(spec, 3)]),
        [[2]],
        'a refund that is repeated gives back no other slot'
      )
    }
  ],
  [
    'pairs counted at one instant are told apart, in whatever order they are refunded',
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
        s.t.strictSame(await s.used([sentTo(spec, 9)]), [[left]], `pair ${which} is refunded`)
      }
    }
  ],
  [
    'under a lowered max only the newest `max` values may be repeated, and a max of 0 refuses all',
    async s => {
      const spec = distinct([5, minute])
      await fill(s, spec, 1, 2, 3, 4)
      const with2 = (value: number) => facts(s, sentTo(spec, value, [2]))
      s.t.strictSame(await with2(5), [REFUSES, [4, 58_000]], 'until value 3 leaves the window')
      s.t.strictSame(await with2(2), [REFUSES, [3, 58_000]])
      s.t.strictSame(await with2(3), [PASSES, [1, 59_000]])
      s.t.strictSame(await with2(4), [PASSES, [1, 58_000]])
      s.t.strictSame(await facts(s, sentTo(spec, 4, [1])), [PASSES, [0, 0]])
      s.t.strictSame(await facts(s, sentTo(spec, 4, [0])), [REFUSES, [3, 0]])
      s.time.advanceMs(58_000 - 1)
      await s.admits([sentTo(spec, 2, [2])], false, '1 ms before the reset')
      s.time.advanceMs(1)
      await s.take([sentTo(spec, 2, [2])])
    }
  ],
  [
    'a refusal counts no value, whichever rule refuses',
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
    'an observed rule counts different values as long as they would pass',
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
      await s.admits([sentTo(spec, 2)], true, 'value 2 is still counted')
      await s.admits([sentTo(spec, 3)], false, 'so the limit is used up')
    }
  ],
  [
    'a block is told, and for how long, also where a value was counted more than once',
    async s => {
      const spec = distinct([2, minute])
      await fill(s, spec, 1, 1)
      await s.store.block([entry(spec)], minute)
      s.t.strictSame((await s.reserve([sentTo(spec, 1)])).entries, [
        { state: BLOCKED, receipt: 0, blockedFor: minute * 100, limits: [{ used: 0, reset: 0 }] }
      ])
    }
  ],
  [
    'a request that began under a rule with a longer window finds the values of that window',
    async s => {
      const spec = distinct([1, 60 * minute])
      await fill(s, spec, 1)
      const { ttl, limits } = distinct([1, minute])
      spec.inForce.spec = { ...spec, ttl, limits }
      s.time.advanceMs(minute * 2)
      s.t.equal((await s.reserve([sentTo(spec, 2)])).admitted, false)
    }
  ],
  [
    'values that have left the window are not counted, even after hundreds of them',
    async s => {
      const spec = distinct([2, 1_000])
      const wrong: number[] = []
      for (let value = 0; value < 700; value++) {
        await s.reserve([sentTo(spec, value)])
        const [[used] = []] = await s.used([sentTo(spec, 1_000)])
        if (used !== Math.min(value + 1, 2)) wrong.push(value)
        s.time.advanceMs(600)
      }
      s.t.strictSame(wrong, [], 'the last two values are counted each time')
    }
  ],
  [
    'of a hundred different values at least five pairs each are kept, but not all ten',
    async s => {
      const spec = distinct([100, 3_600_000])
      const taken: Taken[][] = []
      for (let round = 0; round < 10; round++)
        for (let value = 0; value < 100; value++) taken.push(await s.take([sentTo(spec, value)]))
      s.t.strictSame(await facts(s, sentTo(spec, 100)).then(([state]) => state), REFUSES)
      s.time.advanceMs(1)
      for (const each of taken.slice(600)) await s.refund(each)
      s.t.strictSame(
        await s.used([sentTo(spec, 100)]),
        [[100]],
        'after refunds of the newest four, each value still counts'
      )
      for (const each of taken.slice(200, 600)) await s.refund(each)
      s.t.strictSame(
        await s.used([sentTo(spec, 100)]),
        [[0]],
        'after refunds of the newest eight, none counts: the ninth was not kept'
      )
    }
  ],
  [
    'each of three values keeps a third of the older pairs, rounded down, besides its newest',
    async s => {
      const spec = distinct([3, 3_600_000])
      const taken: Taken[][] = []
      for (let round = 0; round < 251; round++)
        for (let value = 0; value < 3; value++) taken.push(await s.take([sentTo(spec, value)]))
      s.time.advanceMs(1)
      for (const each of taken.slice(84 * 3)) await s.refund(each)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[3]])
      for (const each of taken.slice(80 * 3, 84 * 3)) await s.refund(each)
      s.t.strictSame(await s.used([sentTo(spec, 3)]), [[0]], 'no more than a third of them were kept')
    }
  ],
  [
    'a value that is repeated 600 times pushes out neither the pairs nor the older pairs of others',
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
    'whichever of many repeats of a value is refunded, the value counts from the one before it',
    async s => {
      const spec = distinct([1, 3_600_000])
      for (let i = 0; i < 740; i++) await s.reserve([sentTo(spec, 1)])
      // In these the older pairs are thinned.
      for (let i = 0; i < 20; i++) {
        s.time.advanceMs(1_000)
        const newest = await s.take([sentTo(spec, 1)])
        s.time.advanceMs(1_000)
        await s.refund(newest)
        const [, limit] = await facts(s, sentTo(spec, 2))
        if (i > 0) s.t.strictSame(limit, [1, 3_600_000 - 1_000 - 1_000], `${i}`)
        await s.take([sentTo(spec, 1)])
      }
    }
  ],
  [
    'after 99 repeats of a value are refunded, the value still counts from its first send',
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

import { REFUSES } from '../../../plugin/store/facts.js'
import type { Entry, Taken } from '../../../plugin/store/store.js'
import { count, entry } from '../specs.js'
import { day, hour, type Promised } from './subject.js'

/** What every store promises of calendar limits. */
export const counts: Promised[] = [
  [
    'a count begins anew with each period',
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
    'periods of every kind end when they end in their time zone',
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
      // In the order in which they end.
      for (const [i, [, ms]] of [...ends.entries()].sort(([, [, one]], [, [, other]]) => one - other)) {
        s.time.set(facts.now + ms * 100 - 1)
        await s.admits([entries[i] as Entry], false, `${i}: the last tick`)
        s.time.advance(1)
        await s.admits([entries[i] as Entry], true, `${i}: the end`)
      }
    }
  ],
  [
    'under one rule, each identity counts until midnight in its own time zone',
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
      await s.admits([york], false, 'not midnight in New York')
      s.time.advance((waits[1] as number) - (waits[0] as number) - 1)
      await s.admits([york], false, 'before midnight in New York')
      s.time.advance(1)
      await s.take([york])
      await s.take([shanghai])
    }
  ],
  [
    'a period that has begun keeps its end, whatever time zone is asked for next',
    async s => {
      const spec = count(2, 'day', 'Asia/Shanghai')
      const before = entry(spec)
      const after = entry({ ...spec, timeZone: 'America/New_York' })
      const [first] = await s.take([before])
      const reset = (await s.peek([before])).entries[0]?.limits[0]?.reset ?? 0
      await s.take([after])
      s.t.same((await s.peek([after])).entries[0]?.limits, [{ used: 2, reset }])
      await s.refund([first as Taken])
      s.t.same(await s.used([before, after]), [[1], [1]], 'its slot is refunded all the same')
      s.time.advance(reset)
      s.t.same(await s.used([after]), [[0]])
    }
  ],
  [
    'a count that began while the clock was far ahead is dropped once the clock is put right',
    async s => {
      const entries = [entry(count(1, 'month'))]
      const longer = 33 * day
      s.time.advanceMs(longer)
      const ahead = await s.take(entries)
      await s.admits(entries, false, 'while the clock is ahead')
      s.time.advanceMs(-longer)
      await s.admits(entries, true, 'once the clock is put right')
      const right = await s.take(entries)
      await s.refund(ahead)
      s.t.strictSame(await s.used(entries), [[1]])
      await s.refund(right)
      s.t.strictSame(await s.used(entries), [[0]])
    }
  ],
  [
    'refunds from while the clock was far ahead stop none of the refunds made once it is put right',
    async s => {
      const entries = [entry(count(2, 'month'))]
      const longer = 33 * day
      s.time.advanceMs(longer)
      const ahead = await s.take(entries)
      await s.take(entries)
      s.time.advanceMs(1)
      await s.refund(ahead)
      s.time.advanceMs(-longer)
      const right = [await s.take(entries), await s.take(entries)]
      s.time.advanceMs(1)
      for (const [i, taken] of right.entries()) {
        for (let told = 0; told < 2; told++) await s.refund(taken)
        await s.refund(ahead)
        s.t.strictSame(await s.used(entries), [[1 - i]])
      }
    }
  ],
  [
    'a count that began while the clock was a little ahead goes on once the clock is put right',
    async s => {
      const entries = [entry(count(1, 'month'))]
      await s.take(entries)
      s.time.advanceMs(-2 * hour)
      await s.admits(entries, false, 'in the month before')
      s.t.equal((await s.reserve(entries)).admitted, false)
      // From here the end of the count is as far away as the end of a month can be in any time zone.
      s.time.advanceMs(-26 * hour)
      s.t.equal((await s.reserve(entries)).admitted, false)
      s.time.advance(-1)
      await s.take(entries)
      s.t.strictSame(await s.used(entries), [[1]], 'begun anew')
    }
  ]
]

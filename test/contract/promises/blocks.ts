import { BLOCKED, PASSES, REFUSES } from '../../../plugin/store/facts.js'
import type { Taken } from '../../../plugin/store/store.js'
import { count, entry, lock, log, type NamedFacts, observed, oneRule } from '../specs.js'
import { counted, day, hour, type Promised, states } from './subject.js'

const blockedFor = (facts: NamedFacts) => facts.entries.map(each => each.blockedFor)

/** What every store promises of blocks, and of `clear`. */
export const blocks: Promised[] = [
  [
    'clear removes what is counted, and keeps blocks',
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
    'a block for a time ends by itself, and what is counted stays',
    async s => {
      const entries = [entry(log([3, hour])), entry(count(3, 'day'))]
      await s.take(entries)
      await s.store.block(entries, 60_000)
      s.time.advance(6_000_000 - 1)
      const facts = await s.reserve(entries)
      s.t.equal(facts.admitted, false)
      s.t.strictSame(states(facts), [BLOCKED, BLOCKED])
      s.t.strictSame(blockedFor(facts), [1, 1])
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
      s.t.strictSame(blockedFor(facts), [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY])
      s.time.advanceMs(400 * day)
      s.t.strictSame(states(await s.reserve(entries)), [BLOCKED, BLOCKED])
      await s.store.unblock(entries)
      await s.take(entries)
      await s.store.unblock(entries)
      s.t.strictSame(await s.used(entries), [[1], [1]])
    }
  ],
  [
    'a block of one entry of a rule leaves its other entries passing',
    async s => {
      const entries = oneRule([log([3, hour]), count(9, 'month')]).map(spec => entry(spec))
      await s.store.block(entries.slice(1), 0)
      s.t.strictSame(states(await s.reserve(entries)), [PASSES, BLOCKED])
    }
  ],
  [
    'unblock keeps what is counted, and a new block replaces the one before',
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
    'an identity that was never counted can be blocked, and slots of a blocked one can be refunded',
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
      s.t.strictSame(await s.used([seen]), [[0]])
    }
  ]
]

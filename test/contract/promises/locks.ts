import { entry, lock, token } from '../specs.js'
import type { Promised } from './subject.js'

/** What every store promises of locks. */
export const locks: Promised[] = [
  [
    'a lock has one holder until it ends',
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
      const one = entry(lock(30_000))
      const held = [one]
      const mine = token()
      const taken = await s.take(held, mine)
      const [first, second, third] = [mine.slice(0, 8), mine.slice(8, 16), mine.slice(16)]
      const other = token().slice(0, 8)
      for (const stranger of [token(), other + second + third, first + other + third, first + second + other])
        await s.refund(taken, stranger)
      await s.admits(held, false, 'others have released nothing')
      await s.refund(taken, mine)
      await s.admits(held, true, 'its holder has released it')
      await s.refund(taken, mine)
      s.t.equal(await s.store.renew(one, mine), false, 'nothing is left to renew')
      const theirs = token()
      await s.take(held, theirs)
      await s.refund(taken, mine)
      await s.admits(held, false, 'a second release by the former holder does not touch the lock of another')
    }
  ],
  [
    'a lock is renewed by its holder alone, while it lasts',
    async s => {
      const one = entry(lock(30_000))
      const held = [one]
      const mine = token()
      await s.take(held, mine)
      s.time.advanceMs(20_000)
      s.t.equal(await s.store.renew(one, token()), false, 'not by another holder')
      s.t.equal(await s.store.renew(one, mine), true)
      s.time.advanceMs(29_999)
      await s.admits(held, false, 'it lasts its full time from the renewal on')
      s.time.advanceMs(1)
      s.t.equal(await s.store.renew(one, mine), false, 'not once it has ended')
      await s.take(held)
      s.t.equal(await s.store.renew(one, mine), false, 'not once another holds it')
    }
  ],
  [
    'when one lock of a request has ended, its other locks can still be renewed',
    async s => {
      const all = [entry(lock(10_000)), entry(lock(30_000)), entry(lock(10_000))]
      const mine = token()
      await s.take(all, mine)
      s.time.advanceMs(10_000)
      const renewed = []
      for (const each of all) renewed.push(await s.store.renew(each, mine))
      s.t.strictSame(renewed, [false, true, false])
      s.time.advanceMs(25_000)
      s.t.strictSame(await s.used(all), [[0], [1], [0]])
    }
  ]
]

import { Redis } from 'ioredis'
import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import { until } from '../helper/until.js'
import { DAY, redis } from './settlement/places.js'
import type { Entrant } from './workers/racer.js'
import { Team } from './workers/team.js'

// Longer than a race, so that it is not renewed.
const locked: Rule[] = [
  { name: 'flight', key: { value: 'query.phone' }, lock: '10m' },
  { name: 'twice', key: { value: 'query.phone' }, limits: [{ max: 2, window: '60s' }] }
]

const PROCESSES = 4
const REQUESTS = 200
const REPETITIONS = 25
// Stamps of one instant are some ticks apart: the last of them is still in the window after exactly 60 s.
const MINUTE = 60_001

/**
 * Phones share accounts, accounts share a shop. The small account is never full: its five phones are, at 4 each.
 * The large one is full at 30, before its ten phones are. The shop has room for both.
 */
const rules: Rule[] = [
  {
    name: 'phone',
    key: { value: 'query.phone' },
    limits: [
      { max: 4, window: '60s' },
      { max: 8, window: '1h' }
    ]
  },
  {
    name: 'account',
    key: { value: 'query.account' },
    limits: [
      { max: 30, window: '60s' },
      { max: 60, per: 'day', timeZone: 'Asia/Shanghai' }
    ]
  },
  {
    name: 'shop',
    key: { value: 'query.shop' },
    limits: [
      { max: 55, window: '60s' },
      { max: 900, per: 'month' }
    ]
  }
]

function crowd(round: string, status: (i: number) => number): Entrant[] {
  return Array.from({ length: REQUESTS }, (_, i) => {
    const small = i % 3 === 0
    const phone = `${round} phone ${small ? `s${Math.floor(i / 3) % 5}` : `l${Math.floor(i / 3) % 10}`}`
    return {
      path: '/send',
      query: { phone, account: `${round} account ${small}`, shop: round },
      status: status(i)
    }
  })
}

/** How many were admitted: of the small and the large account, and the most of one phone. */
function tally(requests: readonly Entrant[], statuses: readonly number[]) {
  const phones = new Map<string, number>()
  const seen = { small: 0, large: 0, phone: 0, other: 0 }
  for (const [i, { query }] of requests.entries()) {
    if (statuses[i] !== 202) {
      if (statuses[i] !== 429) seen.other++
      continue
    }
    seen[query.account?.endsWith('true') ? 'small' : 'large']++
    const count = (phones.get(query.phone ?? '') ?? 0) + 1
    phones.set(query.phone ?? '', count)
    seen.phone = Math.max(seen.phone, count)
  }
  return seen
}

t.test('races over several processes on one Redis', async t => {
  const place = await redis(t)
  const client = new Redis(place.url)
  t.teardown(() => client.disconnect())
  const team = await Team.start(t, PROCESSES, place.url, { '/send': rules, '/locked': locked })

  t.test(`of ${REQUESTS} requests at once exactly max are admitted, ${REPETITIONS} times`, async t => {
    for (let i = 0; i < REPETITIONS; i++) {
      const requests = crowd(`race ${i}`, () => 202)
      const first = tally(requests, await team.race(requests))
      t.same(first, { small: 20, large: 30, phone: 4, other: 0 }, `race ${i}`)
      place.advance(MINUTE)
      const next = tally(requests, await team.race(requests))
      t.same(next, { small: 20, large: 30, phone: 4, other: 0 }, 'after the window')
      if (i % 10 > 0) continue
      const none = tally(requests, await team.race(requests))
      t.same(none, { small: 0, large: 0, phone: 0, other: 0 }, 'no more are admitted')
      place.advance(MINUTE)
      const last = tally(requests, await team.race(requests))
      t.same(
        last,
        { small: 0, large: 0, phone: 0, other: 0 },
        'the hour is full for phones, the day for the account'
      )
      place.advance(DAY)
      const day = tally(requests, await team.race(requests))
      t.same(day, { small: 20, large: 30, phone: 4, other: 0 }, 'after the day')
    }
  })

  t.test('slots that are refunded can be used again, and no more', async t => {
    for (let i = 0; i < 10; i++) {
      const requests = crowd(`refund ${i}`, j => (j % 4 === 1 ? 502 : 202))
      const statuses = await team.race(requests)
      const kept = tally(
        requests,
        statuses.map(status => (status === 502 ? 429 : status))
      )
      t.ok(kept.small <= 20 && kept.large <= 30 && kept.phone <= 4, `kept ${JSON.stringify(kept)}`)
      const again = requests.map(each => ({ ...each, status: 202 }))
      const rest = tally(again, await team.race(again))
      t.equal(kept.small + rest.small, 20)
      t.equal(kept.large + rest.large, 30)
      t.equal(kept.other + rest.other, 0)
      t.same(tally(again, await team.race(again)), { small: 0, large: 0, phone: 0, other: 0 })
    }
  })

  t.test('a lock lets one request at a time into the handler', async t => {
    for (let i = 0; i < 5; i++) {
      const requests = Array.from({ length: REQUESTS }, () => ({
        path: '/locked',
        query: { phone: `locked ${i}` },
        status: 202
      }))
      // The second admission takes the last slot: then the lock is no longer the only rule that refuses.
      for (const [admitted, other] of [
        [1, 409],
        [1, 429],
        [0, 429]
      ] as const) {
        const { statuses, inside } = await team.raceAndWait(requests)
        t.equal(inside, admitted, 'handlers at the same time')
        t.equal(statuses.filter(status => status === 202).length, admitted)
        t.equal(statuses.filter(status => status === other).length, REQUESTS - admitted)
        // The reply does not wait for the release.
        await until(async () => (await client.keys('*:lock')).length === 0, 'a free lock')
      }
    }
  })
})

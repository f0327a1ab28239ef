import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { MemoryRecords } from '../../app/captcha/memory-records.js'
import type { Records } from '../../app/captcha/records.js'
import { RedisRecords } from '../../app/captcha/redis-records.js'
import type { Clock } from '../../app/clock.js'
import type { Answers } from '../../app/idempotency/answers.js'
import { MemoryAnswers } from '../../app/idempotency/memory-answers.js'
import { RedisAnswers } from '../../app/idempotency/redis-answers.js'
import type { Lists } from '../../app/lists/lists.js'
import { MemoryLists } from '../../app/lists/memory-lists.js'
import { RedisLists } from '../../app/lists/redis-lists.js'
import { seeded } from '../contract/history.js'
import { startRedis } from '../helper/redis.js'
import { START_MS, stillClock } from './still-clock.js'

const { client, clock: redisClock } = await startRedis(t, { clock: true, startMs: START_MS })

/** What a history does to a store. It returns what the store tells of it. */
type Step<S> = (store: S) => Promise<unknown>

/** At least 1 ms: of what ends at the same time, Redis gives up the one whose key comes first. */
const waits = fc.oneof(
  fc.constant(1),
  fc.integer({ min: 1, max: 1_000 }),
  fc.integer({ min: 1, max: 70_000 })
)

/**
 * Runs random histories on a store in memory and on one in Redis, and fails where they do not tell the same.
 * @param made is given a number that no other step of the history has
 */
async function agree<S, C>(
  t: Test,
  command: fc.Arbitrary<C>,
  open: (clock: Clock) => readonly [memory: S, redis: S],
  made: (command: C, n: number) => Step<S>
): Promise<void> {
  const history = fc.array(fc.tuple(waits, command), { minLength: 20, maxLength: 80, size: 'max' })
  await fc.assert(
    fc.asyncProperty(history, async steps => {
      const { clock, advance } = stillClock()
      redisClock.set(START_MS)
      await client.flushall()
      const stores = open(clock)
      for (const [n, [ms, command]] of steps.entries()) {
        advance(ms)
        redisClock.advance(ms)
        const step = made(command, n)
        const [memory, redis] = [await told(step, stores[0]), await told(step, stores[1])]
        deepStrictEqual(redis, memory)
      }
    }),
    seeded(t, 10)
  )
}

function told<S>(step: Step<S>, store: S): Promise<unknown> {
  return step(store).catch(({ code }) => code)
}

t.test('random histories: codes are kept alike in memory and in Redis', async t => {
  const terms = fc.record({
    lifeMs: fc.constantFrom(1_000, 60_000, 300_000),
    tries: fc.integer({ min: 1, max: 4 })
  })
  const deeds = [
    'check',
    'rotate',
    'rotate',
    'restore',
    'restore',
    'sent',
    'sent',
    'sent',
    'reuse',
    'drop'
  ] as const
  const command = fc.record({
    // A right code and `cancel` end a record for good.
    do: fc.oneof(
      { weight: 30, arbitrary: fc.constantFrom(...deeds) },
      { weight: 1, arbitrary: fc.constantFrom('right' as const, 'cancel' as const) }
    ),
    key: fc.constantFrom('a', 'b'),
    /** How many resends ago the one was that is taken back, or whose sender is noted. */
    ago: fc.nat(3),
    sent: fc.record({
      sender: fc.constantFrom('', 'one', 'other'),
      perhaps: fc.constantFrom('', 'one', 'other'),
      receipt: fc.constantFrom('', 'a', 'b', 'c', 'd')
    }),
    terms
  })
  await agree<Records, typeof command extends fc.Arbitrary<infer C> ? C : never>(
    t,
    command,
    clock => [new MemoryRecords(clock), new RedisRecords(client)],
    ({ do: what, key, ago, sent, terms }) =>
      async store => {
        const kept = await store.get(key)
        if (kept === null) return store.put(key, 'sealed', terms)
        const { generation, made } = kept
        const tell = async () => {
          if (what === 'check' || what === 'right') return store.check(key, what === 'right' ? generation : 0)
          if (what === 'rotate') return store.rotate(key, terms, `${made + 1}`)
          if (what === 'restore') return store.restore(key, `${made - ago}`)
          return what === 'sent' ? store.noteSent(key, made - ago, sent) : store[what](key)
        }
        return [await tell(), await store.get(key)]
      }
  )
})

t.test('random histories: first answers are kept alike in memory and in Redis', async t => {
  const command = fc.record({
    do: fc.constantFrom('begin', 'begin', 'finish', 'free'),
    scope: fc.constantFrom('one', 'other'),
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    body: fc.constantFrom('x'.repeat(22), 'y'.repeat(22)),
    token: fc.constantFrom('mine', 'mine', 'mine', 'somebody else')
  })
  const bounds = { perScope: 3, keepMs: 60_000 }
  await agree<Answers, typeof command extends fc.Arbitrary<infer C> ? C : never>(
    t,
    command,
    clock => [new MemoryAnswers(clock, { ...bounds, max: 100 }), new RedisAnswers(client, bounds)],
    ({ do: what, body, token, ...slot }, n) =>
      async store => {
        if (what === 'begin') return store.begin(slot, body, token, 10_000)
        return what === 'finish' ? store.finish(slot, token, `answer ${n}`) : store.free(slot, token)
      }
  )
})

t.test('random histories: recipients are listed alike in memory and in Redis', async t => {
  const command = fc.record({
    do: fc.constantFrom('put', 'put', 'get', 'remove', 'all'),
    id: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    standing: fc.constantFrom('blocked' as const, 'allowed' as const),
    both: fc.boolean(),
    reason: fc.constantFrom(undefined, 'why\n"this"'),
    durationMs: fc.constantFrom(undefined, 1_000, 60_000),
    limit: fc.integer({ min: 1, max: 3 })
  })
  await agree<Lists, typeof command extends fc.Arbitrary<infer C> ? C : never>(
    t,
    command,
    clock => [new MemoryLists(clock, 4), new RedisLists(client, 'fingerprint', 5_000, 4)],
    ({ do: what, id, standing, both, reason, durationMs, limit }) =>
      async store => {
        if (what === 'put') return store.put(id, { standing, reason, durationMs })
        if (what !== 'all') return store[what as 'get' | 'remove'](id)
        const page = { standing: both ? undefined : standing, limit }
        const first = await store.all(page)
        return first.next === null ? [first] : [first, await store.all({ ...page, after: first.next })]
      }
  )
})

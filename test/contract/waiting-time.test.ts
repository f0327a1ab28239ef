import fc from 'fast-check'
import t from 'tap'
import { MemoryStore } from '../../plugin/store/memory.js'
import { RedisStore } from '../../plugin/store/redis.js'
import type { Entry, Store } from '../../plugin/store/store.js'
import { verdictFrom } from '../../plugin/verdict.js'
import { startRedis } from '../helper/redis.js'
import { type Asked, appliedOf, askedOf, entriesOf, seeded } from './history.js'
import { named, takenOf, token } from './specs.js'
import { Time } from './time.js'

/** What comes before the question: sends under all kinds of rules, over some time, some of them refunded. */
const history = fc.array(
  fc.record({
    asked: askedOf(2),
    ticks: fc.oneof(
      fc.integer({ min: 0, max: 300 }),
      fc.integer({ min: 0, max: 400_000 }),
      fc.integer({ min: 0, max: 20_000_000 })
    ),
    refund: fc.integer({ min: 0, max: 4 }).map(n => n === 0)
  }),
  { minLength: 6, maxLength: 15, size: 'max' }
)

/** The rules of the question, with the value of another request. */
function others(question: Asked, { rules }: Asked): Asked['rules'] {
  return question.rules.map(each => ({ ...each, value: rules[0]?.value ?? 0 }))
}

async function live(
  stores: readonly Store[],
  time: Time,
  steps: { asked: Asked; ticks: number; refund: boolean }[]
): Promise<void> {
  for (const { asked, ticks, refund } of steps) {
    time.advance(ticks)
    const entries = entriesOf(asked)
    const holder = token()
    for (const store of stores) {
      const taken = takenOf(entries, named(entries, await store.reserve(entries, holder)))
      if (refund && taken.length > 0) await store.refund(taken, holder)
    }
    // Redis cannot run two scripts in one tick, so slots given back lie in the past.
    if (refund) time.advance(1_000)
  }
}

t.test('whoever comes at retryAfterMs is admitted, whoever comes 1 ms before is not', async t => {
  const { client, clock } = await startRedis(t, { clock: true })
  const seen = { states: 0, longest: 0, rules: 0 }
  const options = { ...seeded(t, 300), maxSkipsPerRun: 1_000 }
  await fc.assert(
    fc.asyncProperty(history, askedOf(3), async (past, question) => {
      await client.flushall()
      const time = new Time('2026-03-28T20:00:00Z', clock)
      const memory = new MemoryStore({ clock: time.clock, maxKeys: 1_000 })
      const stores = [memory, new RedisStore(client, 'wait:')]
      try {
        await live(stores, time, past)
        // Sends under a higher max shortly before, so that more may be used than the question's own max.
        await live(
          stores,
          time,
          past.slice(0, 4).map(({ asked, ticks }) => ({
            asked: { rules: others(question, asked), max: 4 },
            ticks: ticks % 500_000,
            refund: false
          }))
        )
        // The question itself several times, a little later each time, so that it is mostly refused.
        await live(
          stores,
          time,
          past.slice(0, 6).map(({ asked, ticks }, i) => ({
            asked: i % 2 === 0 ? question : { ...question, rules: others(question, asked) },
            ticks,
            refund: false
          }))
        )
        const entries = entriesOf(question)
        const verdict = async (store: Store, entries: readonly Entry[]) =>
          verdictFrom(appliedOf(question), await store.peek(entries))
        const [first, second] = [await verdict(memory, entries), await verdict(stores[1] as Store, entries)]
        if (JSON.stringify(first) !== JSON.stringify(second))
          throw new Error(`memory and Redis differ:\n${JSON.stringify(first)}\n${JSON.stringify(second)}`)
        const ms = first.retryAfterMs
        fc.pre(!first.allowed && ms !== null)
        if (!(ms > 0)) throw new Error(`refused, to come again in ${ms} ms`)
        time.advanceMs(ms - 1)
        for (const store of stores) {
          if ((await store.peek(entries))[1] !== 0 || (await store.reserve(entries, token()))[1] !== 0)
            throw new Error(`${store.name} admits 1 ms early`)
        }
        time.advanceMs(1)
        for (const store of stores) {
          if ((await store.peek(entries))[1] !== 1 || (await store.reserve(entries, token()))[1] !== 1)
            throw new Error(`${store.name} refuses after ${ms} ms`)
        }
        seen.states++
        seen.longest = Math.max(seen.longest, ms)
        seen.rules += first.violated.length
      } finally {
        memory.close()
      }
    }),
    options
  )
  t.comment(JSON.stringify(seen))
  t.equal(seen.states, options.numRuns)
  t.ok(seen.longest > 3_600_000, 'long waits among them')
  t.ok(seen.rules > seen.states, 'several limits at once among them')
})

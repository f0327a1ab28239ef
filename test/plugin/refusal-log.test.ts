import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { Decision } from '../../plugin/decision.js'
import { RefusalLog } from '../../plugin/refusal-log.js'
import type { Verdict } from '../../plugin/verdict.js'

t.test('refusals under thousands of keys do not make a flood under one key fill the log', async t => {
  const refusals = new RefusalLog()
  const told = { info: 0, debug: 0 }
  const log = { info: () => told.info++, debug: () => told.debug++ }
  const verdict = { violated: [{ rule: 'ip', windowMs: 60_000 }], retryAfterMs: 1 } as unknown as Verdict
  const refuse = (number: number) => {
    const decision = {
      store: 'memory',
      at: 0,
      numberOf: () => number,
      keyOf: String
    } as unknown as Decision
    refusals.write(decision, verdict, 'sends', { log } as unknown as FastifyRequest)
  }
  for (let i = 0; i < 10_000; i++) refuse(i)
  t.same(told, { info: 10_000, debug: 0 })
  for (let i = 0; i < 10; i++) refuse(-1)
  t.same(told, { info: 10_001, debug: 9 })
  refuse(0)
  t.same(told, { info: 10_002, debug: 9 }, 'keys known before are forgotten')
})

t.test(
  'each rule is asked for its key once when the refusal is logged, and never when it is not',
  async t => {
    const violated = ['ip', 'phone'].map(rule => ({ rule, windowMs: 60_000 }))
    const verdict = { violated, retryAfterMs: 1 } as unknown as Verdict
    for (const [store, level, asked, told] of [
      ['memory', 'info', ['ip', 'phone'], 1],
      ['memory', 'warn', [], 0],
      ['cache', 'debug', ['ip', 'phone'], 1],
      ['cache', 'info', [], 0]
    ] as const) {
      const named: string[] = []
      let lines = 0
      const levels = ['debug', 'info', 'warn']
      const isLevelEnabled = (each: string) => levels.indexOf(each) >= levels.indexOf(level)
      const log = { info: () => lines++, debug: () => lines++, isLevelEnabled }
      const keyOf = (rule: string) => {
        named.push(rule)
        return rule
      }
      const decision = { store, at: 0, keyOf, numberOf: () => 1 } as unknown as Decision
      new RefusalLog().write(decision, verdict, 'sends', { log } as unknown as FastifyRequest)
      t.same([named, lines], [asked, told], `${store}, ${level}`)
    }
  }
)

t.test('a refusal of the same keys by the same limits is a repetition, logged at debug', async t => {
  const refusals = new RefusalLog()
  const numbers: Record<string, number> = { ip: 1, phone: 2, mail: 3 }
  /** @returns the level at which it was logged, and how many keys were asked for */
  const refuse = (rules: readonly [rule: string, windowMs: number][], level = 'debug', store = 'memory') => {
    let [told, asked] = ['', 0]
    const levels = ['debug', 'info', 'warn']
    const log = {
      info: () => (told = 'info'),
      debug: () => (told = 'debug'),
      isLevelEnabled: (each: string) => levels.indexOf(each) >= levels.indexOf(level)
    }
    const decision = { store, at: 0, keyOf: () => asked++, numberOf: (rule: string) => numbers[rule] }
    const violated = rules.map(([rule, windowMs]) => ({ rule, windowMs }))
    const verdict = { violated, retryAfterMs: 1 } as unknown as Verdict
    refusals.write(decision as unknown as Decision, verdict, 'sends', { log } as unknown as FastifyRequest)
    return `${told} ${asked}`
  }
  t.equal(refuse([['ip', 1_000]], 'warn'), ' 0')
  t.equal(refuse([['ip', 1_000]]), 'info 1', 'the one before was not logged')
  t.equal(refuse([['ip', 1_000]]), 'debug 1')
  t.equal(refuse([['ip', 1_000]], 'info'), ' 0')
  t.equal(refuse([['ip', 60_000]]), 'info 1', 'another limit of the rule')
  for (const rule of ['ip', 'mail']) {
    const both = [
      [rule, 1_000],
      ['phone', 1_000]
    ] as [string, number][]
    t.same([refuse(both), refuse(both)], ['info 2', 'debug 2'], `${rule} beside the phone`)
  }
  t.equal(refuse([['mail', 1_000]], 'debug', 'cache'), 'debug 1', 'a refusal from the cache is a repetition')
  t.equal(refuse([['mail', 1_000]]), 'info 1')
  for (let i = 0; i < 2; i++)
    t.equal(
      refuse([['filter', 0]]),
      'info 1',
      'refusals by a filter are no repetition, since it names no key'
    )
})

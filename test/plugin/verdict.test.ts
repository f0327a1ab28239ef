import t from 'tap'
import type { RuleEntry } from '../../plugin/states.js'
import { BLOCKED, type Facts, PASSES, REFUSES } from '../../plugin/store/facts.js'
import type { Entry } from '../../plugin/store/store.js'
import { type Verdict, verdictFrom } from '../../plugin/verdict.js'
import { count, distinct, entry, lock, log } from '../contract/specs.js'

const NOW = 1_000_000
let rules = 0
const made = (name: string, entries: Entry[], observed: boolean): RuleEntry[] => {
  rules++
  return entries.map(each => ({ ...each, name, spec: { ...each.spec, rule: rules, observed } }))
}
const rule = (name: string, ...entries: Entry[]) => made(name, entries, false)
const watched = (name: string, ...entries: Entry[]) => made(name, entries, true)
const decide = (rules: RuleEntry[][], facts: Facts) => verdictFrom(rules.flat(), facts)
const verdict = (changes: Partial<Verdict>): Verdict => ({
  allowed: true,
  retryAfterMs: 0,
  violated: [],
  observed: [],
  rules: [],
  refusal: null,
  ...changes
})

t.test('an admitted verdict says what remains after this send', async t => {
  const applied = [rule('mail', entry(log([2, 60_000], [5, 3_600_000])), entry(count(10, 'day')))]
  const facts = [NOW, 1, PASSES, NOW, 0, 0, 1, 100_050, PASSES, 5, 4, 999_901]
  t.strictSame(
    decide(applied, facts),
    verdict({
      rules: [
        {
          name: 'mail',
          limits: [
            { max: 2, remaining: 1, resetMs: 60_000, windowMs: 60_000 },
            { max: 5, remaining: 3, resetMs: 1_001, windowMs: 3_600_000 },
            { max: 10, remaining: 5, resetMs: 10_000, windowMs: 86_400_000 }
          ]
        }
      ]
    })
  )
})

t.test('a calendar period has an end even when nothing is used', async t => {
  const applied = [rule('mail', entry(log([2, 60_000])), entry(count(5, 'day')))]
  const { rules } = decide(applied, [NOW, 1, PASSES, 0, 0, 0, PASSES, 0, 0, 999_901])
  t.strictSame(rules[0]?.limits, [
    { max: 2, remaining: 2, resetMs: 0, windowMs: 60_000 },
    { max: 5, remaining: 5, resetMs: 10_000, windowMs: 86_400_000 }
  ])
})

t.test('a calendar period that is over by the clock of another node has a reset of 0', async t => {
  const applied = [rule('day', entry(count(5, 'day')))]
  const { rules } = decide(applied, [NOW, 1, PASSES, 9, 2, -300])
  t.strictSame(rules[0]?.limits, [{ max: 5, remaining: 2, resetMs: 0, windowMs: 86_400_000 }])
})

t.test('the verdict on the last send under a limit says when the next may come', async t => {
  const applied = [
    rule('content', entry(log([2, 60_000]))),
    rule('mobile', entry(log([1, 10_000]))),
    rule('in-flight', entry(lock(90_000)))
  ]
  const facts = [NOW, 1, PASSES, NOW, 1, 3_000_000, PASSES, NOW, 0, 0, PASSES, 1, 0, 0]
  const { retryAfterMs, rules } = decide(applied, facts)
  t.equal(retryAfterMs, 30_000, 'the lock of this decision is not waited for')
  t.strictSame(rules[2], {
    name: 'in-flight',
    limits: [{ max: 1, remaining: 0, resetMs: 90_000, windowMs: 90_000 }]
  })
  const day = [...applied, rule('account', entry(count(3, 'day')))]
  t.equal(decide(day, [...facts, PASSES, 9, 2, 5_000_000]).retryAfterMs, 50_000, 'not before the next day')
})

t.test('after the last different value, this value may be sent to again, and another one waits', async t => {
  const applied = [rule('recipients', entry(distinct([3, 60_000])))]
  const admitted = decide(applied, [NOW, 1, PASSES, NOW, 2, 1_000_000])
  t.match(admitted, { allowed: true, retryAfterMs: 0 })
  t.strictSame(admitted.rules[0]?.limits, [{ max: 3, remaining: 0, resetMs: 10_000, windowMs: 60_000 }])
  const refused = decide(applied, [NOW, 0, REFUSES, 0, 3, 1_000_000])
  t.match(refused, { allowed: false, retryAfterMs: 10_000, refusal: 'exceeded' })
})

t.test('a refused verdict names every limit that refuses, and the longest waiting time', async t => {
  const applied = [
    rule('mail', entry(log([1, 60_000], [5, 3_600_000]))),
    rule('account', entry(count(3, 'day'))),
    rule('other', entry(log([2, 60_000]))),
    rule('in-flight', entry(lock(30_000)))
  ]
  const facts = [
    NOW,
    0,
    REFUSES,
    0,
    1,
    4_000_001,
    2,
    9_000_000,
    REFUSES,
    0,
    3,
    5_000_000,
    PASSES,
    0,
    1,
    6_000_000,
    PASSES,
    0,
    0,
    0
  ]
  const found = decide(applied, facts)
  t.equal(found.retryAfterMs, 50_000)
  t.equal(found.refusal, 'exceeded')
  t.strictSame(found.violated, [
    { rule: 'mail', windowMs: 60_000 },
    { rule: 'account', windowMs: 86_400_000 }
  ])
  t.strictSame(
    found.rules.map(({ limits }) => limits.map(({ remaining }) => remaining)),
    [[0, 3], [0], [1], [1]]
  )
})

t.test('waiting times are rounded up to whole milliseconds', async t => {
  for (const [ticks, ms] of [
    [1, 1],
    [99, 1],
    [100, 1],
    [101, 2],
    [6_000_000, 60_000]
  ] as const) {
    t.equal(decide([rule('a', entry(log([1, 60_000])))], [NOW, 0, REFUSES, 0, 1, ticks]).retryAfterMs, ms)
  }
})

t.test('the refusal is by a block, else by limits, else by a lock', async t => {
  const applied = [rule('a', entry(log([1, 60_000]))), rule('b', entry(lock(30_000)))]
  const held = [REFUSES, 0, 1, 2_000_000]
  const free = [PASSES, 0, 0, 0]
  const full = [REFUSES, 0, 1, 1_000_000]
  const blocked = [BLOCKED, 0, 0, 0]
  const why = (a: number[], b: number[]) => {
    const { refusal, retryAfterMs } = decide(applied, [NOW, 0, ...a, ...b])
    return [refusal, retryAfterMs]
  }
  t.strictSame(why(free, held), ['in-flight', 20_000], 'a lock alone')
  t.strictSame(why(full, held), ['exceeded', 20_000], 'a lock with others')
  t.strictSame(why(full, free), ['exceeded', 10_000])
  t.strictSame(why(blocked, held), ['blocked', null], 'a block has no waiting time')
  t.strictSame(decide(applied, [NOW, 0, BLOCKED, 101, 1, 5, ...free]).violated, [
    { rule: 'a', windowMs: 0, blockedMs: 2 },
    { rule: 'a', windowMs: 60_000 }
  ])
})

t.test('a limit with a max of 0 has no waiting time', async t => {
  const applied = [rule('paying', entry(log([4, 60_000]), 'a', [0])), rule('b', entry(log([1, 60_000])))]
  const found = decide(applied, [NOW, 0, REFUSES, 0, 0, 0, REFUSES, 0, 1, 100])
  t.strictSame([found.retryAfterMs, found.refusal], [null, 'exceeded'])
  t.strictSame(found.rules[0]?.limits, [{ max: 0, remaining: 0, resetMs: 0, windowMs: 60_000 }])
})

t.test('a max that comes with the request is the one in the verdict', async t => {
  const applied = [
    rule('paying', entry(log([5, 60_000], [9, 3_600_000]), 'a', [2, 7])),
    rule('day', entry(count(9, 'day'), 'a', [3])),
    rule('recipients', entry(distinct([5, 60_000]), 'a', [4]))
  ]
  const found = decide(applied, [NOW, 0, REFUSES, 0, 4, 100, 4, 200, REFUSES, 0, 3, 300, PASSES, 0, 1, 400])
  t.strictSame(
    found.rules.map(({ limits }) => limits.map(({ max, remaining }) => [max, remaining])),
    [
      [
        [2, 0],
        [7, 3]
      ],
      [[3, 0]],
      [[4, 3]]
    ]
  )
})

t.test(
  'an observed rule is listed apart and not waited for, and a block of a rule is listed once',
  async t => {
    const applied = [watched('new', entry(log([1, 60_000]))), rule('old', entry(log([5, 60_000])))]
    const found = decide(applied, [NOW, 1, REFUSES, 0, 1, 5_000_000, PASSES, NOW, 0, 0])
    t.strictSame(
      [found.allowed, found.retryAfterMs, found.violated, found.observed],
      [true, 0, [], [{ rule: 'new', windowMs: 60_000 }]]
    )
    t.strictSame(found.rules[0]?.limits, [{ max: 1, remaining: 0, resetMs: 50_000, windowMs: 60_000 }])
    const blocked = decide(applied, [NOW, 1, BLOCKED, Infinity, 0, 0, PASSES, NOW, 0, 0])
    t.strictSame(
      [blocked.allowed, blocked.refusal, blocked.observed],
      [true, null, [{ rule: 'new', windowMs: 0, blockedMs: null }]]
    )
    const two = [rule('two', entry(log([1, 60_000])), entry(count(9, 'day')))]
    const twice = decide(two, [NOW, 0, BLOCKED, 100, 1, 100, BLOCKED, 100, 1, 100])
    t.strictSame(
      twice.violated,
      [
        { rule: 'two', windowMs: 0, blockedMs: 1 },
        { rule: 'two', windowMs: 60_000 }
      ],
      'one violation for the block, whatever the entries of the rule'
    )
    for (const [one, other, blockedMs] of [
      [100, 300, 3],
      [300, 100, 3],
      [100, Infinity, null],
      [Infinity, 100, null]
    ] as const)
      t.match(
        decide(two, [NOW, 0, BLOCKED, one, 0, 0, BLOCKED, other, 0, 100]).violated,
        [{ rule: 'two', windowMs: 0, blockedMs }],
        'until the last block ends'
      )
    t.strictSame(
      decide(two, [NOW, 0, REFUSES, 0, 1, 100, BLOCKED, 100, 1, 100]).violated,
      [
        { rule: 'two', windowMs: 60_000 },
        { rule: 'two', windowMs: 0, blockedMs: 1 }
      ],
      'beside a limit that refuses'
    )
    const locked = decide(
      [watched('lock', entry(lock(30_000))), applied[1] as RuleEntry[]],
      [NOW, 0, REFUSES, 0, 1, 7, REFUSES, 0, 5, 100]
    )
    t.strictSame([locked.refusal, locked.retryAfterMs], ['exceeded', 1])
  }
)

t.test('a verdict without rules is admitted', async t => {
  t.strictSame(decide([], [NOW, 1]), verdict({}))
})

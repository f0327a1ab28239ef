import fc from 'fast-check'
import type { RuleEntry } from '../../plugin/states.js'
import type { Entry, Spec } from '../../plugin/store/store.js'
import { costing, count, distinct, entry, lock, log, observed, oneRule, replaced, sentTo } from './specs.js'

/** Rules that are replaced and come back, each as its specs before and after. */
const replaceable = [
  replaced([log([1, 600_000])], [log([2, 60_000], [3, 600_000])]),
  replaced<Spec>(oneRule([log([5, 10_000], [8, 600_000]), count(5, 'day')]), [
    log([1, 10_000], [2, 600_000]),
    count(3, 'day')
  ]),
  replaced([distinct([4, 10_000], [5, 60_000])], [distinct([2, 60_000])]),
  replaced([count(6, 'week')], [count(9_000, 'week')])
]
const laterOf = new Map<readonly Spec[], readonly Spec[]>(replaceable)

/** A rule whose requests have a cost. The last one above has it only in its later version. */
const costly = oneRule([count(9_000, 'day'), count(20_000, 'month', 'Europe/Berlin')])

/** Rules of all kinds, each as its specs. Of the last two, `max` comes with the request. */
export const rules: readonly (readonly Spec[])[] = [
  [log([1, 60_000])],
  [log([1, 60_000], [5, 3_600_000], [10, 86_400_000])],
  oneRule([log([3, 10_000], [4, 600_000]), count(5, 'day', 'Asia/Shanghai')]),
  [count(3, 'hour', 'America/New_York')],
  oneRule([count(4, 'month', 'Europe/Berlin'), count(3, 'week', 'Europe/Berlin')]),
  [lock(30_000)],
  oneRule([log([2, 60_000]), count(3, 'day')], true),
  [observed(lock(5_000))],
  // A window of 1 ms, so that stamps run ahead of the clock.
  [log([4, 1])],
  [distinct([2, 60_000])],
  [distinct([2, 10_000], [3, 600_000], [4, 3_600_000])],
  [observed(distinct([1, 60_000]))],
  [distinct([3, 1])],
  costly,
  ...laterOf.keys(),
  [distinct([4, 60_000], [6, 120_000])],
  oneRule([log([4, 60_000], [6, 120_000]), count(4, 'hour')])
]
const DYNAMIC = rules.length - 2
const VALUES = 7

/** What a request asks of the store: some rules, each for one identity. */
export interface Asked {
  /**
   * `who`: the identity; `value`: what is sent to, where different values are counted; `later`: whether the request
   * began under the later version of a rule that is replaced.
   */
  rules: readonly { rule: number; who: number; value: number; later?: boolean }[]
  /** What `max` of this request starts from, where it comes with the request. */
  max: number
  /** What it takes where requests have a cost. */
  cost?: number
}

export function entriesOf({ rules: asked, max, cost = 1 }: Asked): Entry[] {
  return asked.flatMap(({ rule, who, value, later }) =>
    specsOf(rule, later).map(spec => {
      const own = rule < DYNAMIC ? undefined : spec.kind === 'count' ? [max + 4] : [max, max + 1]
      if (spec.kind === 'distinct') return sentTo(spec, value, own, who)
      const each = entry(zoned(spec, who), who, own)
      return isCostly(rule, later) ? costing(each, cost) : each
    })
  )
}

function isCostly(rule: number, later = false): boolean {
  const specs = rules[rule]
  return specs === costly || (later && specs === replaceable.at(-1)?.[0])
}

function specsOf(rule: number, later = false): readonly Spec[] {
  const specs = rules[rule] ?? []
  return (later && laterOf.get(specs)) || specs
}

/** Gives one of the two identities another time zone, under the same rule. */
function zoned(spec: Spec, who: number): Spec {
  return spec.kind === 'count' && who === 1 ? { ...spec, timeZone: 'America/Los_Angeles' } : spec
}

/** The entries of a request, with the names of their rules. */
export function appliedOf({ rules: asked, max, cost = 1 }: Asked): RuleEntry[] {
  return asked.flatMap(each =>
    entriesOf({ rules: [each], max, cost }).map(entry => ({ ...entry, name: `rule ${each.rule}` }))
  )
}

/** Every entry that a history can touch. */
export const everything: readonly Entry[] = rules.flatMap((specs, rule) =>
  [0, 1].flatMap(who =>
    (specs[0]?.kind === 'distinct' ? [...Array(VALUES).keys()] : [0]).flatMap(value =>
      (laterOf.has(specs) ? [false, true] : [false]).flatMap(later =>
        entriesOf({ rules: [{ rule, who, value, later }], max: 4 })
      )
    )
  )
)

/** A request under at most `maxLength` rules. */
export const askedOf = (maxLength: number): fc.Arbitrary<Asked> =>
  fc.record({
    rules: fc.subarray([...rules.keys()], { minLength: 1, maxLength }).chain(some =>
      fc.tuple(
        ...some.map(rule =>
          fc.record({
            rule: fc.constant(rule),
            who: fc.nat(1),
            value: fc.nat(VALUES - 1),
            later: fc.boolean()
          })
        )
      )
    ),
    max: fc.nat(4),
    // 10,000 is more than any day has.
    cost: fc.constantFrom(1, 1_500, 3_000, 10_000)
  })
export const asked = askedOf(6)
const ms = fc.oneof(
  fc.integer({ min: 1, max: 90_000 }),
  fc.constantFrom(1, 5_000, 60_000, 3_600_000, 86_400_000)
)

/** Any index: it is reduced to the length of the list when it is used. */
const pick = fc.nat(1_000_000)

/** Requests at the same time under the same rules: each shifts the identity and value of the first by these numbers. */
const others = fc.array(fc.record({ who: fc.nat(1), value: fc.nat(VALUES - 1) }), {
  minLength: 1,
  maxLength: 12
})

export type Command =
  | { do: 'together'; asked: Asked; others: { who: number; value: number }[] }
  | { do: 'reserve' | 'peek' | 'clear' | 'unblock'; asked: Asked }
  | { do: 'count'; asked: Asked; ticks: number }
  | { do: 'block'; asked: Asked; ms: number }
  | { do: 'refund' | 'release' | 'renew'; pick: number }
  | { do: 'replace'; pick: number; later: boolean }
  | { do: 'wait'; ticks: number }
  | { do: 'edge'; pick: number; by: number }

/** Puts a version of a rule in force. */
export function replace({ pick, later }: Command & { do: 'replace' }): void {
  const versions = replaceable[pick % replaceable.length]
  for (const spec of versions?.[later ? 1 : 0] ?? []) spec.inForce.spec = spec
}

/** The requests at the same time, in the order in which they are asked, since one script decides them all. */
export function alike({ asked, others }: Command & { do: 'together' }): Asked[] {
  const another = ({ who, value }: (typeof others)[number]): Asked => ({
    ...asked,
    cost: value * 1_000 + 1,
    rules: asked.rules.map(each => ({
      rule: each.rule,
      who: (each.who + who) % 2,
      value: (each.value + value) % VALUES,
      later: each.later
    }))
  })
  return [asked, ...others.map(another)]
}

function of<T extends Command['do'], R>(name: T, rest: { [K in keyof R]: fc.Arbitrary<R[K]> }) {
  return fc.record({ do: fc.constant(name), ...rest } as unknown as {
    [K in keyof (R & { do: T })]: fc.Arbitrary<(R & { do: T })[K]>
  })
}

export const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 40, arbitrary: of('reserve', { asked }) },
  { weight: 8, arbitrary: of('together', { asked, others }) },
  { weight: 8, arbitrary: of('peek', { asked }) },
  {
    weight: 6,
    arbitrary: of('count', {
      asked,
      ticks: fc.oneof(
        fc.nat(300),
        ms.map(n => n * 100)
      )
    })
  },
  { weight: 10, arbitrary: of('refund', { pick }) },
  { weight: 5, arbitrary: of('release', { pick }) },
  { weight: 4, arbitrary: of('renew', { pick }) },
  { weight: 2, arbitrary: of('clear', { asked }) },
  { weight: 2, arbitrary: of('block', { asked, ms: fc.oneof(fc.constant(0), ms) }) },
  { weight: 3, arbitrary: of('unblock', { asked }) },
  { weight: 4, arbitrary: of('replace', { pick, later: fc.boolean() }) },
  { weight: 8, arbitrary: of('wait', { ticks: fc.integer({ min: 1, max: 300 }) }) },
  { weight: 8, arbitrary: of('wait', { ticks: ms.map(n => n * 100) }) },
  {
    weight: 1,
    arbitrary: of('wait', { ticks: fc.integer({ min: 1, max: 40 }).map(days => days * 8_640_000_000) })
  },
  // To an instant at which an answer changes, or just beside it.
  { weight: 12, arbitrary: of('edge', { pick, by: fc.constantFrom(-100, -1, 0, 1, 100) }) }
)

/** Seed and length of a run, printed at its start. The variable `SEED` repeats a run, `RUNS` makes it longer. */
export function seeded(
  t: { comment(text: string): unknown },
  runs: number
): { seed: number; numRuns: number; endOnFailure: boolean } {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31)
  const numRuns = Number(process.env.RUNS ?? runs)
  t.comment(`SEED=${seed} RUNS=${numRuns} repeats this run`)
  return { seed, numRuns, endOnFailure: process.env.SHRINK === undefined }
}

import { createHash, randomBytes } from 'node:crypto'
import type { Period } from '../../plugin/calendar.js'
import { BLOCKED, type Facts } from '../../plugin/store/facts.js'
import type {
  CountSpec,
  DistinctSpec,
  Entry,
  LockSpec,
  LogSpec,
  Spec,
  Taken
} from '../../plugin/store/store.js'

const PERIOD_MS = { hour: 3_600_000, day: 86_400_000, week: 604_800_000, month: 2_592_000_000 }

let last = 0

function base(ttl: number) {
  const n = ++last
  return { name: `s${n}`, rule: n, series: n, observed: false, forgettable: false, ttl, inForce: {} }
}

/** Rolling limits, `[max, window in ms]` each. */
export function log(...limits: [number, number][]): LogSpec {
  return {
    ...base(Math.max(...limits.map(([, window]) => window)) + 2),
    kind: 'log',
    keep: Math.max(...limits.map(([max]) => max)),
    limits: limits.map(([max, windowMs]) => ({ max, windowMs }))
  }
}

export function count(max: number, per: Period, timeZone = 'UTC'): CountSpec {
  return { ...base(2_682_000_000), kind: 'count', per, timeZone, limits: [{ max, windowMs: PERIOD_MS[per] }] }
}

/** Rolling limits on different values, `[max, window in ms]` each. */
export function distinct(...limits: [number, number][]): DistinctSpec {
  return {
    ...base(Math.max(...limits.map(([, window]) => window)) + 2),
    kind: 'distinct',
    limits: limits.map(([max, windowMs]) => ({ max, windowMs }))
  }
}

export function lock(ttl: number): LockSpec {
  return { ...base(ttl), kind: 'lock', limits: [{ max: 1, windowMs: ttl }] }
}

/** The specs as entries of one rule. */
export function oneRule<T extends Spec>(specs: readonly T[], observed = false): T[] {
  const rule = ++last
  return specs.map(spec => ({ ...spec, rule, observed }))
}

/**
 * The specs of a rule before and after it was replaced. The former are in force. Both have the same longest window, so
 * neither needs what the other drops.
 */
export function replaced<T extends Spec>(
  former: readonly T[],
  later: readonly T[]
): [readonly T[], readonly T[]] {
  for (const spec of former) spec.inForce.spec = spec
  return [
    former,
    later.map((spec, i) => {
      const { name, rule, series, observed, inForce } = former[i] as T
      return { ...spec, name, rule, series, observed, inForce }
    })
  ]
}

export function observed<T extends Spec>(spec: T): T {
  return { ...spec, observed: true }
}

/** 22 characters, as a keyed hash has. */
export function identity(who: string | number): string {
  return createHash('md5').update(`someone ${who}`).digest('base64url')
}

export function entry(spec: Spec, who: string | number = 'a', max?: readonly number[]): Entry {
  return { spec, identity: identity(who), ...(max && { max }) }
}

/** An entry with a value, for a spec that counts different values. Some values are below every stamp, some above. */
export function sentTo(
  spec: Spec,
  value: number,
  max?: readonly number[],
  who: string | number = 'a'
): Entry {
  return { ...entry(spec, who, max), value: value % 2 === 0 ? value + 1 : 2 ** 48 - 1 - value }
}

/** An entry of each spec for one identity. @param value for a spec that counts different values */
export function entriesOf(specs: readonly Spec[], who: string | number, value = 1): Entry[] {
  return specs.map(spec =>
    spec.kind === 'distinct' ? sentTo(spec, value, undefined, who) : entry(spec, who)
  )
}

/** The entry of a request that has a cost. */
export function costing(entry: Entry, cost: number): Entry {
  return { ...entry, cost }
}

/** A holder's name, 24 characters. */
export function token(): string {
  return randomBytes(18).toString('base64url')
}

/** The facts of one entry, by name. */
export interface EntryFacts {
  state: number
  receipt: number
  /** Ticks until its block ends; 0 when it has none. */
  blockedFor: number
  limits: { used: number; reset: number }[]
}

export interface NamedFacts {
  now: number
  admitted: boolean
  entries: EntryFacts[]
}

export function named(entries: readonly Entry[], facts: Facts): NamedFacts {
  const [now = 0, admitted, ...rest] = facts
  let at = 0
  const next = () => rest[at++] ?? Number.NaN
  const found = entries.map(({ spec }) => {
    const state = next()
    const number = next()
    const blocked = state === BLOCKED
    const limits = spec.limits.map(() => ({ used: next(), reset: next() }))
    return { state, receipt: blocked ? 0 : number, blockedFor: blocked ? number : 0, limits }
  })
  if (at !== rest.length) throw new Error(`${rest.length} numbers for ${at}`)
  return { now, admitted: admitted === 1, entries: found }
}

/** How much of each entry's first limit was used. */
export function usedOf(entries: readonly Entry[], facts: Facts): (number | undefined)[] {
  return named(entries, facts).entries.map(({ limits }) => limits[0]?.used)
}

/** What was counted, in the form that a refund takes. */
export function takenOf(entries: readonly Entry[], { now, entries: found }: NamedFacts): Taken[] {
  return entries.flatMap((entry, i) => {
    const { receipt = 0, limits = [] } = found[i] ?? {}
    if (receipt === 0) return []
    const ends = entry.spec.kind === 'count' ? now + (limits[0]?.reset ?? 0) : 0
    return [{ entry, receipt, ends }]
  })
}

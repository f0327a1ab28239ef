import { factsOf, kindOf } from './limits/index.js'
import { type Applied, isCharged, limitsAt, type RuleState, States } from './states.js'
import { BLOCKED, type Facts, TICKS_PER_MS } from './store/store.js'

/** A limit that refuses, or a rule that blocks (`windowMs` 0). */
export interface Violation {
  rule: string
  windowMs: number
  /** Of a block by `fastify.limit.block`: until it ends, in milliseconds; null without an end. */
  blockedMs?: number | null
}

/** Why a request is refused. */
export type Refusal = 'exceeded' | 'in-flight' | 'blocked'

/** What a decision says, without the means to settle it. */
export interface Verdict {
  allowed: boolean
  /** Until every rule admits, as things stand, in milliseconds; null when no time can be named. */
  retryAfterMs: number | null
  /** Every limit that refuses. */
  violated: Violation[]
  /** Limits of observed rules that would have refused. */
  observed: Violation[]
  /** What is left of each rule that applied, this request counted. */
  rules: RuleState[]
  /** Null when admitted. */
  refusal: Refusal | null
}

/** Admitted, with nothing to tell. */
export function admittedVerdict(): Verdict {
  return { allowed: true, retryAfterMs: 0, violated: [], observed: [], rules: [], refusal: null }
}

/** Turns the facts of any store into a verdict. */
export function verdictFrom(applied: readonly Applied[], facts: Facts): Verdict {
  const verdict = admittedVerdict()
  verdict.allowed = facts[1] === 1
  let head = 2
  let locksOnly = true
  const states = new States(applied.length)
  for (const each of applied) {
    const { name, spec } = each
    const violated = spec.observed ? verdict.observed : verdict.violated
    const charged = isCharged(facts, head)
    if (facts[head] === BLOCKED) {
      const blockedMs = blockedFor(facts[head + 1] as number)
      const known = violated.find(({ rule, windowMs }) => rule === name && windowMs === 0)
      // Once a rule, however many things it keeps: until the last of their blocks ends.
      if (known === undefined) violated.push({ rule: name, windowMs: 0, blockedMs })
      else known.blockedMs = longer(known.blockedMs as number | null, blockedMs)
      if (!spec.observed) verdict.refusal = 'blocked'
    }
    const limits = limitsAt(head, each, facts)
    states.add(each, limits)
    for (const { max, remaining, resetMs, windowMs } of limits) {
      if (remaining > 0) continue
      if (!charged) violated.push({ rule: name, windowMs })
      if (spec.observed) continue
      if (spec.kind !== 'lock') locksOnly = false
      // The one that comes next may be this request again.
      if (!(charged && kindOf(spec).repeatable))
        verdict.retryAfterMs = longer(verdict.retryAfterMs, max === 0 ? null : resetMs)
    }
    head += factsOf(spec)
  }
  verdict.rules = states.rules
  if (verdict.refusal === 'blocked') verdict.retryAfterMs = null
  else if (!verdict.allowed) verdict.refusal = locksOnly ? 'in-flight' : 'exceeded'
  return verdict
}

/** @param ticks until a block ends */
function blockedFor(ticks: number): number | null {
  return ticks === Number.POSITIVE_INFINITY ? null : Math.ceil(ticks / TICKS_PER_MS)
}

/** Of two waiting times the one that ends later; null names none, and never ends. */
export function longer(ms: number | null, other: number | null): number | null {
  return ms === null || other === null ? null : Math.max(ms, other)
}

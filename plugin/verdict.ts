import { isHeld, kindOf } from './limits/index.js'
import { isCounted, isUsedUp, limitsAt, type RuleEntry, type RuleState, States } from './states.js'
import { ADMITTED, BLOCKED, BLOCKED_FOR, type Facts, FIRST, factsOf } from './store/facts.js'
import { TICKS_PER_MS } from './store/store.js'

/** A limit that refuses; or a block or a filter that does, with a `windowMs` of 0. */
export interface Violation {
  /** The name of the rule or filter. */
  rule: string
  /** The length of the limit's window, in milliseconds. */
  windowMs: number
  /** Only for a block by `fastify.limit.block`: the time until it ends, in milliseconds; null if it has no end. */
  blockedMs?: number | null
}

/**
 * Why a request is refused: a limit is reached, or a filter names a time to wait (`exceeded`); locks are the only
 * reason (`in-flight`); the identity is blocked, or a filter names no time (`blocked`).
 */
export type Refusal = 'exceeded' | 'in-flight' | 'blocked'

/** What a decision says, without the means to settle it. */
export interface Verdict {
  /** Whether the request is admitted. */
  allowed: boolean
  /**
   * Time until every rule admits again, as things stand, in milliseconds; null when no time can be named. On an
   * admitted request: until all rules admit the same request once more, its own locks aside.
   */
  retryAfterMs: number | null
  /** Every limit that refuses. */
  violated: Violation[]
  /** Limits of observed rules that would have refused. */
  observed: Violation[]
  /** What is left of each rule that applied. If this request was admitted, it is counted here. */
  rules: RuleState[]
  /** Null when the request is admitted. */
  refusal: Refusal | null
}

/** A verdict that admits and has nothing to tell. */
export function admittedVerdict(): Verdict {
  return { allowed: true, retryAfterMs: 0, violated: [], observed: [], rules: [], refusal: null }
}

/** Turns the facts of any store into a verdict. */
export function verdictFrom(applied: readonly RuleEntry[], facts: Facts): Verdict {
  const verdict = admittedVerdict()
  verdict.allowed = facts[ADMITTED] === 1
  let head = FIRST
  let locksOnly = true
  const states = new States(applied.length)
  for (const each of applied) {
    const { name, spec } = each
    const violated = spec.observed ? verdict.observed : verdict.violated
    const counted = isCounted(facts, head)
    if (facts[head] === BLOCKED) {
      const blockedMs = blockedFor(facts[head + BLOCKED_FOR] as number)
      const known = violated.find(({ rule, windowMs }) => rule === name && windowMs === 0)
      // A rule is listed once, however many entries it has, with the time until the last of their blocks ends.
      if (known === undefined) violated.push({ rule: name, windowMs: 0, blockedMs })
      else known.blockedMs = longer(known.blockedMs as number | null, blockedMs)
      if (!spec.observed) verdict.refusal = 'blocked'
    }
    const limits = limitsAt(head, each, facts)
    states.add(each, limits)
    for (const limit of limits) {
      if (!isUsedUp(limit)) continue
      const { max, resetMs, windowMs, cost = 1 } = limit
      if (!counted) violated.push({ rule: name, windowMs })
      if (spec.observed) continue
      if (!isHeld(spec)) locksOnly = false
      // The next request may be this one again, which need not wait for what it holds itself (a lock, a counted value).
      if (!(counted && kindOf(spec).repeatable))
        verdict.retryAfterMs = longer(verdict.retryAfterMs, max < cost ? null : resetMs)
    }
    head += factsOf(spec)
  }
  verdict.rules = states.rules
  if (verdict.refusal === 'blocked') verdict.retryAfterMs = null
  else if (!verdict.allowed) verdict.refusal = locksOnly ? 'in-flight' : 'exceeded'
  return verdict
}

/** Milliseconds until a block ends; null if it has no end. @param ticks the same time in ticks */
function blockedFor(ticks: number): number | null {
  return ticks === Number.POSITIVE_INFINITY ? null : Math.ceil(ticks / TICKS_PER_MS)
}

/** The longer of two waiting times. Null, when no time can be named, is longer than any. */
export function longer(ms: number | null, other: number | null): number | null {
  return ms === null || other === null ? null : Math.max(ms, other)
}

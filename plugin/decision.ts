import { factsOf, kindOf, limitsOf } from './limits/index.js'
import { BLOCKED, type Entry, type Facts, type Limit, PASSES, TICKS_PER_MS, UNKNOWN } from './store/store.js'

/** What is left of one limit. */
export interface LimitState {
  max: number
  remaining: number
  /** Until a slot returns, in milliseconds; 0 when none is used. */
  resetMs: number
  /** Length of the window or the calendar period, in milliseconds. */
  windowMs: number
}

export interface RuleState {
  name: string
  limits: LimitState[]
}

/** A limit that refuses, or a rule that blocks (`windowMs` 0). */
export interface Violation {
  rule: string
  windowMs: number
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
  rules: RuleState[]
  refusal: Refusal | null
}

/** A rule that applies to a request, with what the store is asked about it. */
export interface Applied {
  name: string
  observed: boolean
  entries: readonly Entry[]
}

const NONE: LimitState[] = []

/** Admitted, with nothing to tell. */
export function admittedVerdict(): Verdict {
  return { allowed: true, retryAfterMs: 0, violated: [], observed: [], rules: [], refusal: null }
}

/** Turns the facts of any store into a verdict. */
export function decide(applied: readonly Applied[], facts: Facts): Verdict {
  const verdict = admittedVerdict()
  verdict.allowed = facts[1] === 1
  let head = 2
  let locksOnly = true
  for (const { name, observed, entries } of applied) {
    let limits: LimitState[] = NONE
    const violated = observed ? verdict.observed : verdict.violated
    for (const entry of entries) {
      const charged = isCharged(facts, head)
      if (facts[head] === BLOCKED) {
        // Once a rule, however many things it keeps.
        if (!violated.some(each => each.rule === name && each.windowMs === 0))
          violated.push({ rule: name, windowMs: 0 })
        if (!observed) verdict.refusal = 'blocked'
      }
      const own = limitsAt(head, entry, facts)
      limits = joined(limits, own)
      for (const { max, remaining, resetMs, windowMs } of own) {
        if (remaining > 0) continue
        if (!charged) violated.push({ rule: name, windowMs })
        if (observed) continue
        if (entry.spec.kind !== 'lock') locksOnly = false
        // The one that comes next may be this request again.
        if (!(charged && kindOf(entry.spec).repeatable))
          verdict.retryAfterMs = longer(verdict.retryAfterMs, max === 0 ? null : resetMs)
      }
      head += factsOf(entry.spec)
    }
    if (limits.length > 0) verdict.rules.push({ name, limits })
  }
  if (verdict.refusal === 'blocked') verdict.retryAfterMs = null
  else if (!verdict.allowed) verdict.refusal = locksOnly ? 'in-flight' : 'exceeded'
  return verdict
}

/** The part of a verdict that says what is left of the rules of these names. */
export function statesOf(applied: readonly Applied[], facts: Facts, names: ReadonlySet<string>): RuleState[] {
  const states: RuleState[] = []
  let head = 2
  for (const { name, entries } of applied) {
    const told = names.has(name)
    let limits: LimitState[] = NONE
    for (const entry of entries) {
      if (told) limits = joined(limits, limitsAt(head, entry, facts))
      head += factsOf(entry.spec)
    }
    if (limits.length > 0) states.push({ name, limits })
  }
  return states
}

/** Of two waiting times the one that ends later; null names none, and never ends. */
export function longer(ms: number | null, other: number | null): number | null {
  return ms === null || other === null ? null : Math.max(ms, other)
}

/** What is left of an entry's limits, nothing where that is not known. @param head where its facts begin */
function limitsAt(head: number, entry: Entry, facts: Facts): LimitState[] {
  if (facts[head] === UNKNOWN) return NONE
  const charged = isCharged(facts, head)
  const limits = limitsOf(entry)
  const states: LimitState[] = new Array(limits.length)
  for (let i = 0; i < limits.length; i++) {
    const { max, windowMs } = limits[i] as Limit
    const used = facts[head + 2 + 2 * i] as number
    const resetMs = resetOf(entry, used, charged, windowMs, facts[head + 3 + 2 * i] as number)
    states[i] = { max, remaining: Math.max(max - used - Number(charged), 0), resetMs, windowMs }
  }
  return states
}

// Most rules keep one thing: then no list is made anew.
function joined(limits: LimitState[], more: LimitState[]): LimitState[] {
  return limits.length === 0 ? more : [...limits, ...more]
}

function isCharged(facts: Facts, head: number): boolean {
  return facts[head] === PASSES && facts[head + 1] !== 0
}

function resetOf(entry: Entry, used: number, charged: boolean, windowMs: number, reset: number): number {
  if (used === 0 && !charged) return 0
  // What has just been counted is then the only one.
  if (used === 0 && entry.spec.kind !== 'count') return windowMs
  // Nodes of a cluster have clocks of their own: by that of another one a period may be over.
  return Math.max(Math.ceil(reset / TICKS_PER_MS), 0)
}

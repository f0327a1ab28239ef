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
  /** Null when admitted. */
  refusal: Refusal | null
}

/** One thing that the store is asked about a rule. All that is asked about one stands together. */
export interface Applied extends Entry {
  /** Of the rule. */
  name: string
}

const NONE: readonly LimitState[] = []

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
  const states = new States(applied.length)
  for (const each of applied) {
    const { name, spec } = each
    const violated = spec.observed ? verdict.observed : verdict.violated
    const charged = isCharged(facts, head)
    if (facts[head] === BLOCKED) {
      // Once a rule, however many things it keeps.
      if (!violated.some(({ rule, windowMs }) => rule === name && windowMs === 0))
        violated.push({ rule: name, windowMs: 0 })
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

/** The part of a verdict that says what is left of the rules of these names. */
export function statesOf(applied: readonly Applied[], facts: Facts, names: ReadonlySet<string>): RuleState[] {
  const states = new States(names.size)
  let head = 2
  for (const each of applied) {
    if (names.has(each.name)) states.add(each, limitsAt(head, each, facts))
    head += factsOf(each.spec)
  }
  return states.rules
}

/** What is left, rule by rule, of limits that come thing by thing. */
class States {
  private readonly list: RuleState[]
  private count = 0
  private rule = -1

  /** @param most how many rules there may be */
  constructor(most: number) {
    this.list = new Array(most)
  }

  add({ name, spec }: Applied, limits: readonly LimitState[]): void {
    if (limits.length === 0) return
    if (spec.rule === this.rule) this.list[this.count - 1]?.limits.push(...limits)
    else this.list[this.count++] = { name, limits: limits as LimitState[] }
    this.rule = spec.rule
  }

  get rules(): RuleState[] {
    if (this.count < this.list.length) this.list.length = this.count
    return this.list
  }
}

/** Of two waiting times the one that ends later; null names none, and never ends. */
export function longer(ms: number | null, other: number | null): number | null {
  return ms === null || other === null ? null : Math.max(ms, other)
}

/** What is left of an entry's limits, nothing where that is not known. @param head where its facts begin */
function limitsAt(head: number, entry: Entry, facts: Facts): readonly LimitState[] {
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

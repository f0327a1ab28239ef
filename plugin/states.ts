import { limitsOf } from './limits/index.js'
import { type Facts, FIRST, factsOf, PASSES, PER_LIMIT, RECEIPT, UNKNOWN, USED } from './store/facts.js'
import { type Entry, type Limit, TICKS_PER_MS } from './store/store.js'

/** What is left of one limit. */
export interface LimitState {
  /** How many the limit admits; of a `max` from the request, what holds for this one. */
  max: number
  /** How many of them are left, 0 or more. */
  remaining: number
  /** Time until a slot returns, in milliseconds, 0 when none is used; for a calendar limit, until its period ends. */
  resetMs: number
  /**
   * Length of the window, in milliseconds: 24 hours for a day, even when the clock is set on it, 30 days for a month.
   */
  windowMs: number
  /** How many of them the request takes, if its rule has a `cost`; any other request takes one. */
  cost?: number
}

/** Whether less is left than such a request takes. */
export function isUsedUp({ remaining, cost = 1 }: LimitState): boolean {
  return remaining < cost
}

/** What is left of one rule. */
export interface RuleState {
  /** The name of the rule. */
  name: string
  /** First its rolling limits, then its calendar limits; a lock is a limit whose `max` is 1. */
  limits: LimitState[]
}

/** One entry about which the store is asked for a rule. In a list, all entries of a rule stand together. */
export interface RuleEntry extends Entry {
  /** The name of the rule. */
  name: string
}

const NONE: readonly LimitState[] = []

/** What is left of the rules with these names, as a verdict says it. */
export function statesOf(
  applied: readonly RuleEntry[],
  facts: Facts,
  names: ReadonlySet<string>
): RuleState[] {
  const states = new States(names.size)
  let head = FIRST
  for (const each of applied) {
    if (names.has(each.name)) states.add(each, limitsAt(head, each, facts))
    head += factsOf(each.spec)
  }
  return states.rules
}

/** Gathers what is left by rule, while the limits come entry by entry. */
export class States {
  private readonly list: RuleState[]
  private count = 0
  private rule = -1

  /** @param most how many rules there may be */
  constructor(most: number) {
    this.list = new Array(most)
  }

  add({ name, spec }: RuleEntry, limits: readonly LimitState[]): void {
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

/**
 * What is left of an entry's limits; an empty list where that is not known.
 * @param head where the entry's facts begin
 */
export function limitsAt(head: number, entry: Entry, facts: Facts): readonly LimitState[] {
  if (facts[head] === UNKNOWN) return NONE
  const counted = isCounted(facts, head)
  const limits = limitsOf(entry)
  const { cost } = entry
  const states: LimitState[] = new Array(limits.length)
  let at = head + USED
  for (let i = 0; i < limits.length; i++) {
    const { max, windowMs } = limits[i] as Limit
    const used = facts[at] as number
    const resetMs = resetOf(entry, used, counted, windowMs, facts[at + 1] as number)
    at += PER_LIMIT
    states[i] = { max, remaining: Math.max(max - used - (counted ? (cost ?? 1) : 0), 0), resetMs, windowMs }
    if (cost !== undefined) (states[i] as LimitState).cost = cost
  }
  return states
}

/** Whether an entry was counted. @param head where the entry's facts begin */
export function isCounted(facts: Facts, head: number): boolean {
  return facts[head] === PASSES && facts[head + RECEIPT] !== 0
}

function resetOf(entry: Entry, used: number, counted: boolean, windowMs: number, reset: number): number {
  // With none used before, what has just been counted is the only one, and returns after a whole window. A calendar
  // period ends, used or not.
  if (used === 0 && entry.spec.kind !== 'count') return counted ? windowMs : 0
  // Nodes of a cluster have clocks of their own: by the clock of another node a period may be over.
  return Math.max(Math.ceil(reset / TICKS_PER_MS), 0)
}

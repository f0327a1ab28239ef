import { type Applied, admittedVerdict, decide, type Verdict } from './decision.js'
import type { Source } from './identity/path.js'
import { entriesFor, isAllowed } from './per-request.js'
import type { CompiledRule } from './rules.js'
import type { Entry, Facts } from './store/store.js'

/** A rule that applies to a request, with the identity it counts now and what the store is asked about it. */
export interface Subject extends Applied {
  rule: CompiledRule
  identity: string
}

/** Who is asked about, and who is on a block list, with nothing to ask; who is on an allow list is neither. */
export interface Sorted {
  subjects: Subject[]
  blocked: Subject[]
}

/**
 * Finds out which rules apply, and to whom.
 * @param values of each rule: one for each part of its key, then of what it tells apart
 * @throws KeyMissingError, KeyInvalidError, FunctionError
 */
export function sort(
  rules: readonly CompiledRule[],
  values: readonly (readonly unknown[])[],
  source: Source | undefined
): Sorted {
  const sorted: Sorted = { subjects: [], blocked: [] }
  for (let i = 0; i < rules.length; i++) {
    const rule = rules[i] as CompiledRule
    if (isAllowed(rule, source)) continue
    const given = values[i] as readonly unknown[]
    const identity = rule.key.identify(given, rule.optional)
    if (identity === null || rule.allows?.(given[0])) continue
    const { name, observed } = rule
    // Before its other values are looked at: who is on a list stays so whatever else is sent.
    if (rule.blocks?.(given[0])) {
      sorted.blocked.push({ rule, name, observed, identity, entries: [] })
      continue
    }
    const value = rule.valueOf(given)
    if (value === null) continue
    const entries = entriesFor(rule, identity, value, source)
    sorted.subjects.push({ rule, name, observed, identity, entries })
  }
  return sorted
}

/** All that a store is asked at once. */
export function entriesOf(subjects: readonly Subject[]): Entry[] {
  const all: Entry[] = []
  for (const { entries } of subjects) all.push(...entries)
  return all
}

/** Whether a store is asked at all: not about nobody, nor when who is asked about is blocked. */
export function asksStore(sorted: Sorted): boolean {
  return sorted.subjects.length > 0 && !isBlocked(sorted)
}

/** @param facts what the store answered; null when it was not asked */
export function verdictOf(sorted: Sorted, facts: Facts | null): Verdict {
  if (isBlocked(sorted)) return blockedVerdict(sorted.blocked)
  const verdict = facts ? decide(sorted.subjects, facts) : admittedVerdict()
  for (const { name } of sorted.blocked) verdict.observed.push({ rule: name, windowMs: 0 })
  return verdict
}

function isBlocked({ blocked }: Sorted): boolean {
  return blocked.some(each => !each.observed)
}

function blockedVerdict(blocked: readonly Subject[]): Verdict {
  const told = (observed: boolean) =>
    blocked.filter(each => each.observed === observed).map(({ name }) => ({ rule: name, windowMs: 0 }))
  return {
    ...admittedVerdict(),
    allowed: false,
    retryAfterMs: null,
    violated: told(false),
    observed: told(true),
    refusal: 'blocked'
  }
}

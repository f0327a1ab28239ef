import type { CompiledRule } from './compiled-rule.js'
import { type Applied, admittedVerdict, decide, type Verdict, type Violation } from './decision.js'
import type { Source } from './identity/path.js'
import { entriesFor, isAllowed } from './per-request.js'
import { KeyedHash } from './store/keyed-hash.js'
import type { Entry, Facts } from './store/store.js'

const hash = new KeyedHash()

/** A rule that applies to a request, with the identity it counts now and what the store is asked about it. */
export class Subject implements Applied {
  /** @param blocked whether it is on the rule's block list; then there is nothing to ask */
  constructor(
    readonly rule: CompiledRule,
    readonly identity: string,
    readonly entries: readonly Entry[],
    readonly blocked = false
  ) {}

  get name(): string {
    return this.rule.name
  }

  get observed(): boolean {
    return this.rule.observed
  }

  /** By which others are told of the identity. */
  get pseudonym(): string {
    return this.rule.key.pseudonym(this.identity)
  }

  /** By which this process alone tells the rule's identities apart: 53 bits of a hash. */
  get number(): number {
    hash.read(this.identity)
    hash.forget()
    return ((hash.first ^ this.rule.index) >>> 0) * 2 ** 21 + (hash.second >>> 11)
  }
}

/**
 * Finds out which rules apply, and to whom; not to who is on their allow lists.
 * @param values of each rule: one for each part of its key, then of what it tells apart
 * @throws KeyMissingError, KeyInvalidError, FunctionError
 */
export function subjectsOf(
  rules: readonly CompiledRule[],
  values: readonly (readonly unknown[])[],
  source: Source | undefined
): readonly Subject[] {
  const subjects: Subject[] = new Array(rules.length)
  let count = 0
  for (let i = 0; i < rules.length; i++) {
    const subject = subjectOf(rules[i] as CompiledRule, values[i] as readonly unknown[], source)
    if (subject !== null) subjects[count++] = subject
  }
  subjects.length = count
  return subjects
}

function subjectOf(
  rule: CompiledRule,
  values: readonly unknown[],
  source: Source | undefined
): Subject | null {
  if (isAllowed(rule, source)) return null
  const identity = rule.key.identify(values, rule.optional)
  if (identity === null || rule.allows?.(values[0])) return null
  // Before its other values are looked at: who is on a list stays so whatever else is sent.
  if (rule.blocks?.(values[0])) return new Subject(rule, identity, [], true)
  const value = rule.valueOf(values)
  return value === null ? null : new Subject(rule, identity, entriesFor(rule, identity, value, source))
}

/** All that a store is asked at once. */
export function entriesOf(subjects: readonly Subject[]): Entry[] {
  let count = 0
  for (const { entries } of subjects) count += entries.length
  const all: Entry[] = new Array(count)
  count = 0
  for (const { entries } of subjects) for (const entry of entries) all[count++] = entry
  return all
}

/** Whether a store is asked at all: not about nobody, nor when who is asked about is blocked. */
export function asksStore(subjects: readonly Subject[]): boolean {
  return subjects.some(({ blocked }) => !blocked) && !isBlocked(subjects)
}

/** @param facts what the store answered; null when it was not asked */
export function isAdmitted(subjects: readonly Subject[], facts: Facts | null): boolean {
  return facts ? facts[1] === 1 : !isBlocked(subjects)
}

/** @param facts what the store answered; null when it was not asked */
export function verdictOf(subjects: readonly Subject[], facts: Facts | null): Verdict {
  if (isBlocked(subjects)) return blockedVerdict(subjects)
  const verdict = facts ? decide(subjects, facts) : admittedVerdict()
  verdict.observed.push(...blockedBy(subjects, true))
  return verdict
}

function isBlocked(subjects: readonly Subject[]): boolean {
  return subjects.some(({ blocked, observed }) => blocked && !observed)
}

function blockedVerdict(subjects: readonly Subject[]): Verdict {
  return {
    ...admittedVerdict(),
    allowed: false,
    retryAfterMs: null,
    violated: blockedBy(subjects, false),
    observed: blockedBy(subjects, true),
    refusal: 'blocked'
  }
}

function blockedBy(subjects: readonly Subject[], observed: boolean): Violation[] {
  return subjects
    .filter(each => each.blocked && each.observed === observed)
    .map(({ name }) => ({ rule: name, windowMs: 0 }))
}

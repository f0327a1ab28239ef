import type { CompiledRule } from './compiled-rule.js'
import type { Source } from './identity/path.js'
import { costOf, isAllowed, maxOf, specOf } from './per-request.js'
import type { RuleEntry } from './states.js'
import { ADMITTED, type Facts } from './store/facts.js'
import { HalfSipHash } from './store/half-sip-hash.js'
import type { Spec } from './store/store.js'
import { admittedVerdict, type Verdict, type Violation, verdictFrom } from './verdict.js'

const hash = new HalfSipHash()

/**
 * An entry that a store may be asked about: a rule that applies to a request, the identity that it counts, and one of
 * its specs.
 */
export class Subject implements RuleEntry {
  /** @param blocked whether the identity is on the rule's block list; then the store is not asked about it */
  constructor(
    readonly rule: CompiledRule,
    readonly identity: string,
    readonly spec: Spec,
    readonly max: readonly number[] | undefined,
    readonly value: number | undefined,
    readonly cost: number | undefined,
    readonly blocked: boolean
  ) {}

  get name(): string {
    return this.rule.name
  }

  get zoned(): boolean {
    return this.rule.timeZones !== undefined
  }

  /** The hash that stands for the identity in logs and events. */
  get pseudonym(): string {
    return this.rule.key.pseudonym(this.identity)
  }

  /** A number, 53 bits of a hash, by which this process alone tells the identities of a rule apart. */
  get number(): number {
    hash.read(this.identity)
    hash.forget()
    return ((hash.first ^ this.spec.rule) >>> 0) * 2 ** 21 + (hash.second >>> 11)
  }
}

/**
 * Finds out which rules apply, and to which identities. A rule is left out if it lets the identity, or the request,
 * pass uncounted. All subjects of a rule stand together.
 * @param values the value, or list of values, that each rule counts by
 * @throws KeyMissingError, KeyInvalidError, FunctionError; without a `source` also OptionError
 */
export function subjectsOf(
  rules: readonly CompiledRule[],
  values: readonly unknown[],
  source: Source | undefined
): readonly Subject[] {
  let most = 0
  for (const { specs } of rules) most += specs.length
  // Not a literal, since a request under way keeps it: V8 might make that in the old generation at once
  // (docs/speed.md).
  const subjects: Subject[] = new Array(most)
  let count = 0
  for (let i = 0; i < rules.length; i++)
    count = addSubjects(subjects, count, rules[i] as CompiledRule, values[i], source)
  // Setting the length costs time, even if it does not change.
  if (count < most) subjects.length = count
  return subjects
}

/** @returns how many subjects there are now */
function addSubjects(
  subjects: Subject[],
  count: number,
  rule: CompiledRule,
  values: unknown,
  source: Source | undefined
): number {
  if (isAllowed(rule, source)) return count
  const { key, optional, specs } = rule
  const who = rule.whoOf(values)
  const identity = key.identify(who, optional)
  if (identity === null || rule.allowList?.(who)) return count
  // Before the value of `distinct` is looked at: an identity on the list is blocked, whatever else is sent.
  if (rule.blockList?.(who)) {
    subjects[count] = new Subject(rule, identity, specs[0] as Spec, undefined, undefined, undefined, true)
    return count + 1
  }
  const value = rule.distinctOf(values)
  if (value === null) return count
  const cost = costOf(rule, source)
  for (let i = 0; i < specs.length; i++) {
    const spec = specOf(rule, i, source)
    subjects[count + i] = new Subject(rule, identity, spec, maxOf(rule, i, source), value, cost, false)
  }
  return count + specs.length
}

/** The subjects that a store is asked about. */
export function askedOf(subjects: readonly Subject[]): readonly Subject[] {
  return subjects.some(({ blocked }) => blocked) ? subjects.filter(({ blocked }) => !blocked) : subjects
}

/** Whether a store is asked at all: not if no rule applies, nor if a rule's block list refuses already. */
export function asksStore(subjects: readonly Subject[]): boolean {
  return subjects.some(({ blocked }) => !blocked) && !isBlocked(subjects)
}

/** @param facts what the store answered; null when it was not asked */
export function isAdmitted(subjects: readonly Subject[], facts: Facts | null): boolean {
  return facts ? facts[ADMITTED] === 1 : !isBlocked(subjects)
}

/** @param facts what the store answered; null when it was not asked */
export function verdictOf(subjects: readonly Subject[], facts: Facts | null): Verdict {
  const verdict = facts ? verdictFrom(askedOf(subjects), facts) : admittedVerdict()
  verdict.observed.push(...blockedBy(subjects, true))
  if (!isBlocked(subjects)) return verdict
  const violated = blockedBy(subjects, false)
  return { ...verdict, allowed: false, retryAfterMs: null, violated, refusal: 'blocked' }
}

function isBlocked(subjects: readonly Subject[]): boolean {
  return subjects.some(({ blocked, spec }) => blocked && !spec.observed)
}

function blockedBy(subjects: readonly Subject[], observed: boolean): Violation[] {
  return subjects
    .filter(({ blocked, spec }) => blocked && spec.observed === observed)
    .map(({ name }) => ({ rule: name, windowMs: 0 }))
}

import { type Awaitable, isPromise } from './awaitable.js'
import type { CompiledRule } from './compiled-rule.js'
import type { DecisionBasis, Slot } from './decision-basis.js'
import { Hold, reporting } from './hold.js'
import type { Outcome } from './outcome.js'
import { aged, join } from './stages.js'
import { type RuleState, statesOf } from './states.js'
import { askedOf, isAdmitted, verdictOf } from './subjects.js'
import type { Verdict } from './verdict.js'

const NONE: readonly never[] = []

/**
 * The decision on a request, with the means to settle it. The first settlement wins; a later one changes nothing.
 */
export class Decision implements Verdict {
  readonly allowed: boolean
  // Private at run time (`#`), not by its type alone, since a handler may answer with the decision itself.
  readonly #basis: DecisionBasis
  // Computed when first needed: most decisions are kept, and never need it.
  #slots: readonly Slot[] | undefined
  #giving: Awaitable<void> = undefined
  #refunded = false
  #hold: Hold | undefined

  constructor(basis: DecisionBasis) {
    const { subjects, facts, verdict, token } = basis
    this.#basis = basis
    this.allowed = verdict ? verdict.allowed : isAdmitted(subjects, facts)
    if (!facts || !this.allowed) this.#slots = NONE
    else if (token !== '') this.#hold = new Hold(basis.slots(isLock), basis)
  }

  /**
   * Everything that the decision says, `allowed` to `refusal`, as one plain object. It is computed anew at each call,
   * and so is each of these members when it is read (except `allowed`).
   */
  verdict(): Verdict {
    const { subjects, facts, earlier, verdict, at } = this.#basis
    const own = verdict ?? verdictOf(subjects, facts)
    return earlier ? join(earlier.verdict(), own, at - earlier.at) : own
  }

  /** What is left of the rules with these names, as in `rules`. @internal */
  statesOf(names: ReadonlySet<string>): RuleState[] {
    const { subjects, facts, earlier, at } = this.#basis
    const own = facts ? statesOf(askedOf(subjects), facts, names) : []
    return earlier ? [...aged(earlier.statesOf(names), at - earlier.at), ...own] : own
  }

  /**
   * The instant from which the decision's times count, in milliseconds by `performance.now()`, or by the option
   * `clock`.
   */
  get at(): number {
    return this.#basis.at
  }

  get retryAfterMs(): number | null {
    return this.verdict().retryAfterMs
  }

  get violated(): Verdict['violated'] {
    return this.verdict().violated
  }

  get observed(): Verdict['observed'] {
    return this.verdict().observed
  }

  get rules(): Verdict['rules'] {
    return this.verdict().rules
  }

  get refusal(): Verdict['refusal'] {
    return this.verdict().refusal
  }

  toJSON(): Verdict {
    return this.verdict()
  }

  /** The hashed identity of each rule that applied. */
  get keys(): Record<string, string> {
    const { subjects, earlier } = this.#basis
    const keys = { ...earlier?.keys }
    for (const [i, subject] of subjects.entries())
      if (subjects[i - 1]?.rule !== subject.rule) keys[subject.name] = subject.pseudonym
    return keys
  }

  /** The hashed identity of one rule; undefined where it did not apply. */
  keyOf(rule: string): string | undefined {
    const { subjects, earlier } = this.#basis
    return subjects.find(({ name }) => name === rule)?.pseudonym ?? earlier?.keyOf(rule)
  }

  /** A number for the identity of one rule, in this process alone. No pseudonym is made for it. @internal */
  numberOf(rule: string): number | undefined {
    return this.#basis.subjects.find(({ name }) => name === rule)?.number
  }

  /**
   * What decided: the store `memory` or `redis`, the `cache` of refusals, or `none` when the decision was made without
   * a store or, on a cluster, admitted with a part of it uncounted.
   */
  get store(): string {
    return this.#basis.facts ? this.#basis.store.name : 'none'
  }

  /** Whether anything may be left to settle or to release. @internal */
  get pending(): boolean {
    const open = this.#slots
      ? this.#slots.length > 0
      : this.#basis.subjects.some(({ rule }) => isSettled(rule))
    return open || this.locked
  }

  get #open(): readonly Slot[] {
    this.#slots ??= this.#basis.slots(isSettled)
    return this.#slots
  }

  /** Whether slots were given back. From then on the decision counts them as free, except those of `distinct` rules. */
  get refunded(): boolean {
    return this.#refunded
  }

  /** Whether this request holds a lock. @internal */
  get locked(): boolean {
    return this.#hold?.locked ?? false
  }

  /**
   * Aborts, with an `AbortError`, when a lock of this request is lost: somebody else may then be sending, too. It never
   * aborts without a lock, or for the lock of an observed rule.
   */
  get signal(): AbortSignal {
    this.#hold ??= new Hold(NONE, this.#basis)
    return this.#hold.signal
  }

  /**
   * Call it when the provider has, or may have, the message: every slot stays counted, whatever the handler answers.
   */
  keep(): void {
    this.#slots = NONE
  }

  /**
   * Call it when the provider certainly does not have the message: gives every slot back that is not settled yet,
   * except those of `attempts` rules.
   * @returns a promise that settles when the slots are free. It never rejects: a failure is logged, and the slots stay
   *   counted
   */
  async refund(): Promise<void> {
    await this.giveBack(() => true)
  }

  /**
   * Makes a text with which `fastify.limit.refund` gives the same slots back later, in any process that shares the
   * store, even if they were kept here. Making it settles nothing. It names no slots that a memory has counted in place
   * of Redis, and none if the decision took none.
   * @param rules names of rules: only their slots are in the receipt. Without any, those of all rules are.
   * @throws RuleUnknownError
   */
  receipt(...rules: string[]): string {
    const { decider, store, subjects } = this.#basis
    for (const name of rules) if (!subjects.some(subject => subject.name === name)) decider.checkNamed(name)
    const isIn = (rule: CompiledRule) => isSettled(rule) && (rules.length === 0 || rules.includes(rule.name))
    return decider.receiptOf(this.#basis.slots(isIn), store)
  }

  /**
   * Gives back the slots that the handler's outcome did not use up; the others stay counted, and open to `refund`. An
   * unclear outcome (null) keeps all.
   * @internal
   */
  settle(outcome: Outcome): Awaitable<void> {
    if (outcome === null) return this.keep()
    return this.giveBack(({ counts }) =>
      counts === 'failures' ? outcome < 400 || outcome > 499 : outcome >= 400
    )
  }

  /**
   * Releases the locks of this request now and settles nothing: `keep` and `refund` still do that. For a handler that
   * has answered and still runs.
   * @returns a promise that settles when the locks are free. It never rejects: a failure is logged, and the locks end
   *   by themselves
   */
  async release(): Promise<void> {
    await this.#hold?.release()
  }

  /** Ends the decision: keeps what is not settled, and releases the locks without waiting for that. */
  end(): void {
    this.keep()
    if (this.locked) void this.release()
  }

  private giveBack(which: (rule: CompiledRule) => boolean): Awaitable<void> {
    // A send that succeeds usually gives nothing back. Then no slot needs to be computed.
    if (!this.#basis.subjects.some(({ rule }) => which(rule))) return this.#giving
    const given = this.#open.filter(({ entry }) => which(entry.rule))
    // The handler may have begun a refund without waiting for it.
    if (given.length === 0) return this.#giving
    this.#slots = this.#open.filter(({ entry }) => !which(entry.rule))
    const basis = this.#basis
    const back = () => {
      basis.uncount(given)
      this.#refunded = true
    }
    const failed = (error: unknown) => basis.report(error, 'refund')
    this.#giving = reporting(failed, () => {
      const done = basis.store.refund(given, basis.token)
      return isPromise(done) ? done.then(back) : back()
    })
    return this.#giving
  }
}

function isLock({ lock }: CompiledRule): boolean {
  return lock
}

/**
 * Whether a rule's slots are kept or given back. Attempts stay counted whatever becomes of them; locks are released.
 */
function isSettled({ counts, lock }: CompiledRule): boolean {
  return counts !== 'attempts' && !lock
}

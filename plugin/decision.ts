import { type Awaitable, isPromise } from './awaitable.js'
import type { CompiledRule } from './compiled-rule.js'
import { Hold, reporting } from './hold.js'
import type { Means, Slot } from './means.js'
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
  // Private by `#`, not by its type alone: a handler may answer with the decision itself.
  readonly #means: Means
  // Listed when first asked for: most decisions are kept, and never need it.
  #slots: readonly Slot[] | undefined
  #giving: Awaitable<void> = undefined
  #refunded = false
  #hold: Hold | undefined

  constructor(means: Means) {
    const { subjects, facts, said, token } = means
    this.#means = means
    this.allowed = said ? said.allowed : isAdmitted(subjects, facts)
    if (!facts || !this.allowed) this.#slots = NONE
    else if (token !== '') this.#hold = new Hold(means.slots(isLock), means)
  }

  /** All that it says as one plain object, computed anew each time: none of it is kept. */
  verdict(): Verdict {
    const { subjects, facts, earlier, said, at } = this.#means
    const own = said ?? verdictOf(subjects, facts)
    return earlier ? join(earlier.verdict(), own, at - earlier.at) : own
  }

  /** What is left of the rules of these names, as `rules` tells it. @internal */
  statesOf(names: ReadonlySet<string>): RuleState[] {
    const { subjects, facts, earlier, at } = this.#means
    const own = facts ? statesOf(askedOf(subjects), facts, names) : []
    return earlier ? [...aged(earlier.statesOf(names), at - earlier.at), ...own] : own
  }

  /** From when on its times count, in milliseconds by `performance.now()`, or by the option `clock`. */
  get at(): number {
    return this.#means.at
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
    const { subjects, earlier } = this.#means
    const keys = { ...earlier?.keys }
    for (const [i, subject] of subjects.entries())
      if (subjects[i - 1]?.rule !== subject.rule) keys[subject.name] = subject.pseudonym
    return keys
  }

  /** The hashed identity of one rule; undefined where it did not apply. */
  keyOf(rule: string): string | undefined {
    const { subjects, earlier } = this.#means
    return subjects.find(({ name }) => name === rule)?.pseudonym ?? earlier?.keyOf(rule)
  }

  /** A number for the same identity, of this process alone: for it no pseudonym is made. @internal */
  numberOf(rule: string): number | undefined {
    return this.#means.subjects.find(({ name }) => name === rule)?.number
  }

  /** Name of the store that decided, `cache` for the refusal cache, `none` when there was none, or a part of it was admitted uncounted. */
  get store(): string {
    return this.#means.facts ? this.#means.store.name : 'none'
  }

  /** Whether anything may be left to settle or to release. @internal */
  get pending(): boolean {
    const open = this.#slots
      ? this.#slots.length > 0
      : this.#means.subjects.some(({ rule }) => isSettled(rule))
    return open || this.locked
  }

  get #open(): readonly Slot[] {
    this.#slots ??= this.#means.slots(isSettled)
    return this.#slots
  }

  /** Whether slots were given back: from then on it says what is left with them. */
  get refunded(): boolean {
    return this.#refunded
  }

  /** Whether this request holds a lock. @internal */
  get locked(): boolean {
    return this.#hold?.locked ?? false
  }

  /**
   * Aborts when a lock of this request is lost: somebody else may be sending, too.
   * Its reason is an `AbortError`. Without a lock it never aborts.
   */
  get signal(): AbortSignal {
    this.#hold ??= new Hold(NONE, this.#means)
    return this.#hold.signal
  }

  /** The provider has, or may have, the message: it counts, whatever is answered. */
  keep(): void {
    this.#slots = NONE
  }

  /**
   * The provider certainly does not have the message: gives every slot back.
   * @returns when the slots are free; never rejects
   */
  async refund(): Promise<void> {
    await this.giveBack(() => true)
  }

  /**
   * A text by which `fastify.limit.refund` gives back the same slots, later and in any process of the store, whatever has
   * kept them here. Making it settles nothing. Of a decision that took none it names none.
   */
  receipt(): string {
    const { decider, store } = this.#means
    return decider.receiptOf(this.allowed ? this.#means.slots(isSettled) : NONE, store)
  }

  /** Gives back what the outcome says was not used up; the rest stays counted, and open to `refund`. @internal */
  settle(outcome: Outcome): Awaitable<void> {
    if (outcome === null) return this.keep()
    return this.giveBack(({ counts }) =>
      counts === 'failures' ? outcome < 400 || outcome > 499 : outcome >= 400
    )
  }

  /**
   * Releases the locks of this request now and settles nothing: `keep` and `refund` still may. For a handler that
   * has answered and still runs.
   * @returns when the locks are free; never rejects
   */
  async release(): Promise<void> {
    await this.#hold?.release()
  }

  /** The handler has ended: what is not settled is kept, and locks are released. */
  end(): void {
    this.keep()
    if (this.locked) void this.release()
  }

  private giveBack(which: (rule: CompiledRule) => boolean): Awaitable<void> {
    // What succeeds gives nothing back, as a rule: then no slot needs to be looked at.
    if (!this.#means.subjects.some(({ rule }) => which(rule))) return this.#giving
    const given = this.#open.filter(({ entry }) => which(entry.rule))
    // The handler may have begun a refund for which it does not wait.
    if (given.length === 0) return this.#giving
    this.#slots = this.#open.filter(({ entry }) => !which(entry.rule))
    const means = this.#means
    const back = () => {
      means.uncount(given)
      this.#refunded = true
    }
    const failed = (error: unknown) => means.report(error, 'refund')
    this.#giving = reporting(failed, () => {
      const done = means.store.refund(given, means.token)
      return isPromise(done) ? done.then(back) : back()
    })
    return this.#giving
  }
}

function isLock({ lock }: CompiledRule): boolean {
  return lock
}

/** Attempts are counted whatever becomes of them. */
function isSettled({ counts, lock }: CompiledRule): boolean {
  return counts !== 'attempts' && !lock
}

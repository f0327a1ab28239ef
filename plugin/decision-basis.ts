import type { Instant } from './clock.js'
import type { CompiledRule } from './compiled-rule.js'
import type { Afterwards } from './hold.js'
import type { RuleState } from './states.js'
import type { Facts } from './store/facts.js'
import type { Settling, Taken } from './store/store.js'
import { takenOf, uncounted } from './store/taken.js'
import { askedOf, type Subject } from './subjects.js'
import type { Verdict } from './verdict.js'

/** A slot that a decision took. */
export type Slot = Taken<Subject>

/** The decision of the request's first stage. */
interface Earlier {
  readonly at: number
  readonly keys: Record<string, string>
  keyOf(rule: string): string | undefined
  verdict(): Verdict
  statesOf(names: ReadonlySet<string>): RuleState[]
}

/** The limiter that made the decision. */
interface Decider {
  /** Gets the errors of calls that failed after the decision. */
  report(error: unknown, what: Afterwards): void
  /** Makes a receipt of the slots that every process can find, by which they may be given back later. */
  receiptOf(taken: readonly Taken[], store: Settling): string
  /** @throws RuleUnknownError when no rule has this name, inline rules included */
  checkNamed(name: string): void
}

/**
 * What a decision is computed from, and what it needs for its settlement. This is a class, like everything that a
 * request under way keeps: V8 may make object literals in the old generation at once, and then a busy server collects
 * more garbage (docs/speed.md).
 */
export class DecisionBasis {
  /**
   * @param facts what the store answered; null when it was not asked
   * @param at when it was decided, in milliseconds by the monotonic clock
   * @param token the holder's name on its locks
   * @param since when locks were asked for
   * @param earlier the decision of the request's first stage
   * @param verdict where it does not follow from the facts
   */
  constructor(
    readonly subjects: readonly Subject[],
    public facts: Facts | null,
    readonly at: number,
    readonly store: Settling,
    readonly token: string,
    readonly since: Instant,
    readonly decider: Decider,
    readonly earlier: Earlier | null,
    readonly verdict: Verdict | null
  ) {}

  get report(): Decider['report'] {
    return this.decider.report
  }

  /** From now on these slots count as not taken. */
  uncount(given: readonly Slot[]): void {
    const { subjects, facts } = this
    if (facts) this.facts = uncounted(askedOf(subjects), facts, given)
  }

  /** The slots that were taken for the rules that `which` picks. */
  slots(which: (rule: CompiledRule) => boolean): Slot[] {
    const { subjects, facts } = this
    return facts ? takenOf(askedOf(subjects), facts).filter(({ entry }) => which(entry.rule)) : []
  }
}

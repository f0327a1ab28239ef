import type { RuleState } from './states.js'
import { longer, type Verdict, type Violation } from './verdict.js'

/**
 * Joins the verdicts of a request's two stages: the answer of the later stage, with the rules and waiting times of
 * both. The earlier stage has admitted, so it has no violations.
 * @param ms how much later the later one was decided, in milliseconds
 */
export function join(earlier: Verdict, later: Verdict, ms: number): Verdict {
  const { retryAfterMs } = earlier
  return {
    ...later,
    retryAfterMs: longer(later.retryAfterMs, retryAfterMs === null ? null : left(retryAfterMs, ms)),
    observed: [...earlier.observed.map(each => agedBlock(each, ms)), ...later.observed],
    rules: [...aged(earlier.rules, ms), ...later.rules]
  }
}

/** The same states as they are `ms` milliseconds later. */
export function aged(rules: readonly RuleState[], ms: number): RuleState[] {
  return rules.map(({ name, limits }) => ({
    name,
    limits: limits.map(limit => ({ ...limit, resetMs: left(limit.resetMs, ms) }))
  }))
}

function agedBlock(violation: Violation, ms: number): Violation {
  const { blockedMs } = violation
  return typeof blockedMs === 'number' ? { ...violation, blockedMs: left(blockedMs, ms) } : violation
}

/** What is left of a waiting time after `ms` milliseconds: a whole number, as in every verdict, and never too short. */
function left(waitMs: number, ms: number): number {
  return Math.max(waitMs - Math.floor(ms), 0)
}

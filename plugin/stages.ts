import type { RuleState } from './states.js'
import { longer, type Verdict, type Violation } from './verdict.js'

/**
 * The two stages of one request as one: the later one's answer, both stages' rules and waiting times. The earlier one has
 * admitted, so that it has nothing violated.
 * @param ms how much later
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

/** The same, told so many milliseconds later. */
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

/** Whole, as all times are told, and never too little. */
function left(waitMs: number, ms: number): number {
  return Math.max(waitMs - Math.floor(ms), 0)
}

import type { LimitState, RuleState } from './decision.js'
import type { Audience } from './plan.js'

/**
 * `RateLimit` and `RateLimit-Policy` as structured fields (RFC 9651, draft-ietf-httpapi-ratelimit-headers).
 * They tell of rules on the caller itself, and of the policies that it has just met; what is left for
 * somebody's phone or mailbox is not told to strangers, and what is left of a private rule to nobody.
 */
export function policyHeaders(
  rules: readonly RuleState[],
  { callers, secrets, policies }: Audience,
  met: readonly string[] = []
): Record<string, string> {
  let policy = ''
  let state = ''
  for (const { name: rule, limits } of rules) {
    if (secrets.has(rule)) continue
    const told = callers.has(rule)
    const names = policies.get(rule) ?? []
    for (let i = 0; i < limits.length; i++) {
      const { max, remaining, resetMs, windowMs } = limits[i] as LimitState
      const name = names[i] as string
      // A block is told by the name of its rule: that is no quota, and of it more may be left.
      if (!told && (remaining > 0 || !met.includes(name))) continue
      const comma = policy === '' ? '' : ', '
      policy += `${comma}"${name}";q=${max};w=${seconds(windowMs)}`
      state += `${comma}"${name}";r=${remaining};t=${seconds(resetMs)}`
    }
  }
  return policy === '' ? {} : { 'ratelimit-policy': policy, ratelimit: state }
}

/** Whole, rounded up: nobody is told to come too soon. */
export function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}

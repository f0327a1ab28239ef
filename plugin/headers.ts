import type { RuleState } from './decision.js'
import type { Audience } from './plan.js'

/**
 * `RateLimit` and `RateLimit-Policy` as structured fields (RFC 9651, draft-ietf-httpapi-ratelimit-headers).
 * They tell of rules on the caller itself, and of the policies that it has just met; what is left for
 * somebody's phone or mailbox is not told to strangers, and what is left of a private rule to nobody.
 */
export function policyHeaders(
  rules: readonly RuleState[],
  { callers, secrets, policies: named }: Audience,
  met: readonly string[] = []
): Record<string, string> {
  const policies: string[] = []
  const states: string[] = []
  for (const rule of rules) {
    if (secrets.has(rule.name)) continue
    const told = callers.has(rule.name)
    const names = named.get(rule.name) ?? []
    for (const [i, limit] of rule.limits.entries()) {
      const name = names[i] as string
      // A block is told by the name of its rule: that is no quota, and of it more may be left.
      if (!told && (limit.remaining > 0 || !met.includes(name))) continue
      policies.push(`"${name}";q=${limit.max};w=${seconds(limit.windowMs)}`)
      states.push(`"${name}";r=${limit.remaining};t=${seconds(limit.resetMs)}`)
    }
  }
  return policies.length === 0
    ? {}
    : { 'ratelimit-policy': policies.join(', '), ratelimit: states.join(', ') }
}

/** Whole, rounded up: nobody is told to come too soon. */
export function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}

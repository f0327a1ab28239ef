import type { Disclosures } from './plan.js'
import type { Policy } from './policy.js'
import { isUsedUp, type LimitState, type RuleState } from './states.js'

/**
 * `RateLimit` and `RateLimit-Policy` as structured fields (RFC 9651, draft-ietf-httpapi-ratelimit-headers). They tell
 * of rules on the caller itself, and of policies that the caller has just run into. What is left for somebody's phone
 * or mailbox is not told to strangers, and what is left of a private rule to nobody.
 * @param met names of the policies that refuse
 */
export function policyHeaders(
  rules: readonly RuleState[],
  disclosures: Disclosures,
  met: readonly string[] = []
): Record<string, string> {
  let policies = ''
  let states = ''
  for (const { name, limits } of rules) {
    const disclosure = disclosures.get(name)
    if (disclosure === undefined || disclosure.to === 'nobody') continue
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as LimitState
      const { max, remaining, resetMs } = limit
      const policy = disclosure.policies[i] as Policy
      // `met` also has the names of rules that block. A block is no quota: the policy of that name may have some left.
      if (disclosure.to === 'met' && (!isUsedUp(limit) || !met.includes(policy.name))) continue
      const comma = policies === '' ? '' : ', '
      policies += comma + policy.withMax(max)
      states += comma + policy.withState(max, remaining, resetMs)
    }
  }
  return policies === '' ? {} : { 'ratelimit-policy': policies, ratelimit: states }
}

import type { Rule } from '../../plugin/index.js'

/** Of what an account has left, visitors of its pages are told nothing, unless the policy says whom to tell. */
export function hideQuota(rule: Rule): Rule {
  // What is no rule, or no key, the plugin refuses with its path.
  const { key, private: hidden } = (rule ?? {}) as Partial<Rule>
  if (hidden !== undefined || ![key].flat().some(isOfAccount)) return rule
  return { ...rule, private: request => request.caller === 'origin' }
}

function isOfAccount(part: unknown): boolean {
  const { value } = (part ?? {}) as { value?: unknown }
  return typeof value === 'string' && value.startsWith('request.account.')
}

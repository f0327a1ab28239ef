import type { Rule } from '../../plugin/index.js'

/**
 * Hides what is left of an account's quota from callers that do not send its key, unless the policy says whom to tell.
 */
export function hideQuota(rule: Rule): Rule {
  const { key, private: hidden } = rule
  // A policy is JSON: anywhere in a key, even in lists and digests, a path is a string of its own.
  if (hidden !== undefined || !JSON.stringify(key)?.includes('"request.account.')) return rule
  return { ...rule, private: request => request.caller !== 'key' }
}

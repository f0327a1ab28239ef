import type { Rule } from '../../plugin/index.js'

/** What an account has left is told to those alone who send its key, unless the policy says whom to tell. */
export function hideQuota(rule: Rule): Rule {
  const { key, private: hidden } = rule
  // A policy is JSON: wherever in a key, lists and digests included, a path is a text of its own.
  if (hidden !== undefined || !JSON.stringify(key)?.includes('"request.account.')) return rule
  return { ...rule, private: request => request.caller !== 'key' }
}

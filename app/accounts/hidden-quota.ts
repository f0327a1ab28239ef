import type { Rule } from '../../plugin/index.js'
import { pathsOf } from '../facts.js'

/** What an account has left is told to those alone who send its key, unless the policy says whom to tell. */
export function hideQuota(rule: Rule): Rule {
  const { key, private: hidden } = rule
  if (hidden !== undefined || !pathsOf(key).some(path => path.startsWith('request.account.'))) return rule
  return { ...rule, private: request => request.caller !== 'key' }
}

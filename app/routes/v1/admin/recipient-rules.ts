import type { LimitDecorator, Rule } from '../../../../plugin/index.js'
import { valuePath } from '../../../rule-key.js'

/** What a rule's key is that counts a recipient alone: of messages, and of codes that are tried. */
const MESSAGES = 'request.recipient.identity'
const TRIES = 'request.captcha.identity'

/**
 * The names of the rules that count a recipient alone.
 * @param which those that can be looked at: all, or those that hold up messages; or those that can be forgotten: no locks
 */
export function recipientRules(
  rules: LimitDecorator['rules'],
  which: 'all' | 'messages' | 'counting'
): string[] {
  const paths: (string | undefined)[] = which === 'messages' ? [MESSAGES] : [MESSAGES, TRIES]
  const suits = (rule: Rule) => (which === 'counting' ? rule.lock === undefined : !variesByRequest(rule))
  return Object.entries(rules)
    .filter(([, rule]) => paths.includes(valuePath(rule.key)) && suits(rule))
    .map(([name]) => name)
}

/** Whether it takes more than its key from a request, and cannot be looked at without the one that it is about. */
function variesByRequest({ limits = [], distinct }: Rule): boolean {
  if (distinct !== undefined) return true
  return limits.some(
    limit => typeof limit.max !== 'number' || ('timeZone' in limit && typeof limit.timeZone !== 'string')
  )
}

import type { LimitDecorator } from '../../../../plugin/index.js'
import { valuePath } from '../../../rule-key.js'

/** What a rule's key is that counts a recipient alone: of messages, and of codes that are tried. */
const MESSAGES = 'request.recipient.identity'
const TRIES = 'request.captcha.identity'

/**
 * The names of the rules that count a recipient alone.
 * @param which all, those that hold up messages, or those that are no locks
 */
export function recipientRules(
  rules: LimitDecorator['rules'],
  which: 'all' | 'messages' | 'counting'
): string[] {
  const paths: (string | undefined)[] = which === 'messages' ? [MESSAGES] : [MESSAGES, TRIES]
  return Object.entries(rules)
    .filter(
      ([, { key, lock }]) => paths.includes(valuePath(key)) && (which !== 'counting' || lock === undefined)
    )
    .map(([name]) => name)
}

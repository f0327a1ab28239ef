import type { LimitDecorator } from '../../../../plugin/index.js'

/** What a rule's key is that counts a recipient alone. */
const PATH = 'request.recipient.identity'

/**
 * The names of the rules that count a recipient alone.
 * @param which with locks, or without
 */
export function recipientRules(rules: LimitDecorator['rules'], which: 'all' | 'counting'): string[] {
  return Object.entries(rules)
    .filter(([, { key, lock }]) => {
      const [part, ...others] = [key].flat()
      const alone = others.length === 0 && typeof part === 'object' && 'value' in part && part.value === PATH
      return alone && (which === 'all' || lock === undefined)
    })
    .map(([name]) => name)
}

import type { LimitDecorator, Rule } from '../plugin/index.js'

/** What a rule's key is that counts a recipient alone: of messages, and of codes that are tried. */
const MESSAGES = 'request.recipient.identity'
const TRIES = 'request.captcha.identity'
/** And one that counts the messages to a row of numbers. */
const RANGE = 'request.numberRange'

/** Whether a rule with this key counts the messages to a recipient alone. */
export function isOfRecipient(key: Rule['key'] | undefined): boolean {
  return valuePath(key) === MESSAGES
}

/** Whether it counts those to a row of numbers, of which the recipient has one. */
export function isOfRange(key: Rule['key'] | undefined): boolean {
  return valuePath(key) === RANGE
}

/**
 * The names of the rules that count a recipient alone.
 * @param which those that can be looked at, or those that can be forgotten: no locks
 */
export function recipientRules(rules: LimitDecorator['rules'], which: 'all' | 'counting'): string[] {
  const paths: (string | undefined)[] = [MESSAGES, TRIES]
  const suits = (rule: Rule) => (which === 'counting' ? rule.lock === undefined : !variesByRequest(rule))
  return Object.entries(rules)
    .filter(([, rule]) => paths.includes(valuePath(rule.key)) && suits(rule))
    .map(([name]) => name)
}

/** The path of a rule's key where that is one value. */
function valuePath(key: Rule['key'] | undefined): string | undefined {
  const [part, ...others] = [key].flat()
  const alone = others.length === 0 && typeof part === 'object' && part !== null
  return alone && 'value' in part ? part.value : undefined
}

/** Whether it takes more than its key from a request, and cannot be looked at without the one that it is about. */
function variesByRequest({ limits = [], distinct }: Rule): boolean {
  if (distinct !== undefined) return true
  return limits.some(
    limit => typeof limit.max !== 'number' || ('timeZone' in limit && typeof limit.timeZone !== 'string')
  )
}

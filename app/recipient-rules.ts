import type { LimitDecorator, Rule } from '../plugin/index.js'

/** What a rule's key is that counts a recipient alone: of messages, and of codes that are tried. */
const MESSAGES = 'request.recipient.identity'
const TRIES = 'request.captcha.identity'
/** And one that counts the messages to a row of numbers. */
const RANGE = 'request.numberRange'

/** Whether a rule with this key counts the messages to a recipient alone. */
function isOfRecipient(key: Rule['key'] | undefined): boolean {
  return valuePath(key) === MESSAGES
}

/** Whether it counts those to a row of numbers, of which the recipient has one. */
function isOfRange(key: Rule['key'] | undefined): boolean {
  return valuePath(key) === RANGE
}

/** Whom the operator allows passes what is counted for the recipient alone, or for the numbers around it. */
export function passAllowed(rule: Rule): Rule {
  // What is no rule, or no key, the plugin refuses with its path.
  const { key, lock, allow } = (rule ?? {}) as Partial<Rule>
  if (lock !== undefined || allow !== undefined || !(isOfRecipient(key) || isOfRange(key))) return rule
  // Concealed, an allowance would show: what is refused to others is not refused to them.
  return { ...rule, allow: request => request.standing === 'allowed' && !request.concealed }
}

/** Whether a rule has been made to. */
export function passesAllowed({ allow }: Rule): boolean {
  // A policy is JSON: this is the only function.
  return typeof allow === 'function'
}

/** The names of the rules that count a recipient alone, and can be forgotten: no locks. */
export function recipientRules(rules: LimitDecorator['rules']): string[] {
  const paths: (string | undefined)[] = [MESSAGES, TRIES]
  return Object.entries(rules)
    .filter(([, { key, lock }]) => paths.includes(valuePath(key)) && lock === undefined)
    .map(([name]) => name)
}

/** The path of a rule's key where that is one value. */
function valuePath(key: Rule['key'] | undefined): string | undefined {
  const [part, ...others] = [key].flat()
  const alone = others.length === 0 && typeof part === 'object' && part !== null
  return alone && 'value' in part ? part.value : undefined
}

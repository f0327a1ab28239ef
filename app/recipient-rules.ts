import type { LimitDecorator, Rule } from '../plugin/index.js'
import { isAlone, keyFrom, reads } from './facts.js'

/** What a rule's key reads that counts a recipient: of messages, and of codes that are tried. */
const MESSAGES = 'request.recipient.identity'
const TRIES = 'request.captcha.identity'
/** And one that counts the messages to a row of numbers. */
const RANGE = 'request.numberRange'

/** Whom the operator allows passes what is counted for the recipient alone, or for the numbers around it. */
export function passAllowed(rule: Rule): Rule {
  const { key, lock, allow } = rule
  const counts = isAlone(key, MESSAGES) || isAlone(key, RANGE)
  if (lock !== undefined || allow !== undefined || !counts) return rule
  // Concealed, an allowance would show: what is refused to others is not refused to them.
  return { ...rule, allow: request => request.standing === 'allowed' && !request.concealed }
}

/** Whether a rule has been made to. */
export function passesAllowed({ allow }: Rule): boolean {
  // A policy is JSON: this is the only function.
  return typeof allow === 'function'
}

/**
 * By name, the keys of the rules that count a recipient, alone or by what else is known, and can be forgotten: no locks.
 * @param facts as `keyFrom` takes them
 */
export function recipientKeys(rules: LimitDecorator['rules'], facts: Parameters<typeof keyFrom>[1]) {
  const keys = Object.entries(rules)
    .filter(([, { key, lock }]) => lock === undefined && (reads(key, MESSAGES) || reads(key, TRIES)))
    .map(([name, { key }]) => [name, keyFrom({ key }, facts)] as const)
  return Object.fromEntries(keys.filter(([, key]) => key !== undefined))
}

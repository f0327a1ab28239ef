import type { LimitDecorator, Rule } from '../plugin/index.js'
import { type FactValues, isAlone, keyFrom, reads } from './facts.js'

/** What the key of a rule reads when it counts by recipient: of messages, or of codes that are tried. */
const MESSAGES = 'request.recipient.identity'
const TRIES = 'request.captcha.identity'
/** What the key of a rule reads when it counts messages to phone numbers in a row. */
const RANGES = ['request.numberRange', 'request.numberBlock']

/**
 * Lets recipients that the operator allows pass a rule that counts by the recipient alone, or by its range or block of
 * numbers.
 */
export function passAllowed(rule: Rule): Rule {
  const { key, lock, allow } = rule
  const counts = [MESSAGES, ...RANGES].some(path => isAlone(key, path))
  if (lock !== undefined || allow !== undefined || !counts) return rule
  // Not for concealed requests: the allowance would show, since others are refused.
  return { ...rule, allow: request => request.standing === 'allowed' && !request.concealed }
}

/** Whether `passAllowed` has changed a rule. */
export function passesAllowed({ allow }: Rule): boolean {
  // A policy is JSON, so the only function is that of `passAllowed`.
  return typeof allow === 'function'
}

/**
 * The keys, by the name of their rule, under which the counts of a recipient can be forgotten: of rules that count by
 * the recipient, alone or together with other known facts. Locks are left out.
 */
export function recipientKeys(rules: LimitDecorator['rules'], facts: FactValues) {
  const keys = Object.entries(rules)
    .filter(([, { key, lock }]) => lock === undefined && (reads(key, MESSAGES) || reads(key, TRIES)))
    .map(([name, { key }]) => [name, keyFrom({ key }, facts)] as const)
  return Object.fromEntries(keys.filter(([, key]) => key !== undefined))
}

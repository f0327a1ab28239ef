import type { DecisionEvent, Limit, Rule } from '../../plugin/index.js'
import { isAlone } from '../facts.js'

/** The rule of the policy that holds an account to its quota. */
export const QUOTA = 'account'

/** The rule of the policy that holds all accounts together to a quota. */
export const SERVICE = 'service'

/** Whether a rule counts by the account alone: otherwise no single count is the account's. */
export const countsByAccount = (rule: Rule | undefined): rule is Rule =>
  isAlone(rule?.key, 'request.account.id')

/** Whether a rule has one count for everybody. */
export const countsAll = (rule: Rule | undefined): rule is Rule => [rule?.key].flat().join() === 'all'

/** A rule's limits in the order in which the plugin reports what is left of them: calendar limits last. */
export function calendarLast(limits: readonly Limit[] = []): Limit[] {
  return [...limits.filter(({ per }) => !per), ...limits.filter(({ per }) => per)]
}

/** What a decision tells of a rule's calendar limits; an empty list if the rule took no part in it. */
export function periodsOf({ rules }: DecisionEvent, rule: Rule) {
  const limits = calendarLast(rule.limits)
  const states = rules.find(({ name }) => name === rule.name)?.limits ?? []
  return states.flatMap(({ max, remaining, resetMs }, i) => {
    const limit = limits[i]
    if (limit?.per === undefined) return []
    return [{ per: limit.per, used: max - remaining, max, resetMs }]
  })
}

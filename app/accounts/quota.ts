import type { DecisionEvent, Limit, Rule } from '../../plugin/index.js'

/** The rule of the policy that holds an account to its quota. */
export const QUOTA = 'account'

/** The rule of the policy that holds all accounts together to a quota. */
export const SERVICE = 'service'

/** A rule's limits in the order in which the plugin reports what is left of them: calendar limits last. */
export function calendarLast(limits: readonly Limit[] = []): Limit[] {
  return [...limits.filter(({ per }) => !per), ...limits.filter(({ per }) => per)]
}

/** What a decision tells of a rule's calendar limits; an empty list if the rule took no part in it. */
export function periodsOf({ rules }: DecisionEvent, rule: Rule | undefined) {
  const limits = calendarLast(rule?.limits)
  const states = rules.find(({ name }) => name === rule?.name)?.limits ?? []
  return states.flatMap(({ max, remaining, resetMs }, i) => {
    const limit = limits[i]
    if (limit?.per === undefined) return []
    return [{ per: limit.per, used: max - remaining, max, resetMs }]
  })
}

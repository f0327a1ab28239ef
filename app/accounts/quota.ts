import type { FastifyRequest } from 'fastify'
import type { DecisionEvent, Limit, LimitDecorator, Rule } from '../../plugin/index.js'
import { amountOf } from '../audit/cost.js'
import { isAlone } from '../facts.js'

/** The rule of the policy that holds an account to its quota. */
export const QUOTA = 'account'

/** The rule of the policy that holds the messages to a country to a quota. */
const COUNTRY = 'country'

/** The rule of the policy that holds all accounts together to a quota. */
const SERVICE = 'service'

/** The rule of the policy that holds what all messages cost to a budget. */
const BUDGET = 'budget'

/** Whether a rule counts by the account alone: otherwise no single count is the account's. */
const countsByAccount = (rule: Rule | undefined): rule is Rule => isAlone(rule?.key, 'request.account.id')

/** Whether a rule has one count for everybody. */
const countsAll = (rule: Rule | undefined): rule is Rule => [rule?.key].flat().join() === 'all'

/** Whose quota or budget it is: that of all together, if it names nobody. */
export interface Whose {
  account?: string
  country?: string
  /** Of a budget: the currency in which it is. */
  currency?: string
}

/** The rules that hold a request to quotas or a budget, and whose these are. */
export function quotasOf(rules: LimitDecorator['rules'], request: FastifyRequest | null): [Rule, Whose][] {
  const { [QUOTA]: quota, [COUNTRY]: ofCountry, [SERVICE]: service, [BUDGET]: budget } = rules
  const found: [Rule, Whose][] = []
  const account = request?.account?.id
  if (account !== undefined && countsByAccount(quota)) found.push([quota, { account }])
  if (ofCountry !== undefined && isAlone(ofCountry.key, 'request.limitedCountry')) {
    const country = request?.limitedCountry
    if (typeof country === 'string') found.push([ofCountry, { country }])
  }
  if (countsAll(service)) found.push([service, {}])
  const currency = request?.price?.currency
  if (budget && currency !== undefined && isAlone(budget.key, 'request.price.currency'))
    found.push([budget, { currency }])
  return found
}

/** A rule's limits in the order in which the plugin reports what is left of them: calendar limits last. */
export function calendarLast(limits: readonly Limit[] = []): Limit[] {
  return [...limits.filter(({ per }) => !per), ...limits.filter(({ per }) => per)]
}

/**
 * What a decision tells of a rule's calendar limits, of a budget in amounts of its currency; an empty list if the rule
 * took no part in it.
 */
export function periodsOf({ rules }: DecisionEvent, rule: Rule) {
  const limits = calendarLast(rule.limits)
  const told = rule.cost === undefined ? Number : amountOf
  const states = rules.find(({ name }) => name === rule.name)?.limits ?? []
  return states.flatMap(({ max, remaining, resetMs }, i) => {
    const limit = limits[i]
    if (limit?.per === undefined) return []
    return [{ per: limit.per, used: told(max - remaining), max: told(max), resetMs }]
  })
}

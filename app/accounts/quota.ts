import type { FastifyRequest } from 'fastify'
import type { DecisionEvent, Limit, LimitDecorator, Rule } from '../../plugin/index.js'
import { amountOf } from '../audit/cost.js'
import { factIn, pathOf } from '../facts.js'

/** The rule of the policy that holds an account to its quota. */
export const QUOTA = 'account'

/** Whose quota or budget it is: that of all together, if it names nobody. */
export interface Whose {
  account?: string
  country?: string
  currency?: string
}

/** What the key of a quota reads, if not `all` or besides it. A key that reads anything else has too many counts. */
const NAMED: Readonly<Record<string, keyof Whose>> = {
  'request.account.id': 'account',
  'request.limitedCountry': 'country',
  'request.price.currency': 'currency'
}

/** The quotas among the rules in force, and what the key of each reads. */
const known = new WeakMap<LimitDecorator['rules'], readonly (readonly [Rule, readonly string[]])[]>()

/** The rules that hold a request to quotas or budgets, and whose these are. */
export function quotasOf(rules: LimitDecorator['rules'], request: FastifyRequest | null): [Rule, Whose][] {
  let quotas = known.get(rules)
  if (quotas === undefined) {
    quotas = Object.values(rules).flatMap(rule => {
      const paths = pathsOfQuota(rule)
      return paths === undefined ? [] : [[rule, paths] as const]
    })
    known.set(rules, quotas)
  }
  return quotas.flatMap(([rule, paths]): [Rule, Whose][] => {
    const values = paths.map(path => [NAMED[path], request && factIn(request, path)] as const)
    return values.every(([, value]) => typeof value === 'string') ? [[rule, Object.fromEntries(values)]] : []
  })
}

/**
 * What the key of a rule reads that holds those whom it names to so many messages, or so much money, in a calendar
 * period; undefined for any other rule.
 */
function pathsOfQuota({ key, counts = 'sends', limits = [] }: Rule): readonly string[] | undefined {
  const paths = [key].flat().flatMap(part => (part === 'all' ? [] : pathOf(part)))
  const isQuota = counts === 'sends' && limits.some(({ per }) => per)
  return isQuota && paths.every(path => Object.hasOwn(NAMED, path)) ? paths : undefined
}

/** Whether what a rule counts is money. */
export function isBudget({ cost }: Rule): boolean {
  return typeof cost === 'object' && cost.value === 'request.price.units'
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
  const told = isBudget(rule) ? amountOf : Number
  const states = rules.find(({ name }) => name === rule.name)?.limits ?? []
  return states.flatMap(({ max, remaining, resetMs }, i) => {
    const limit = limits[i]
    if (limit?.per === undefined) return []
    return [{ per: limit.per, used: told(max - remaining), max: told(max), resetMs }]
  })
}

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Gauge } from 'prom-client'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import { isBudget, periodsOf, quotasOf, type Whose } from './quota.js'

export interface QuotaGauges {
  /** For `onDecision`. */
  note(event: DecisionEvent, request: FastifyRequest | null): void
  /** Forgets all values, since accounts and limits may no longer be in force. */
  clear(): void
}

interface Known {
  labels: Whose & { rule: string; per: string }
  of: 'messages' | 'money'
  used: number
  max: number
  ends: Instant
}

/**
 * Gauges of what is used of each quota and budget. They show what the last decision of this instance has told, which
 * costs Redis nothing. A value disappears at the end of its period, since nothing is known of the next one.
 */
export function quotaGaugesOf(fastify: FastifyInstance, clock: Clock): QuotaGauges {
  const known = new Map<string, Known>()

  // prom-client serializes `sharedLabels` once for all values of a gauge: those of thousands of accounts take long.
  const valuesOf = (what: 'used' | 'max', of: Known['of']) =>
    [...known.values()]
      .filter(each => each.of === of && msUntil(each.ends, clock) > 0)
      .map(({ labels, [what]: value }) => ({ labels, sharedLabels: labels, value }))
  const show = (name: string, help: string, what: 'used' | 'max', of: Known['of']) => {
    const labelNames = ['rule', 'account', 'country', 'currency', 'per'] as const
    const gauge = new Gauge({ name, help, labelNames, registers: [fastify.metrics.registry] })
    const get = gauge.get.bind(gauge)
    gauge.get = async () => ({ ...(await get()), values: valuesOf(what, of) })
  }
  show('quota_used_messages', 'What is used of quotas, as last seen.', 'used', 'messages')
  show('quota_max_messages', 'How many messages quotas have, as last seen.', 'max', 'messages')
  show('budget_used', 'What is used of budgets, in their currency, as last seen.', 'used', 'money')
  show('budget_max', 'How much budgets have, in their currency, as last seen.', 'max', 'money')

  function see(event: DecisionEvent, rule: Rule, whose: Whose): void {
    for (const { per, used, max, resetMs } of periodsOf(event, rule)) {
      const named = { rule: rule.name, ...whose, per }
      const name = Object.values(named).join(' ')
      const labels = known.get(name)?.labels ?? named
      const of = isBudget(rule) ? 'money' : 'messages'
      known.set(name, { labels, of, used, max, ends: instantIn(resetMs, clock) })
    }
  }

  return {
    note(event, request) {
      const { rules } = fastify.limit
      // Decided by rules that are gone.
      if (request !== null && request.limitRules !== rules) return
      for (const [rule, whose] of quotasOf(rules, request)) {
        // A request that began before a reload may be of an account that is gone.
        if (whose.account === undefined || fastify.accounts.has(whose.account)) see(event, rule, whose)
      }
    },
    clear: () => known.clear()
  }
}

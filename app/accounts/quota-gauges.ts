import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Gauge } from 'prom-client'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import { periodsOf, quotasOf, type Whose } from './quota.js'

export interface QuotaGauges {
  /** For `onDecision`. */
  note(event: DecisionEvent, request: FastifyRequest | null): void
  /** Forgets all values, since accounts and limits may no longer be in force. */
  clear(): void
}

const LABELS = {
  messages: ['rule', 'account', 'country', 'per'],
  money: ['rule', 'currency', 'per']
} as const

interface Known {
  labels: Whose & { rule: string; per: string }
  used: number
  max: number
  ends: Instant
}

/**
 * Gauges of what is used of each quota, of an account, of a country, of all accounts together, and of the budget. They
 * show what the last decision of this instance has told, which costs Redis nothing. A value disappears at the end of its
 * period, since nothing is known of the next one.
 */
export function quotaGaugesOf(fastify: FastifyInstance, clock: Clock): QuotaGauges {
  const known = new Map<string, Known>()

  // prom-client serializes `sharedLabels` once for all values of a gauge: those of thousands of accounts take long.
  const valuesOf = (what: 'used' | 'max', of: keyof typeof LABELS) =>
    [...known.values()]
      .filter(({ ends }) => msUntil(ends, clock) > 0)
      .filter(({ labels }) => (labels.currency === undefined ? 'messages' : 'money') === of)
      .map(({ labels, [what]: value }) => ({ labels, sharedLabels: labels, value }))
  const show = (name: string, help: string, what: 'used' | 'max', of: keyof typeof LABELS) => {
    const labelNames: (keyof Known['labels'])[] = [...LABELS[of]]
    const gauge = new Gauge({ name, help, labelNames, registers: [fastify.metrics.registry] })
    const get = gauge.get.bind(gauge)
    gauge.get = async () => ({ ...(await get()), values: valuesOf(what, of) })
  }
  show('quota_used_messages', 'What is used of quotas, as last seen.', 'used', 'messages')
  show('quota_max_messages', 'How many messages quotas have, as last seen.', 'max', 'messages')
  show('budget_used', 'What is used of the budget, in its currency, as last seen.', 'used', 'money')
  show('budget_max', 'The budget, in its currency, as last seen.', 'max', 'money')

  function see(event: DecisionEvent, rule: Rule, whose: Whose): void {
    for (const { per, used, max, resetMs } of periodsOf(event, rule)) {
      const named = { rule: rule.name, ...whose, per }
      const name = Object.values(named).join(' ')
      const labels = known.get(name)?.labels ?? named
      known.set(name, { labels, used, max, ends: instantIn(resetMs, clock) })
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

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter } from 'prom-client'
import type { DecisionEvent } from '../../plugin/index.js'
import type { Clock } from '../clock.js'

export type SoftMark = (event: DecisionEvent, request: FastifyRequest | null) => void

/** The rule of the policy that holds an account to its quota. */
const RULE = 'account'
const SHARE = 0.8

/**
 * Reports, once a period, the send that brings an account to 80 % of its quota: in the log, the audit trail and the
 * metrics. On several instances with one Redis one of them reports, as each send is counted once.
 */
export function softMarkOf(fastify: FastifyInstance, clock: Clock): SoftMark {
  const marks = new Counter({
    name: 'quota_soft_marks_total',
    help: 'Quotas of which 80 % were used.',
    labelNames: ['account'],
    registers: [fastify.metrics.registry]
  })
  // The end of the period that was reported last, by account and limit: no more than these.
  const reported = new Map<string, number>()

  return (event, request) => {
    const account = request?.account?.id
    const state = event.rules.find(({ name }) => name === RULE)
    if (!event.allowed || account === undefined || state === undefined) return
    const limits = fastify.limit.rules[RULE]?.limits ?? []
    // Calendar limits come last in a state.
    const calendar = state.limits.slice(limits.filter(limit => !('per' in limit)).length)
    for (const [i, { max, remaining, resetMs }] of calendar.entries()) {
      const used = max - remaining
      if (used !== Math.ceil(max * SHARE)) continue
      const now = clock.wall()
      // After a refund the same number comes again.
      const mark = `${account}:${i}`
      if ((reported.get(mark) ?? 0) > now) continue
      reported.set(mark, now + resetMs)
      marks.inc({ account })
      fastify.log.warn({ quota: { account, used, max } }, '80 % of the quota are used')
      fastify.audit({ event: 'quota', outcome: 'soft-mark', account, rules: [RULE], used, max }, request)
    }
  }
}

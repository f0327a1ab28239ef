import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter } from 'prom-client'
import type { DecisionEvent } from '../../plugin/index.js'
import { answered } from '../answered.js'
import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import { periodsOf, QUOTA, SERVICE } from './quota.js'

type Asked = FastifyRequest | null
export type SoftMark = (event: DecisionEvent, request: Asked) => void

const SHARE = 0.8

/**
 * Reports, once a period and quota, the send that brings an account, or all of them together, to 80 % of it: in the log,
 * the audit trail and the metrics. Of several instances with one Redis the first that sees it reports; each asks once a
 * period.
 * @param timeoutMs how long Redis is waited for
 */
export function softMarkOf(fastify: FastifyInstance, clock: Clock, timeoutMs: number): SoftMark {
  const marks = new Counter({
    name: 'quota_soft_marks_total',
    help: 'Quotas of which 80 % were used.',
    labelNames: ['rule', 'account'],
    registers: [fastify.metrics.registry]
  })
  // By account, kind of period and quota, which are few: when the last period seen ends.
  const seen = new Map<string, Instant>()
  // Rather twice than never, where Redis does not answer.
  const isFirst = async (mark: string, ms: number): Promise<boolean> => {
    if (!fastify.hasDecorator('redis')) return true
    const claim = fastify.redis.set(`quota:{${mark}}:soft-mark`, '1', 'PX', Math.max(ms, 1), 'NX')
    return answered(claim, timeoutMs, () => new Error('not known')).then(
      set => set !== null,
      () => true
    )
  }

  const report = (rule: string, account: string | undefined, event: DecisionEvent, request: Asked) => {
    for (const { per, used, max, resetMs } of periodsOf(event, fastify.limit.rules[rule])) {
      // The answer to that very send may have been lost.
      if (used < max * SHARE) continue
      // No account has an empty id.
      const mark = `${account ?? ''}:${per}:${max}`
      const last = seen.get(mark)
      if (last !== undefined && msUntil(last, clock) > 0) continue
      seen.set(mark, instantIn(resetMs, clock))
      const whose = { ...(account !== undefined && { account }) }
      void isFirst(mark, resetMs).then(first => {
        if (!first) return
        marks.inc({ rule, ...whose })
        fastify.log.warn({ quota: { rule, ...whose, used, max } }, '80 % of the quota are used')
        fastify.audit({ event: 'quota', outcome: 'soft-mark', ...whose, rules: [rule], used, max }, request)
      })
    }
  }

  return (event, request) => {
    if (!event.allowed) return
    const account = request?.account?.id
    if (account !== undefined) report(QUOTA, account, event, request)
    // It is everybody's, so of whoever brought it there nothing is told.
    report(SERVICE, undefined, event, null)
  }
}

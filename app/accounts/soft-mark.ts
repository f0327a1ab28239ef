import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter } from 'prom-client'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { type Clock, type Instant, instantIn, msUntil } from '../clock.js'
import { withTimeout } from '../with-timeout.js'
import { periodsOf, quotasOf, type Whose } from './quota.js'

type Asked = FastifyRequest | null
export type SoftMark = (event: DecisionEvent, request: Asked) => void

const SHARE = 0.8

/**
 * Reports the send that brings a quota or budget to 80 %, once for each of these and each period: in the log, the audit
 * trail and the metrics. Of several instances on one Redis, the first that sees it reports; each asks Redis once a
 * period.
 * @param timeoutMs how long to wait for Redis
 */
export function softMarkOf(fastify: FastifyInstance, clock: Clock, timeoutMs: number): SoftMark {
  const marks = new Counter({
    name: 'quota_soft_marks_total',
    help: 'Quotas of which 80 % were used.',
    labelNames: ['rule', 'account', 'country', 'currency'],
    registers: [fastify.metrics.registry]
  })
  // When the last period seen ends, by whose quota, kind of period and quota; these are few.
  const seen = new Map<string, Instant>()
  // While Redis does not answer, reports rather twice than never.
  const isFirst = async (mark: string, ms: number): Promise<boolean> => {
    if (!fastify.hasDecorator('redis')) return true
    const claim = fastify.redis.set(`quota:{${mark}}:soft-mark`, '1', 'PX', Math.max(ms, 1), 'NX')
    return withTimeout(claim, timeoutMs, () => new Error('not known')).then(
      set => set !== null,
      () => true
    )
  }

  const report = (of: Rule, whose: Whose, event: DecisionEvent, request: Asked) => {
    const { name: rule } = of
    for (const { per, used, max, resetMs } of periodsOf(event, of)) {
      // At or above, since the answer to the very send that reached the mark may have been lost.
      if (used < max * SHARE) continue
      const mark = [rule, ...Object.values(whose), per, max].join(':')
      const last = seen.get(mark)
      if (last !== undefined && msUntil(last, clock) > 0) continue
      seen.set(mark, instantIn(resetMs, clock))
      const reported = isFirst(mark, resetMs).then(first => {
        if (!first) return
        marks.inc({ rule, ...whose })
        fastify.log.warn({ quota: { rule, ...whose, used, max } }, '80 % of the quota are used')
        fastify.audit({ event: 'quota', outcome: 'soft-mark', ...whose, rules: [rule], used, max }, request)
      })
      // The trail closes after it: no other instance would report.
      void fastify.afterwards(reported)
    }
  }

  return (event, request) => {
    if (!event.allowed) return
    const rules = request?.limitRules ?? fastify.limit.rules
    // Of a quota that others use, too, the report does not name the one who reached the mark: it gets no request.
    for (const [rule, whose] of quotasOf(rules, request))
      report(rule, whose, event, whose.account === undefined ? null : request)
  }
}

import type { FastifyRequest } from 'fastify'
import type { DecisionEvent } from '../../plugin/index.js'
import type { AuditFact } from './event.js'

/** A refusal as the audit trail tells it. */
export function refusalOf(event: DecisionEvent, request: FastifyRequest | null): AuditFact {
  const { stage, refusal, retryAfterMs, violated } = event
  return {
    event: 'refusal',
    stage,
    outcome: refusal ?? 'exceeded',
    rules: [...new Set(violated.map(({ rule }) => rule))],
    retryAfterMs,
    ...(request?.purpose && { purpose: request.purpose }),
    ...(request?.message && { template: request.message.template })
  }
}

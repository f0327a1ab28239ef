import type { FastifyRequest } from 'fastify'
import type { DecisionEvent } from '../../plugin/index.js'
import type { AuditFact } from './event.js'

/** A refusal as the audit trail tells it. */
export function refusalOf(event: DecisionEvent, request: FastifyRequest | null): AuditFact {
  const { stage, refusal, retryAfterMs, violated } = event
  const purpose = request?.purpose ?? request?.captcha?.purpose
  return {
    event: 'refusal',
    stage,
    outcome: refusal ?? 'exceeded',
    rules: [...new Set(violated.map(({ rule }) => rule))],
    retryAfterMs,
    ...(purpose && { purpose }),
    ...(request?.message && { template: request.message.template })
  }
}

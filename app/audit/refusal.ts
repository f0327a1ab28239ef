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
    ...aboutOf(request)
  }
}

/** A recipient whose country the policy does not serve, as the audit trail tells it. */
export function notServed(request: FastifyRequest): AuditFact {
  return {
    event: 'refusal',
    stage: 'sends',
    outcome: 'not-served',
    rules: ['countries'],
    retryAfterMs: null,
    ...aboutOf(request)
  }
}

/** What was to be sent. */
function aboutOf(request: FastifyRequest | null) {
  const purpose = request?.purpose ?? request?.captcha?.purpose
  return {
    ...(purpose && { purpose }),
    ...(request?.message && { template: request.message.template })
  }
}

import type { FastifyRequest } from 'fastify'
import type { DecisionEvent } from '../../plugin/index.js'
import type { AuditFact } from './event.js'

/** The event of the audit trail for a refusal. */
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

/** The event of the audit trail for a recipient whose country the policy does not serve. */
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

/** The members that say what was to be sent. */
function aboutOf(request: FastifyRequest | null) {
  const purpose = request?.purpose ?? request?.captcha?.purpose
  return {
    ...(purpose && { purpose }),
    ...(request?.message && { template: request.message.template })
  }
}

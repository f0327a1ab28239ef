import type { FastifyRequest } from 'fastify'
import type { Decision } from '../plugin/index.js'
import { msUntil } from './clock.js'
import { problem } from './problem.js'
import { checkLock, undeliveredOf } from './senders/deliver.js'

/**
 * Sends the request's message and tells the audit trail what became of it. Where it is withheld, or the recipient blocked,
 * nothing is sent: that this is asked for at all means that the answer conceals it.
 * @returns the sender that took it; `''`: none
 * @throws a problem that says why the message could not be sent
 */
export async function dispatch(request: FastifyRequest, decision: Decision | null): Promise<string> {
  const { server, standing, withheld, purpose } = request
  const { message, fact } = sendOf(request)
  if (withheld || standing === 'blocked') {
    const why = withheld ? { code: 'WITHHELD' } : {}
    server.audit({ ...fact, ...why, sender: 'none', outcome: 'suppressed' }, request)
    return ''
  }
  const began = server.clock.monotonic()
  const latencyMs = () => Math.round(server.clock.monotonic() - began)
  try {
    checkLease(request)
    const receipt = await server.deliver(message, decision, request.log)
    if (purpose !== null) server.metrics.codeSent({ ...message, purpose, sender: receipt.sender })
    server.audit({ ...fact, ...receipt, outcome: 'sent', latencyMs: latencyMs() }, request)
    return receipt.sender
  } catch (error) {
    tellFailure(error, request, latencyMs())
    throw error
  }
}

/**
 * For a message that is sent behind its answer, where nothing is held any more: whether it may be sent is asked before.
 * @throws a problem (503)
 */
export function checkHeld(request: FastifyRequest, decision: Decision | null): void {
  try {
    checkLease(request)
    checkLock(decision)
  } catch (error) {
    tellFailure(error, request, 0)
    throw error
  }
}

function tellFailure(error: unknown, request: FastifyRequest, latencyMs: number): void {
  const { outcome, sender, code } = undeliveredOf(error)
  const why = code === undefined ? {} : { code }
  request.server.audit({ ...sendOf(request).fact, sender, outcome, ...why, latencyMs }, request)
}

/** The request's message, and what the audit trail says of it, whatever becomes of it. */
function sendOf({ message, purpose }: FastifyRequest) {
  if (message === null) throw new Error('there is no message to send')
  const { template, segments } = message
  const fact = {
    event: 'send' as const,
    template,
    ...(segments !== undefined && { segments }),
    ...(purpose !== null && { purpose })
  }
  return { message, fact }
}

/** A process that stood still for long may have lost the key, and somebody else may be sending. @throws a problem (503) */
function checkLease({ server, idempotency }: FastifyRequest): void {
  if (!idempotency || msUntil(idempotency.until, server.clock) > 0) return
  const detail = 'The message was not sent, since its Idempotency-Key was lost, and was not counted.'
  throw problem(503, 'IDEMPOTENCY_KEY_LOST', detail)
}

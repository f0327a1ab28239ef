import type { FastifyRequest } from 'fastify'
import type { Decision } from '../plugin/index.js'
import { msUntil } from './clock.js'
import { problem } from './problem.js'
import { checkLock, undeliveredOf } from './senders/deliver.js'

/**
 * Sends the message of a request and records the outcome in the audit trail. When the message is withheld or the
 * recipient blocked, nothing is sent. Such a request gets this far only if its answer conceals that.
 * @returns the sender that took the message; `''` when nothing was sent
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
  checkBefore(request, () => checkLease(request))
  const began = server.clock.monotonic()
  const latencyMs = () => Math.round(server.clock.monotonic() - began)
  try {
    const delivered = await server.deliver(message, decision, request.log)
    if (purpose !== null) server.metrics.codeSent({ ...message, purpose, sender: delivered.sender })
    server.audit({ ...fact, ...delivered, outcome: 'sent', latencyMs: latencyMs() }, request)
    return delivered.sender
  } catch (error) {
    tellFailure(error, request, latencyMs())
    throw error
  }
}

/**
 * Checks that a request still holds its `Idempotency-Key` and lock. For a message that is sent after its answer, when
 * neither is held any more: the check comes before the answer.
 * @throws a problem (503)
 */
export function checkHeld(request: FastifyRequest, decision: Decision | null): void {
  checkBefore(request, () => {
    checkLease(request)
    checkLock(decision)
  })
}

/** Runs a check before any sender is asked. A failure is counted and recorded like that of a sender. */
function checkBefore(request: FastifyRequest, check: () => void): void {
  try {
    check()
  } catch (error) {
    const { outcome, sender } = undeliveredOf(error)
    request.server.metrics.sent({ channel: sendOf(request).message.channel, sender, outcome }, 0)
    tellFailure(error, request, 0)
    throw error
  }
}

function tellFailure(error: unknown, request: FastifyRequest, latencyMs: number): void {
  const { outcome, sender, code } = undeliveredOf(error)
  const why = code === undefined ? {} : { code }
  request.server.audit({ ...sendOf(request).fact, sender, outcome, ...why, latencyMs }, request)
}

/** The message of a request, and the members of its audit event that do not depend on the outcome. */
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

/**
 * Checks that the lease of the `Idempotency-Key` still runs. A process that stood still for long may have lost the key,
 * and another request may be sending.
 * @throws a problem (503)
 */
function checkLease({ server, idempotency }: FastifyRequest): void {
  if (!idempotency || msUntil(idempotency.until, server.clock) > 0) return
  const detail = 'The message was not sent, since its Idempotency-Key was lost, and was not counted.'
  throw problem(503, 'IDEMPOTENCY_KEY_LOST', detail)
}

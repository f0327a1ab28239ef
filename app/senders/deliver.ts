import type { Decision } from '../../plugin/index.js'
import { type ProblemError, problem } from '../problem.js'
import {
  type Message,
  type Receipt,
  SendError,
  type Sender,
  sendErrorOf,
  type Undelivered
} from './sender.js'

/** What an error of `deliver` says of the message; before any other error it surely was not sent. */
export function undeliveredOf(error: unknown): Undelivered {
  return (error as { undelivered?: Undelivered }).undelivered ?? sendErrorOf(error, 'none')
}

/** Somebody else may be sending, and nothing has left here. @throws a problem (503) when the lock is lost */
export function checkLock(decision: Decision | null): void {
  if (!decision?.signal.aborted) return
  const undelivered = sendErrorOf(new SendError('failed', { code: 'LOCK_LOST' }), 'none')
  const detail = 'The message was not sent, since its lock was lost, and was not counted.'
  throw Object.assign(problem(503, 'LOCK_LOST', detail), { undelivered })
}

/**
 * Hands a message over and waits for the sender, but no longer than `timeoutMs` milliseconds, nor after the
 * reservation has lost its lock. What may have gone out keeps its slot; what surely has not is given back when the
 * handler ends with the problem.
 * @throws a problem, of which `undeliveredOf` tells more
 */
export async function deliver(
  sender: Sender,
  message: Message,
  decision: Decision | null,
  timeoutMs: number
): Promise<Receipt> {
  // An abort of before is not told again.
  checkLock(decision)
  const waiting = new AbortController()
  let giveUp = (_error: SendError) => {}
  const givenUp = new Promise<never>((_, reject) => (giveUp = reject))
  const stop = (code: string) => {
    const error = new SendError('unknown', { code })
    waiting.abort(error)
    // What the sender itself says to the abort comes first: it may know that nothing has left.
    setImmediate(giveUp, error)
  }
  const lose = () => stop('LOCK_LOST')
  const timer = setTimeout(stop, timeoutMs, 'TIMED_OUT')
  decision?.signal.addEventListener('abort', lose)
  try {
    const { sender: by, reference } = await Promise.race([sender.send(message, waiting.signal), givenUp])
    return { sender: by, ...(isReference(reference, message) && { reference }) }
  } catch (thrown) {
    const undelivered = sendErrorOf(thrown, sender.name)
    if (undelivered.outcome === 'unknown') decision?.keep()
    throw Object.assign(problemOf(undelivered, message), { undelivered })
  } finally {
    clearTimeout(timer)
    decision?.signal.removeEventListener('abort', lose)
  }
}

/** Whether it is a name as providers give messages, in which the recipient's address does not stand. */
function isReference(text: unknown, { to }: Message): text is string {
  const [number = to] = /\d{7}$/.exec(to) ?? []
  return typeof text === 'string' && /^[!-~]{1,128}$/.test(text) && !text.includes(number)
}

function problemOf({ outcome, code, retryAfterMs }: SendError, { channel }: Message): ProblemError {
  /** Says when to come again, where that is known. */
  const later = (each: ProblemError): ProblemError => {
    if (retryAfterMs === undefined) return each
    each.problem.retryAfterMs = retryAfterMs
    return Object.assign(each, { headers: { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) } })
  }
  if (outcome === 'limited') {
    const detail = 'The provider accepts no more messages for now; this one was not counted.'
    return later(problem(429, 'SEND_LIMITED', detail))
  }
  if (outcome === 'refused') {
    const detail = 'The provider refused this recipient; the message was not counted.'
    return problem(422, 'RECIPIENT_REFUSED', detail)
  }
  if (outcome === 'unknown')
    return problem(504, 'SEND_UNKNOWN', 'It is not known whether the message was sent; it was counted.')
  if (code === 'NO_SENDER')
    return problem(503, 'NO_SENDER', 'No sender for {channel} is configured.', { channel })
  if (code === 'BREAKER_OPEN') {
    const detail = 'No provider can be reached now; the message was not counted.'
    return later(problem(503, 'SEND_UNAVAILABLE', detail))
  }
  return problem(502, 'SEND_FAILED', 'The message could not be sent, and was not counted.')
}

import type { Decision } from '../../plugin/index.js'
import { type ProblemError, problem } from '../problem.js'
import {
  type Delivered,
  type Message,
  SendError,
  type Sender,
  sendErrorOf,
  type Undelivered
} from './sender.js'

/** What an error of `deliver` says of the message. Any other error means that the message surely was not sent. */
export function undeliveredOf(error: unknown): Undelivered {
  return (error as { undelivered?: Undelivered }).undelivered ?? sendErrorOf(error, 'none')
}

/**
 * Checks, before anything is sent, that a decision has not lost its lock: otherwise another request may be sending.
 * @throws a problem (503) when the lock is lost
 */
export function checkLock(decision: Decision | null): void {
  if (!decision?.signal.aborted) return
  const undelivered = sendErrorOf(new SendError('failed', { code: 'LOCK_LOST' }), 'none')
  const detail = 'The message was not sent, since its lock was lost, and was not counted.'
  throw Object.assign(problem(503, 'LOCK_LOST', detail), { undelivered })
}

/**
 * Hands a message to the sender and waits for it, until `timeoutMs` milliseconds are over or the decision has lost its
 * lock. A message that may have been sent keeps its slot. The slot of one that surely was not sent is refunded when the
 * handler ends with the problem.
 * @throws a problem, of which `undeliveredOf` tells more
 */
export async function deliver(
  sender: Sender,
  message: Message,
  decision: Decision | null,
  timeoutMs: number
): Promise<Delivered> {
  // The signal tells of no abort that came before.
  checkLock(decision)
  const waiting = new AbortController()
  let giveUp = (_error: SendError) => {}
  const givenUp = new Promise<never>((_, reject) => (giveUp = reject))
  const stop = (code: string) => {
    const error = new SendError('unknown', { code })
    waiting.abort(error)
    // Later than the sender's own error on the abort, which may say that nothing was sent.
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

/** Whether the text can be a provider's name for a message, and does not hold the recipient's number or address. */
function isReference(text: unknown, { to }: Message): text is string {
  const [number = to] = /\d{7}$/.exec(to) ?? []
  return typeof text === 'string' && /^[!-~]{1,128}$/.test(text) && !text.includes(number)
}

function problemOf({ outcome, code, retryAfterMs }: SendError, { channel }: Message): ProblemError {
  /** Adds when to try again, if that is known. */
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

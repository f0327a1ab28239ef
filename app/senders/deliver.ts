import type { Decision } from '../../plugin/index.js'
import { type ProblemError, problem } from '../problem.js'
import { type Failing, type Message, type Receipt, SendError, type Sender, sendErrorOf } from './sender.js'

/** What is answered when a message did not go out; it may carry headers. */
export type SendProblem = ProblemError & { headers?: Record<string, string> }

/** What became of a message that is not known to have gone out. */
export interface Undelivered {
  outcome: Failing
  sender: string
  code: string | undefined
  /** As in SendError. */
  ofMessage: boolean
}

export type Delivery =
  | { outcome: 'sent'; receipt: Receipt }
  | (Undelivered & {
      /** What is answered. */
      problem: SendProblem
    })

/** What an error of `fastify.deliver` says of the message; undefined for any other error. */
export function undeliveredOf(error: unknown): Undelivered | undefined {
  return (error as { undelivered?: Undelivered }).undelivered
}

/**
 * Hands a message over and waits for the sender, but no longer than `timeoutMs` milliseconds, nor after the
 * reservation has lost its lock. What may have gone out keeps its slot; what surely has not is given back when the
 * handler ends with the problem.
 */
export async function deliver(
  sender: Sender,
  message: Message,
  decision: Decision | null,
  timeoutMs: number
): Promise<Delivery> {
  // An abort of before is not told again: somebody else may be sending, and nothing has left here.
  if (decision?.signal.aborted) {
    const lost = problem(
      503,
      'LOCK_LOST',
      'The message was not sent, since its lock was lost, and was not counted.'
    )
    return { outcome: 'failed', sender: sender.name, code: 'LOCK_LOST', ofMessage: false, problem: lost }
  }
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
    return {
      outcome: 'sent',
      receipt: { sender: by, ...(isReference(reference, message) && { reference }) }
    }
  } catch (thrown) {
    const error = sendErrorOf(thrown, sender.name)
    if (error.outcome === 'unknown') decision?.keep()
    const { outcome, code, ofMessage, sender: name = sender.name } = error
    return { outcome, sender: name, code, ofMessage, problem: problemOf(error, message) }
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

function problemOf({ outcome, code, retryAfterMs }: SendError, { channel }: Message): SendProblem {
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs }
  const later = (each: ProblemError): SendProblem => {
    if (retryAfterMs === undefined) return each
    return Object.assign(each, { headers: { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) } })
  }
  switch (outcome) {
    case 'limited':
      return later(
        problem(
          429,
          'SEND_LIMITED',
          'The provider accepts no more messages for now; this one was not counted.',
          wait
        )
      )
    case 'refused':
      return problem(
        422,
        'RECIPIENT_REFUSED',
        'The provider refused this recipient; the message was not counted.'
      )
    case 'unknown':
      return problem(504, 'SEND_UNKNOWN', 'It is not known whether the message was sent; it was counted.')
    case 'failed':
      if (code === 'NO_SENDER')
        return problem(503, 'NO_SENDER', 'No sender for {channel} is configured.', { channel })
      if (code !== 'BREAKER_OPEN') {
        return problem(502, 'SEND_FAILED', 'The message could not be sent, and was not counted.')
      }
      return later(
        problem(503, 'SEND_UNAVAILABLE', 'No provider can be reached now; the message was not counted.', wait)
      )
  }
}

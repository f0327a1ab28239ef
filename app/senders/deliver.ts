import type { Decision } from '../../plugin/index.js'
import { type ProblemError, problem } from '../problem.js'
import { type Message, type Sender, UnclearError } from './sender.js'

export type Delivery =
  | { outcome: 'sent' }
  | { outcome: 'failed' | 'unclear'; code: string | undefined; problem: ProblemError }

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
      'SEND_FAILED',
      'The message was not sent: its lock was lost. It does not count.'
    )
    return { outcome: 'failed', code: undefined, problem: lost }
  }
  const waiting = new AbortController()
  const stop = () => waiting.abort()
  const timer = setTimeout(stop, timeoutMs)
  decision?.signal.addEventListener('abort', stop)
  try {
    await unlessAborted(sender.send(message, waiting.signal), waiting.signal)
    return { outcome: 'sent' }
  } catch (error) {
    const { code, problem: own } = error as { code?: string; problem?: ProblemError['problem'] }
    if (own !== undefined) return { outcome: 'failed', code, problem: error as ProblemError }
    if (!waiting.signal.aborted && !(error instanceof UnclearError)) {
      return {
        outcome: 'failed',
        code,
        problem: problem(502, 'SEND_FAILED', 'The message could not be sent. It does not count.')
      }
    }
    decision?.keep()
    const detail = 'Whether the message went out is not known. It counts.'
    return { outcome: 'unclear', code, problem: problem(504, 'SEND_UNCLEAR', detail) }
  } finally {
    clearTimeout(timer)
    decision?.signal.removeEventListener('abort', stop)
  }
}

function unlessAborted(sending: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(new UnclearError('gave up waiting')), { once: true })
    sending.then(resolve, reject)
  })
}

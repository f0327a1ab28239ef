import CircuitBreaker from 'opossum'
import type { Clock } from '../clock.js'
import { type Delivered, type Message, SendError, type Sender, sendErrorOf } from './sender.js'

/** The breaker opens when more than half of at least five attempts within a minute have failed. */
const WINDOW_MS = 60_000
const ATTEMPTS = 5
/** How long an open breaker lets nothing through. After that, one message tries whether the provider is back. */
export const OPEN_MS = 30_000
/** The waiting time that other messages are told while that trial is under way. */
const TRIAL_MS = 1_000

/**
 * Puts a circuit breaker before a sender, and gives up a send when the signal aborts, whether or not the sender heeds
 * it. `limited`, `refused` and failures because of the message are answers of a working provider, and do not count.
 * @throws SendError `failed` with BREAKER_OPEN and the time until the next try, while the breaker is open
 */
export function guarded(sender: Sender, clock: Clock): Sender {
  const { name } = sender
  const send = async (message: Message, signal: AbortSignal): Promise<Delivered> => {
    try {
      return await Promise.race([sender.send(message, signal), aborted(signal)])
    } catch (thrown) {
      const error = sendErrorOf(thrown, name)
      throw signal.aborted ? new SendError(error.outcome, { sender: name, code: codeOf(signal) }) : error
    }
  }
  const breaker = new CircuitBreaker(send, {
    name,
    timeout: false,
    resetTimeout: OPEN_MS,
    rollingCountTimeout: WINDOW_MS,
    volumeThreshold: ATTEMPTS,
    rollingPercentilesEnabled: false,
    enableSnapshots: false,
    // A lost lock is no fault of the provider.
    errorFilter: ({ outcome, code, ofMessage }: SendError) =>
      outcome === 'limited' || outcome === 'refused' || ofMessage || code === 'LOCK_LOST'
  })
  let openedAt = 0
  breaker.on('open', () => (openedAt = clock.monotonic()))
  const passedOver = () => {
    const left = openedAt + OPEN_MS - clock.monotonic()
    const retryAfterMs = Math.ceil(Math.max(left, TRIAL_MS))
    return new SendError('failed', { sender: name, code: 'BREAKER_OPEN', retryAfterMs })
  }
  return {
    name,
    async send(message, signal) {
      try {
        sender.check?.(message)
      } catch (thrown) {
        throw sendErrorOf(thrown, name)
      }
      // The breaker counts what it rejects itself among all attempts, which would lower the share of failures.
      if (!breaker.closed && !breaker.pendingClose) throw passedOver()
      return breaker.fire(message, signal).catch(error => {
        throw error instanceof SendError ? error : passedOver()
      })
    },
    async close() {
      breaker.shutdown()
      await sender.close?.()
    }
  }
}

/** Rejects when the signal aborts, but after a sender that heeds the signal: its own error may say more. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const give = () => setImmediate(() => reject(new SendError('unknown')))
    signal.addEventListener('abort', give)
  })
}

/** Why deliver.ts has aborted the signal: the code of its SendError. */
const codeOf = ({ reason }: AbortSignal) => String((reason as { code?: unknown } | undefined)?.code)

import CircuitBreaker from 'opossum'
import type { Clock } from '../clock.js'
import { type Message, type Receipt, SendError, type Sender, sendErrorOf } from './sender.js'

/** Opens when more than half of what was sent within a minute failed, five attempts or more. */
const WINDOW_MS = 60_000
const ATTEMPTS = 5
/** How long an open breaker lets nothing through; then one message tries whether the provider is back. */
export const OPEN_MS = 30_000
/** While that one is under way. */
const TRIAL_MS = 1_000

/**
 * A sender that is spared while it is broken, and never takes longer than the signal.
 * `limited`, `refused` and what fails for the message's sake are answers of a provider that works.
 * @throws SendError failed, BREAKER_OPEN, with the time until the next try
 */
export function guarded(sender: Sender, clock: Clock): Sender {
  const { name } = sender
  const send = async (message: Message, signal: AbortSignal): Promise<Receipt> => {
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
    // A lock that is lost is ours.
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
      // What the breaker itself turns away counts among its messages, and so makes the share of failures smaller.
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

/** Rejects when the signal aborts. A sender that heeds the signal may know more, so it speaks first. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const give = () => setImmediate(() => reject(new SendError('unknown')))
    signal.addEventListener('abort', give, { once: true })
  })
}

/** Why nobody waits any longer, as deliver.ts says it. */
const codeOf = ({ reason }: AbortSignal) => String((reason as { code?: unknown } | undefined)?.code)

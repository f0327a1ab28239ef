import { turns } from './choice.js'
import { SendError, type Sender, sendErrorOf, type Undelivered } from './sender.js'

interface Link {
  sender: Sender
  weight: number
}

/** After these nothing has left, so another sender may try. */
const SURELY_NOT = new Set(['failed', 'limited'])

/**
 * Senders one after another: the next is tried only when the one before surely did not send. Equals of a step take
 * turns by weight.
 * @param passedOn hears why the next one is asked
 * @throws SendError of the sender that ended it. When none was left, of those that did not fail for the message's sake
 *   alone, if there are any: failed if one did, else limited if one was, with the shortest waiting time of all, else
 *   BREAKER_OPEN.
 */
export function chain(
  steps: readonly (readonly Link[])[],
  passedOn: (error: Undelivered) => void = () => {}
): Sender {
  const rounds = steps.map(turns)
  const name = steps.map(step => step.map(({ sender }) => sender.name).join('|')).join(',')
  return {
    name,
    async send(message, signal) {
      const errors: Undelivered[] = []
      for (const { sender } of rounds.flatMap(round => round())) {
        const last = errors.at(-1)
        if (last !== undefined) {
          if (signal.aborted) break
          passedOn(last)
        }
        try {
          return await sender.send(message, signal)
        } catch (thrown) {
          const error = sendErrorOf(thrown, sender.name)
          if (!SURELY_NOT.has(error.outcome)) throw error
          errors.push(error)
        }
      }
      throw summary(errors)
    },
    async close() {
      await Promise.all(steps.flat().map(({ sender }) => sender.close?.()))
    }
  }
}

function summary(all: readonly SendError[]): SendError {
  // A sender that failed for another reason may take this message once it works again.
  const others = all.filter(({ ofMessage }) => !ofMessage)
  const errors = others.length > 0 ? others : all
  const open = ({ code }: SendError) => code === 'BREAKER_OPEN'
  const failed = errors.findLast(error => error.outcome === 'failed' && !open(error))
  if (failed !== undefined) return failed
  const { sender, code, outcome } =
    errors.findLast(error => error.outcome === 'limited') ?? errors.at(-1) ?? new SendError('failed')
  const waits = errors.flatMap(({ retryAfterMs }) => retryAfterMs ?? [])
  const retryAfterMs = waits.length === 0 ? undefined : Math.min(...waits)
  return new SendError(outcome, { sender, code, retryAfterMs })
}

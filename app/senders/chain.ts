import { turns } from './choice.js'
import { SendError, type Sender, sendErrorOf, type Undelivered } from './sender.js'

interface Link {
  sender: Sender
  weight: number
}

/** Outcomes of a message that surely was not sent, so that another sender may try. */
const SURELY_NOT = new Set(['failed', 'limited'])

/**
 * Tries senders one after another: the next only when the one before surely did not send. The senders of a step take
 * turns by weight.
 * @param othersFirst whether a resend tries the sender of the message before after all others
 * @param passedOn called with the error for which the next sender is tried
 * @throws SendError of the sender after which no other may try. When none is left, failures because of the message are
 * set aside unless there are no others; then it is the last `failed` one, if any, else the last `limited` one, if any,
 * else BREAKER_OPEN. The latter two have the shortest waiting time of all.
 */
export function chain(
  steps: readonly (readonly Link[])[],
  othersFirst = true,
  passedOn: (error: Undelivered) => void = () => {}
): Sender {
  const rounds = steps.map(turns)
  const name = steps.map(step => step.map(({ sender }) => sender.name).join('|')).join(',')
  return {
    name,
    async send(message, signal) {
      const errors: Undelivered[] = []
      const former = othersFirst ? message.formerSender : undefined
      const links = rounds.flatMap(round => round())
      // Sorted stably: the others stay in their order.
      const isFormer = ({ sender }: Link) => Number(sender.name === former)
      for (const { sender } of links.sort((a, b) => isFormer(a) - isFormer(b))) {
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

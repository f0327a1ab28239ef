import { type Failing, type Message, SendError, type Sender } from '../../app/senders/sender.js'
import { gate } from '../helper/gate.js'

/** A sender that the test controls, and that remembers its messages. */
export function provider() {
  const messages: Message[] = []
  let behave: (signal: AbortSignal) => Promise<void> = async () => {}
  return {
    name: 'told',
    messages,
    async send(message: Message, signal: AbortSignal) {
      messages.push(message)
      await behave(signal)
      return { sender: 'told', reference: `message-${messages.length}` }
    },
    work() {
      behave = async () => {}
    },
    fail(outcome: Failing, details = {}) {
      behave = async () => {
        throw new SendError(outcome, { sender: 'told', ...details })
      }
    },
    does(what: typeof behave) {
      behave = what
    },
    /** Has the next message wait until `letGo` is called; `held` resolves when it waits. */
    hold() {
      const [held, onward] = [gate(), gate()]
      behave = () => {
        held.open()
        return onward.opened
      }
      return { held: held.opened, letGo: onward.open }
    },
    lastCode: () => /\d{6}/.exec(messages.at(-1)?.text ?? '')?.[0] ?? ''
  } satisfies Sender & Record<string, unknown>
}

import type { FastifyBaseLogger, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import type { Decision } from '../../plugin/index.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'
import { deliver, undeliveredOf } from '../senders/deliver.js'
import { openSenders } from '../senders/open.js'
import type { Outbox } from '../senders/outbox.js'
import type { Delivered, Failing, Message, Senders } from '../senders/sender.js'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Hands a message to its sender. A message that may have been sent keeps its slot.
     * @throws a problem, of which `undeliveredOf` tells more: 429 at the provider's limit, 422 when it refuses the
     * recipient, 502 when the message surely was not sent, 504 when that is not known, 503 without a sender that works,
     * or when the lock is lost
     * @param log the log of the request, which tells why a message was not sent
     */
    deliver(message: Message, decision: Decision | null, log: FastifyBaseLogger): Promise<Delivered>
    /** The outbox, which keeps what would have been sent; null if there is none. */
    outbox: Outbox | null
  }
}

interface Options {
  config: Config
  clock: Clock
  print: (line: string) => void
  override: Partial<Senders> | undefined
}

/** @throws ConfigError that names the variable at fault */
const senders: FastifyPluginAsync<Options> = async (fastify, { config, clock, print, override }) => {
  const opened = await openSenders(config, clock, print, (channel, { sender, outcome, code }) => {
    const counted = countedAs(outcome, code)
    fastify.metrics.passedOn({ channel, sender, outcome: counted })
    // Not logged while a breaker is open: each message would be a line.
    if (counted !== 'skipped') fastify.log.warn({ send: { channel, sender, outcome, code } }, 'passed on')
  })
  const all = { ...opened.senders, ...override }
  for (const [channel, { name }] of Object.entries(all)) {
    if (name === 'none') fastify.log.warn(`no sender for ${channel}: what needs one is answered 503`)
  }
  const underWay = new Set<Promise<unknown>>()

  async function send(
    message: Message,
    decision: Decision | null,
    log: FastifyBaseLogger
  ): Promise<Delivered> {
    const { channel } = message
    const began = clock.monotonic()
    const tookMs = () => clock.monotonic() - began
    try {
      const delivered = await deliver(all[channel], message, decision, config.SEND_TIMEOUT)
      fastify.metrics.sent({ channel, sender: delivered.sender, outcome: 'sent' }, tookMs())
      return delivered
    } catch (error) {
      const { sender, outcome, code } = undeliveredOf(error)
      fastify.metrics.sent({ channel, sender, outcome: countedAs(outcome, code) }, tookMs())
      log.warn(
        { send: { channel, sender, outcome, code } },
        outcome === 'unknown' ? 'perhaps sent' : 'not sent'
      )
      throw error
    }
  }

  fastify.decorate('outbox', opened.outbox)
  fastify.decorate('deliver', (message, decision, log) => {
    const sending = send(message, decision, log)
    underWay.add(sending)
    return sending.finally(() => underWay.delete(sending))
  })
  // Each send ends by its time-out at the latest.
  fastify.addHook('onClose', async () => {
    while (underWay.size > 0) await Promise.allSettled(underWay)
    for (const sender of new Set([...Object.values(all), ...Object.values(opened.senders)])) {
      await sender.close?.()
    }
  })
}

/** The outcome for the metrics: while the breaker was open, the provider was not asked. */
function countedAs(outcome: Failing, code: string | undefined): Failing | 'skipped' {
  return code === 'BREAKER_OPEN' ? 'skipped' : outcome
}

export default fp(senders, { name: 'senders', dependencies: ['metrics', 'limits'] })

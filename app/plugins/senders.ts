import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { Clock } from '../clock.js'
import type { Config } from '../config.js'
import { deliver } from '../senders/deliver.js'
import { openSenders } from '../senders/open.js'
import type { Outbox } from '../senders/outbox.js'
import type { Message, Senders } from '../senders/sender.js'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Hands a message to its sender and settles the reservation of this reply by what becomes of it.
     * @throws a problem: 502 when the message surely did not go, 504 when that is unclear, 503 without a sender
     */
    deliver(message: Message, reply: FastifyReply): Promise<void>
    /** What would have been sent, where that is kept. */
    outbox: Outbox | null
  }
}

interface Options {
  config: Config
  clock: Clock
  print: (line: string) => void
  override: Partial<Senders> | undefined
}

const senders: FastifyPluginAsync<Options> = async (fastify, { config, clock, print, override }) => {
  const opened = openSenders(config, clock, print)
  const all = { ...opened.senders, ...override }
  for (const [channel, { name }] of Object.entries(all)) {
    if (name === 'none') fastify.log.warn(`no sender for ${channel}: what needs one is answered 503`)
  }
  fastify.decorate('outbox', opened.outbox)
  fastify.decorate('deliver', async (message: Message, reply: FastifyReply) => {
    const { channel } = message
    const sender = all[channel]
    const told = await deliver(sender, message, reply.limit, config.SEND_TIMEOUT)
    fastify.metrics.sent({ channel, sender: sender.name, outcome: told.outcome })
    if (told.outcome === 'sent') return
    reply.log.warn(
      { send: { channel, sender: sender.name, outcome: told.outcome, code: told.code } },
      'not sent'
    )
    throw told.problem
  })
}

export default fp(senders, { name: 'senders', dependencies: ['metrics', 'limits'] })

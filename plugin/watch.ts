import type { FastifyReply } from 'fastify'
import { isHandlerTimeout } from './outcome.js'

/** Sees whether somebody else answers a request while the limits decide, until its end. */
export class Watch {
  private readonly send: FastifyReply['send']
  private answered = false

  constructor(private readonly reply: FastifyReply) {
    const { send } = reply
    this.send = send
    // To Fastify a reply is not sent before its hooks have ended, or its stream.
    reply.send = payload => {
      this.answered = true
      return send.call(reply, payload)
    }
  }

  /** Whether it was answered meanwhile, or Fastify's `handlerTimeout` is over and an error handler has yet to answer. */
  get over(): boolean {
    const { sent, request } = this.reply
    const { handlerTimeout } = request.routeOptions
    return this.answered || sent || (handlerTimeout > 0 && isHandlerTimeout(request.signal.reason))
  }

  /** @returns whether it is over */
  end(): boolean {
    this.reply.send = this.send
    return this.over
  }
}

import type { FastifyReply } from 'fastify'
import { isHandlerTimeout } from './outcome.js'

/** Watches whether something else answers a request while the limits decide, until `end` is called. */
export class Watch {
  private readonly send: FastifyReply['send']
  private answered = false

  constructor(private readonly reply: FastifyReply) {
    const { send } = reply
    this.send = send
    // Fastify's `reply.sent` is true only after the reply's hooks, or its stream, have ended. So calls of `send` are
    // noted.
    reply.send = payload => {
      this.answered = true
      return send.call(reply, payload)
    }
  }

  /**
   * Whether the request was answered meanwhile, or its `handlerTimeout` is over and an error handler has yet to answer.
   */
  get over(): boolean {
    const { sent, request } = this.reply
    const { handlerTimeout } = request.routeOptions
    return this.answered || sent || (handlerTimeout > 0 && isHandlerTimeout(request.signal.reason))
  }

  /** Stops watching. @returns whether the request is over */
  end(): boolean {
    this.reply.send = this.send
    return this.over
  }
}

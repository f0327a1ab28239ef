import { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { whenCutOff } from './cut-off.js'

/** Watches the connection of a reply: whether it is gone, and whether somebody writes to the reply after that. */
export class Connection {
  gone = false
  /** Somebody has written after it was gone: Node drops that without a sign. */
  written = false

  /** @param changed called when it is gone, and at each write after that */
  constructor(
    private readonly reply: FastifyReply,
    private readonly changed: () => void
  ) {
    const { raw } = reply
    const end = () => this.end()
    // The client may have gone while the limits decided.
    if (raw.closed) end()
    else {
      raw.once('close', end)
      whenCutOff(reply, end)
    }
  }

  private end(): void {
    if (this.gone) return
    this.gone = true
    if (!this.reply.sent && !headersSent(this.reply.raw)) this.noteWrites()
    this.changed()
  }

  private noteWrites(): void {
    const { raw } = this.reply
    for (const name of ['writeHead', 'write', 'end'] as const) {
      const method = raw[name] as (...given: unknown[]) => unknown
      const write = (...given: unknown[]) => {
        this.written = true
        this.changed()
        return method.apply(raw, given)
      }
      Object.assign(raw, { [name]: write })
    }
  }
}

/** Asks Node's own getter: @fastify/express hides it behind another one, which does not notice what is written. */
export function headersSent(raw: object & { headersSent: boolean }): boolean {
  return raw instanceof ServerResponse
    ? Reflect.get(ServerResponse.prototype, 'headersSent', raw)
    : raw.headersSent
}

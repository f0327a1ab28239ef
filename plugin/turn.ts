import type { FastifyReply } from 'fastify'
import type { Decision, Outcome } from './reservation.js'
import { type Awaitable, isPromise } from './store/store.js'

/**
 * One run of a handler: finds out how the handler itself ended, whatever is made of its reply, and settles by it.
 *
 * A handler ends when its promise settles or, where it returned none, when it sends. What it answers is read at its
 * own `reply.send`, before serializers and hooks. A refund is done before the reply leaves.
 */
export class Turn {
  private readonly send: FastifyReply['send']
  private answered = false
  private ended = false
  private timedOut = false
  private callback = false
  private held: Promise<unknown> | undefined

  constructor(private readonly reply: FastifyReply, private readonly decision: Decision) {
    this.send = reply.send
    reply.send = (payload?: unknown) => this.answer(payload)
  }

  /** Runs the handler. @returns what Fastify is to make of it */
  run(handler: () => unknown): unknown {
    let result: unknown
    try {
      result = handler()
    } catch (error) {
      return this.after(this.threw(error), () => { throw error })
    }
    const later = result === undefined || result === this.reply
    if (later && !this.answered) {
      this.callback = true
      if (this.decision.locked) this.reply.raw.once('close', () => this.closed())
      return result
    }
    if (!later && isPromise(result)) {
      return result.then(
        value => this.after(this.held ?? this.returned(value), () => value),
        error => this.after(this.threw(error), () => { throw error })
      )
    }
    return this.after(this.held ?? (this.answered ? undefined : this.returned(result)), () => result)
  }

  // Stands in for reply.send while the handler runs.
  private answer(payload: unknown): FastifyReply {
    if (isHandlerTimeout(payload)) this.timedOut = true
    else if (!this.answered && !this.ended) {
      this.answered = true
      const settled = this.decision.settle(payload instanceof Error ? this.failure(payload) : this.status(this.timedOut))
      if (isPromise(settled)) {
        this.held = settled.then(() => this.deliver(payload))
        return this.reply
      }
      return this.deliver(payload)
    }
    return this.send.call(this.reply, payload)
  }

  private deliver(payload: unknown): FastifyReply {
    if (this.callback) this.end()
    return this.send.call(this.reply, payload)
  }

  private returned(value: unknown): Awaitable<void> {
    if (this.answered) return
    return this.decision.settle(value instanceof Error ? this.failure(value) : this.status(this.timedOut || this.reply.sent))
  }

  private threw(error: unknown): Awaitable<unknown> {
    if (this.held) return this.held
    // The reply that the handler returned failed on its way out: that is not the handler's doing.
    if (this.answered && error === this.reply.raw.errored) return
    return this.decision.settle(this.failure(error))
  }

  private status(foreign: boolean): Outcome {
    return foreign ? null : this.reply.statusCode
  }

  private failure(error: unknown): Outcome {
    if (brokeOff(error)) return null
    const { statusCode, status = statusCode } = (error ?? {}) as { statusCode?: unknown; status?: unknown }
    const code = Number(statusCode ?? status)
    if (code >= 400) return code
    return this.reply.statusCode >= 400 && !this.timedOut ? this.reply.statusCode : 500
  }

  // A hijacked reply of a handler without a promise: its end is the end of the connection.
  private closed(): void {
    if (this.reply.sent && !this.answered && !this.timedOut) this.end()
  }

  private after<T>(settled: Awaitable<unknown>, then: () => T): T | Promise<T> {
    if (!isPromise(settled)) {
      this.end()
      return then()
    }
    return settled.then(() => {
      this.end()
      return then()
    })
  }

  private end(): void {
    this.ended = true
    this.decision.end()
  }
}

function isHandlerTimeout(payload: unknown): boolean {
  return payload instanceof Error && (payload as { code?: unknown }).code === 'FST_ERR_HANDLER_TIMEOUT'
}

/** Whoever stopped waiting does not know whether the message left: such an end is unclear. */
function brokeOff(error: unknown): boolean {
  return error instanceof Error && (error.name === 'AbortError' || error.name === 'TimeoutError')
}

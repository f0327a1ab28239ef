import type { FastifyReply } from 'fastify'
import { type Awaitable, isPromise } from './awaitable.js'
import { Connection, headersSent } from './connection.js'
import { whenCutOff } from './cut-off.js'
import type { Decision } from './decision.js'
import { failureOf, isHandlerTimeout, type Outcome, outcomeOf } from './outcome.js'
import { handleErrors, holdBack } from './waiting-answer.js'

/**
 * One run of a handler. It finds out how the handler itself ended, whatever hooks, serializers and error handlers make
 * of its reply, and settles the decision by that.
 *
 * A handler ends when its promise settles or, if it returned none, when it sends. Its answer is read at its own
 * `reply.send`, before serializers and hooks. A refund is done before the reply leaves.
 */
export class HandlerRun {
  private readonly send: FastifyReply['send']
  /** The handler's end is known, and the decision is settled by it. */
  private answered = false
  /** Fastify's `handlerTimeout` is over. */
  private timedOut = false
  /** Watched only for a decision that holds a lock. */
  private connection: Connection | undefined
  /** The handler has taken the reply over (`reply.hijack`). */
  private hijacked = false
  /** The handler ends when it sends: it has returned nothing, or the reply, or waits for the reply. */
  private callback = false
  /** The handler has returned a promise of its own. */
  private promised = false
  /** The handler has returned or thrown. Before that, nobody knows whether it goes on after it has sent. */
  private called = false
  /** Settles when the refund for which the answer waits is done and the answer is sent. */
  private held: Promise<unknown> | undefined
  /** The error with which sending the answer failed. If the handler then throws this error, it is not its own. */
  private undelivered: unknown

  /** @param updateHeaders sets the headers that tell what is left anew, after a refund */
  constructor(
    private readonly reply: FastifyReply,
    private readonly decision: Decision,
    private readonly updateHeaders: () => void
  ) {
    const { send, then, hijack } = reply
    this.send = send
    reply.send = (payload?: unknown) => this.answer(payload)
    reply.hijack = () => {
      this.hijacked = true
      return hijack.call(reply)
    }
    // Called when the handler returns the reply from its promise, or waits for the reply.
    // biome-ignore lint/suspicious/noThenProperty: the reply is a thenable, and this is its then
    reply.then = (fulfilled, rejected) => {
      if (!this.answered && !this.timedOut) this.callback = true
      let waits = true
      // Wakes nobody while a handler without a promise has yet to send: Fastify would answer in its place.
      const wake = (waiter: () => void) => {
        if (waits && (this.promised || this.answered || this.timedOut || this.leaves)) waiter()
        waits = false
      }
      const left = () => wake(() => fulfilled?.())
      const wait = () => {
        then.call(reply, left, error => wake(() => rejected?.(error)))
        whenCutOff(reply, left)
      }
      if (this.held) void this.held.then(wait, wait)
      else wait()
    }
  }

  /** Runs the handler. @returns what Fastify is to make of it */
  run(handler: () => unknown): unknown {
    if (this.decision.locked) this.connection = new Connection(this.reply, () => this.endIfGone())
    let result: unknown
    try {
      result = handler()
      this.promised = result !== this.reply && isPromise(result)
    } catch (error) {
      return this.rejected(error)
    } finally {
      this.called = true
    }
    // Not `result.then(…)`: the `then` of a foreign thenable may return nothing.
    if (this.promised) {
      return Promise.resolve(result).then(
        value => this.resolved(value),
        error => this.rejected(error)
      )
    }
    const later = result === undefined || result === this.reply
    if (this.answered || !later) return this.ended(result)
    this.callback = true
    this.endIfGone()
    return result
  }

  private resolved(value: unknown): unknown {
    // The handler returned the reply, or waited for it, and then Fastify's time-out answered or the reply was cut off.
    // The handler itself has yet to send.
    if (this.callback && (this.timedOut || !this.leaves)) {
      this.promised = false
      this.endIfGone()
      return value
    }
    return this.ended(value)
  }

  private ended(value: unknown): unknown {
    // The answer that the handler sent may be waiting for a refund. Given `value`, Fastify would send that in its
    // place.
    return this.after(this.held ?? this.returned(value), () => (this.held ? this.reply : value))
  }

  private rejected(error: unknown): unknown {
    return this.after(this.threw(error), () => {
      if (this.held === undefined || this.undelivered === undefined) throw error
      // The answer that the handler sent before cannot leave, and the error of that is already being sent.
      this.reply.log.error({ err: error }, 'the handler has thrown behind an answer that cannot be sent')
      return this.reply
    })
  }

  // Stands in for reply.send while the handler runs.
  private answer(payload: unknown): FastifyReply {
    if (isHandlerTimeout(payload)) this.timedOut = true
    // After Fastify's time-out and until the reply to it is out, an error handler sends, not the handler.
    const foreign = this.timedOut && !this.reply.sent
    if (foreign || this.answered) return this.pass(payload)
    this.answered = true
    const settled = this.decision.settle(this.outcome(payload, this.timedOut))
    // A handler that awaits the reply may go on, and cannot be told from one that returned the reply from its promise.
    // So for both, this send releases the locks and leaves the slots open to a refund.
    const ends = this.callback && this.called
    if (!isPromise(settled)) return this.deliver(payload, ends)
    if (this.endsBySending) this.decision.keep()
    handleErrors(payload)
    const letGo = holdBack(this.reply)
    // An error from here on has no caller that could catch it, so it is sent.
    this.held = settled
      .then(() => {
        letGo()
        this.deliver(payload, ends)
      })
      .catch(error => {
        this.send.call(this.reply, error)
      })
    return this.reply
  }

  private deliver(payload: unknown, ends: boolean): FastifyReply {
    if (this.decision.refunded) this.updateHeaders()
    if (ends) void (this.promised ? this.decision.release() : this.decision.end())
    return this.pass(payload)
  }

  private pass(payload: unknown): FastifyReply {
    try {
      return this.send.call(this.reply, payload)
    } catch (error) {
      this.undelivered = error
      // While Fastify's `onError` hooks run, no error handler runs yet: it is the handler that has sent.
      const early = (error as { code?: string }).code === 'FST_ERR_SEND_INSIDE_ONERR'
      if (early && this.endsBySending) this.decision.end()
      throw error
    }
  }

  private returned(value: unknown): Awaitable<void> {
    if (this.answered) return
    this.answered = true
    const settled = this.decision.settle(this.outcome(value, this.timedOut || this.hijacked))
    if (isPromise(settled)) handleErrors(value)
    return settled
  }

  private threw(error: unknown): Awaitable<void> {
    // The reply failed on its way out, which is not the handler's own end.
    const failed = error === this.undelivered || error === this.reply.raw.errored
    if ((this.answered || this.timedOut) && error && failed) return
    this.answered = true
    return this.decision.settle(this.failure(error))
  }

  private outcome(payload: unknown, foreign: boolean): Outcome {
    if (payload instanceof Error) return this.failure(payload)
    return foreign ? null : outcomeOf(payload, this.reply.statusCode)
  }

  private failure(error: unknown): Outcome {
    return failureOf(error, this.timedOut ? 500 : this.reply.statusCode)
  }

  // Whether the reply is on its way: sent, hijacked, or written by the handler to `reply.raw`.
  private get leaves(): boolean {
    return this.reply.sent || this.connection?.written || headersSent(this.reply.raw)
  }

  // The handler has returned without a promise of its own, or its promise waited for the reply alone.
  private get endsBySending(): boolean {
    return this.called && this.callback && !this.promised
  }

  // A handler that writes to `reply.raw`, and never calls `reply.send`, ends with its connection, or with its first
  // write if the client has gone before that.
  private endIfGone(): void {
    if (this.endsBySending && this.connection?.gone && this.leaves && !this.timedOut) this.decision.end()
  }

  private after<T>(settled: Awaitable<unknown>, then: () => T): T | Promise<T> {
    const end = () => {
      this.decision.end()
      if (this.decision.refunded) this.updateHeaders()
      return then()
    }
    return isPromise(settled) ? settled.then(end) : end()
  }
}

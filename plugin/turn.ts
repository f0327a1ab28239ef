import { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { type Awaitable, isPromise } from './awaitable.js'
import { whenCutOff } from './cut-off.js'
import type { Decision } from './decision.js'
import { failureOf, isHandlerTimeout, type Outcome, outcomeOf } from './outcome.js'

/**
 * One run of a handler: finds out how the handler itself ended, whatever is made of its reply, and settles by it.
 *
 * A handler ends when its promise settles or, where it returned none, when it sends. What it answers is read at its own
 * `reply.send`, before serializers and hooks. A refund is done before the reply leaves.
 */
export class Turn {
  private readonly send: FastifyReply['send']
  /** How it ended is known, and settled by. */
  private answered = false
  /** Fastify's `handlerTimeout` is over. */
  private timedOut = false
  /** It answers by the connection itself. */
  private hijacked = false
  /** It ends when it sends: it has returned nothing, or the reply, or waits for the reply. */
  private callback = false
  /** It has returned a promise of its own. */
  private promised = false
  /** It has returned or thrown: before that nobody knows whether it goes on. */
  private called = false
  /** The refund for which its answer waits, and the sending behind that. */
  private held: Promise<unknown> | undefined
  /** Why what it answered could not be sent. If the handler then throws this, it is no error of its own. */
  private undelivered: unknown

  /** @param tellAnew puts on the reply what is left, anew */
  constructor(
    private readonly reply: FastifyReply,
    private readonly decision: Decision,
    private readonly tellAnew: () => void
  ) {
    const { send, then, hijack } = reply
    this.send = send
    reply.send = (payload?: unknown) => this.answer(payload)
    reply.hijack = () => {
      this.hijacked = true
      return hijack.call(reply)
    }
    // Called where the handler has returned the reply from its promise, or waits for the reply.
    // biome-ignore lint/suspicious/noThenProperty: the reply is a thenable, and this is its then
    reply.then = (fulfilled, rejected) => {
      if (!this.answered && !this.timedOut) this.callback = true
      let waits = true
      // Not while a handler without a promise has yet to send: Fastify would answer in its place.
      const tell = (waiter: () => void) => {
        if (waits && (this.promised || this.answered || this.timedOut || this.leaves)) waiter()
        waits = false
      }
      const left = () => tell(() => fulfilled?.())
      const wait = () => {
        then.call(reply, left, error => tell(() => rejected?.(error)))
        whenCutOff(reply, left)
      }
      if (this.held) void this.held.then(wait, wait)
      else wait()
    }
  }

  /** Runs the handler. @returns what Fastify is to make of it */
  run(handler: () => unknown): unknown {
    let result: unknown
    try {
      result = handler()
      this.promised = result !== this.reply && isPromise(result)
    } catch (error) {
      return this.rejected(error)
    } finally {
      this.called = true
    }
    // Not by its own `then`: that of a foreign thenable may return nothing.
    if (this.promised) {
      return Promise.resolve(result).then(
        value => this.resolved(value),
        error => this.rejected(error)
      )
    }
    const later = result === undefined || result === this.reply
    if (!later) return this.after(this.held ?? this.returned(result), () => result)
    if (this.answered) return this.after(this.held, () => this.reply)
    this.callback = true
    if (this.decision.locked) this.endWithConnection()
    return result
  }

  private resolved(value: unknown): unknown {
    // It returned the reply, for which Fastify's time-out has answered, or which was cut off: it has yet to send itself.
    if (this.callback && (this.timedOut || !this.leaves)) {
      this.promised = false
      return value
    }
    // What it has sent may wait for a refund: Fastify would send in its place what it has returned, or nothing.
    return this.after(this.held ?? this.returned(value), () => (this.held ? this.reply : value))
  }

  private rejected(error: unknown): unknown {
    return this.after(this.threw(error), () => {
      if (this.held === undefined || this.undelivered === undefined) throw error
      // What it had sent cannot leave, and that is being answered.
      this.reply.log.error({ err: error }, 'the handler has thrown behind an answer that cannot be sent')
      return this.reply
    })
  }

  // Stands in for reply.send while the handler runs.
  private answer(payload: unknown): FastifyReply {
    if (isHandlerTimeout(payload)) this.timedOut = true
    // Until the reply to a time-out is out, it is an error handler that sends.
    const foreign = this.timedOut && !this.reply.sent
    if (foreign || this.answered) return this.pass(payload)
    this.answered = true
    const settled = this.decision.settle(this.outcome(payload, this.timedOut))
    // Whoever awaits the reply may go on, and looks like whoever has returned it: the slots stay open, no lock is held.
    const ends = this.callback && this.called
    if (!isPromise(settled)) return this.deliver(payload, ends)
    if (ends && !this.promised) this.decision.keep()
    const { reply } = this
    const { statusCode } = reply
    handleErrors(payload)
    // To the handler it is sent: what it sends from now on comes too late.
    Object.defineProperty(reply, 'sent', { value: true, configurable: true })
    // Nor is anything left to take over.
    reply.hijack = () => reply
    // What fails now has no caller to be thrown at.
    this.held = settled
      .then(() => {
        Reflect.deleteProperty(reply, 'sent')
        Reflect.deleteProperty(reply, 'hijack')
        if (reply.statusCode !== statusCode) reply.code(statusCode)
        this.deliver(payload, ends)
      })
      .catch(error => {
        this.send.call(this.reply, error)
      })
    return this.reply
  }

  private deliver(payload: unknown, ends: boolean): FastifyReply {
    if (this.decision.refunded) this.tellAnew()
    if (ends) void (this.promised ? this.decision.release() : this.decision.end())
    return this.pass(payload)
  }

  private pass(payload: unknown): FastifyReply {
    try {
      return this.send.call(this.reply, payload)
    } catch (error) {
      this.undelivered = error
      // No error handler runs before Fastify's `onError` hooks have ended: it is the handler that sends.
      const early = (error as { code?: string }).code === 'FST_ERR_SEND_INSIDE_ONERR'
      if (early && this.callback && !this.promised) this.decision.end()
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
    // The reply failed on its way out: that is not the handler's doing.
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

  // Whether it is on its way: sent, hijacked, or written by the handler itself.
  private get leaves(): boolean {
    return this.reply.sent || headersSent(this.reply.raw)
  }

  // Where the handler does not send by the reply. The client may have gone while it was decided.
  private endWithConnection(): void {
    const { raw } = this.reply
    const end = () => {
      if (this.leaves && !this.timedOut) this.decision.end()
    }
    if (raw.closed) return end()
    raw.once('close', end)
    whenCutOff(this.reply, end)
  }

  private after<T>(settled: Awaitable<unknown>, then: () => T): T | Promise<T> {
    const end = () => {
      this.decision.end()
      if (this.decision.refunded) this.tellAnew()
      return then()
    }
    return isPromise(settled) ? settled.then(end) : end()
  }
}

/** As Node tells it: @fastify/express puts another answer in its place, which does not hear of what is written. */
function headersSent(raw: object & { headersSent: boolean }): boolean {
  return raw instanceof ServerResponse
    ? Reflect.get(ServerResponse.prototype, 'headersSent', raw)
    : raw.headersSent
}

/** A stream that waits for a refund: nobody else listens to it yet, so that its error would end the process. Fastify finds it later. */
function handleErrors(payload: unknown): void {
  const { pipe, on } = (payload ?? {}) as Partial<NodeJS.ReadableStream>
  if (typeof pipe === 'function' && typeof on === 'function') on.call(payload, 'error', () => {})
}

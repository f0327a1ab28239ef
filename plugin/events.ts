import { channel } from 'node:diagnostics_channel'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { isPromise } from './awaitable.js'
import type { Decision } from './decision.js'
import type { DecisionEvent, SendLimitOptions } from './options.js'
import type { Verdict } from './verdict.js'

const decisions = channel('fastify-send-limit:decision')

/** Whether anybody listens to decisions. */
export function hasListeners({ onDecision }: Pick<SendLimitOptions, 'onDecision'>): boolean {
  return onDecision !== undefined || decisions.hasSubscribers
}

/**
 * Publishes a decision to `onDecision` and the diagnostics channel.
 * @param reported how many of the decision's observed violations the event of the first stage has reported
 * @param log gets the errors of `onDecision`
 */
export function publish(
  { stage, route, reported = 0 }: Pick<DecisionEvent, 'stage' | 'route'> & { reported?: number },
  decision: Decision,
  verdict: Verdict,
  options: Pick<SendLimitOptions, 'onDecision'>,
  request: FastifyRequest | null,
  log: FastifyBaseLogger
): void {
  const { keys, store } = decision
  const { allowed, retryAfterMs, violated, rules, refusal } = verdict
  const observed = verdict.observed.slice(reported)
  // Member by member: a spread of the verdict takes as long as the decision (docs/speed.md).
  const event: DecisionEvent = {
    allowed,
    retryAfterMs,
    violated,
    observed,
    rules,
    refusal,
    route,
    stage,
    keys,
    store
  }
  decisions.publish(event)
  const failed = (error: unknown) => log.error({ err: error }, 'onDecision failed')
  try {
    const heard: unknown = options.onDecision?.(event, request)
    if (isPromise(heard)) heard.then(undefined, failed)
  } catch (error) {
    failed(error)
  }
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Awaitable } from './awaitable.js'
import type { Decision } from './decision.js'
import { hasListeners, publish } from './events.js'
import { FilterChain } from './filter-chain.js'
import { policyHeaders } from './headers.js'
import { refusal, refuse } from './http.js'
import { refuseHungUp } from './hung-up.js'
import type { Limiter } from './limiter.js'
import type { DecisionEvent, SendLimitOptions } from './options.js'
import type { Plan } from './plan.js'
import type { RefusalLog } from './refusal-log.js'
import type { Verdict } from './verdict.js'
import type { Watch } from './watch.js'

/** What all limited routes share. */
export interface Shared {
  limiter: Limiter
  /** In milliseconds. */
  timeout: number
  options: Pick<SendLimitOptions, 'errorResponse' | 'onDecision'>
  refusals: RefusalLog
}

/**
 * Asks the filters, then decides on the sends.
 * @param watch says whether the request is over: then the filters are undone
 */
export function enter(plan: Plan, shared: Shared, reply: FastifyReply, watch: Watch): Awaitable<Decision> {
  if (plan.filters.length === 0) return decide(plan.sends, shared, reply.request, reply.limit)
  return filterThenDecide(plan, shared, reply, watch)
}

/** Decides by these rules, on a request whose client is there. */
export function decide(
  rules: Plan['sends'],
  { limiter }: Shared,
  request: FastifyRequest,
  earlier?: Decision | null
): Awaitable<Decision> {
  refuseHungUp(request)
  return limiter.decide(rules, request, earlier)
}

async function filterThenDecide(
  plan: Plan,
  shared: Shared,
  reply: FastifyReply,
  watch: Watch
): Promise<Decision> {
  const { limiter, timeout } = shared
  const { request } = reply
  const chain = new FilterChain(request, timeout)
  try {
    const refused = await chain.check(plan.filters)
    const decision = refused
      ? limiter.refuse(refused.name, refused.retryAfterMs, reply.limit)
      : await decide(plan.sends, shared, request, reply.limit)
    if (!decision.allowed || watch.over) await chain.undo()
    return decision
  } catch (error) {
    await chain.undo()
    throw error
  }
}

/** Puts the decision on the reply, and tells it to those who listen. @returns what it says; null where nobody does */
export function tell(
  decision: Decision,
  stage: DecisionEvent['stage'],
  { route }: Plan,
  { options }: Shared,
  reply: FastifyReply
): Verdict | null {
  const { request, limit: earlier } = reply
  reply.limit = decision
  if (!hasListeners(options)) return null
  const verdict = decision.verdict()
  const told = earlier?.observed.length ?? 0
  publish({ stage, route, told }, decision, verdict, options, request, request.log)
  return verdict
}

/**
 * Tells the decision, and answers by it.
 * @param handled whether the route has an error handler of its own
 * @throws a refusal that is for the app's error handler; FunctionError
 */
export function answer(
  decision: Decision,
  stage: DecisionEvent['stage'],
  plan: Plan,
  shared: Shared,
  reply: FastifyReply,
  handled: boolean
): void {
  const told = tell(decision, stage, plan, shared, reply)
  if (decision.allowed && told === null) return tellLeft(decision, plan, reply)
  const verdict = told ?? decision.verdict()
  if (decision.allowed) {
    reply.headers(policyHeaders(verdict.rules, plan.disclosures))
    return
  }
  shared.refusals.write(decision, verdict, stage, reply.request)
  refuse(reply, refusal(verdict, plan.disclosures), shared.options.errorResponse, handled)
}

/** Puts on the reply what is left. */
export function tellLeft(decision: Decision, { callers, disclosures }: Plan, reply: FastifyReply): void {
  reply.headers(policyHeaders(decision.statesOf(callers), disclosures))
}

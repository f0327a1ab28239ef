import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Awaitable } from './awaitable.js'
import type { CompiledRule } from './compiled-rule.js'
import type { Decision } from './decision.js'
import { LimitError } from './errors.js'
import { hasListeners, publish } from './events.js'
import { FilterChain } from './filter-chain.js'
import { policyHeaders } from './headers.js'
import { fail, refusal, refuse } from './http.js'
import { refuseHungUp } from './hung-up.js'
import type { Limiter } from './limiter.js'
import type { DecisionEvent, SendLimitOptions } from './options.js'
import type { Plan } from './plan.js'
import type { RefusalLog } from './refusal-log.js'
import type { UnnamedProxy } from './unnamed-proxy.js'
import type { Verdict } from './verdict.js'
import type { Watch } from './watch.js'

/** What all limited routes share. */
export interface Shared {
  limiter: Limiter
  /** In milliseconds. */
  timeout: number
  options: Pick<SendLimitOptions, 'errorResponse' | 'onDecision'>
  refusals: RefusalLog
  proxy: UnnamedProxy
}

/** Lets requests to one route in, or refuses them. */
export class Admission {
  private errorHandler: FastifyInstance['errorHandler']

  /** @param scope the instance of Fastify that has the route */
  constructor(
    private readonly scope: FastifyInstance,
    private readonly route: RouteOptions,
    private readonly shared: Shared
  ) {
    this.errorHandler = scope.errorHandler
    // When Fastify itself takes it for the route: it never asks a handler that is set later about this route.
    scope.after(() => {
      this.errorHandler = scope.errorHandler
    })
  }

  /**
   * Asks the filters, then decides on the sends.
   * @param watch says whether the request is over: then the filters are undone
   * @throws as `decide`; TimeoutError, FunctionError and what a filter throws
   */
  enter(plan: Plan, reply: FastifyReply, watch: Watch): Awaitable<Decision> {
    if (plan.filters.length === 0) return this.decide(plan.sends, reply.request, reply.limit)
    return this.filterThenDecide(plan, reply, watch)
  }

  /**
   * Decides by these rules.
   * @throws KeyMissingError when the connection, and with it the address, is gone; what the limiter throws
   */
  decide(
    rules: readonly CompiledRule[],
    request: FastifyRequest,
    earlier: Decision | null
  ): Awaitable<Decision> {
    refuseHungUp(request)
    return this.shared.limiter.decide(rules, request, earlier)
  }

  /**
   * Puts the decision on the reply, and publishes it if anybody listens.
   * @returns the verdict that was published; null if nobody listens
   */
  publish(
    decision: Decision,
    stage: DecisionEvent['stage'],
    { route }: Plan,
    reply: FastifyReply
  ): Verdict | null {
    const { options } = this.shared
    const { request, limit: earlier } = reply
    reply.limit = decision
    if (!hasListeners(options)) return null
    const verdict = decision.verdict()
    const reported = earlier?.observed.length ?? 0
    publish({ stage, route, reported }, decision, verdict, options, request, request.log)
    return verdict
  }

  /**
   * Puts the decision on the reply, publishes it, and sets the headers or sends the refusal that it asks for.
   * @throws FunctionError, and what `errorResponse` throws
   */
  answer(decision: Decision, stage: DecisionEvent['stage'], plan: Plan, reply: FastifyReply): void {
    this.shared.proxy.see(plan, reply.request)
    const published = this.publish(decision, stage, plan, reply)
    if (decision.allowed) return setPolicyHeaders(decision, plan, reply)
    const verdict = published ?? decision.verdict()
    const { refusals, options } = this.shared
    refusals.write(decision, verdict, stage, reply.request)
    refuse(reply, refusal(verdict, plan.disclosures), options.errorResponse, this.isHandled(reply.request))
  }

  /** Answers an error that came in place of a decision. @throws the error, where it is for the app's error handler */
  fail(error: unknown, reply: FastifyReply): void {
    const { refusals, options } = this.shared
    const handled = this.isHandled(reply.request)
    // The refusal of another decision, as by `run` in a filter. A LimitError that the app has made has no `problem`.
    if (error instanceof LimitError && error.problem) refuse(reply, error, options.errorResponse, handled)
    else fail(reply, error, handled, refusals)
  }

  /**
   * Whether the app has an error handler, which then gets the error. Fastify's default handler would reduce the error to
   * code and message. The route's handler is read from its options each time: later hooks may set it, and a request
   * does not show it.
   */
  private isHandled({ server }: FastifyRequest): boolean {
    // Of another scope, where a plugin has copied the route.
    const { name } = server === this.scope ? this.errorHandler : server.errorHandler
    // Fastify binds a handler that the app sets, which names it `bound …`. That name survives a minifier; the name of
    // the default handler does not.
    return this.route.errorHandler !== undefined || name.startsWith('bound ')
  }

  private async filterThenDecide(plan: Plan, reply: FastifyReply, watch: Watch): Promise<Decision> {
    const { limiter, timeout } = this.shared
    const { request } = reply
    const chain = new FilterChain(request, timeout)
    try {
      const refused = await chain.check(plan.filters)
      const decision = refused
        ? limiter.refuse(refused.name, refused.retryAfterMs, reply.limit)
        : await this.decide(plan.sends, request, reply.limit)
      if (!decision.allowed || watch.over) await chain.undo()
      return decision
    } catch (error) {
      await chain.undo()
      throw error
    }
  }
}

/** Sets the headers that tell what is left. */
export function setPolicyHeaders(
  decision: Decision,
  { callers, disclosures }: Plan,
  reply: FastifyReply
): void {
  reply.headers(policyHeaders(decision.statesOf(callers), disclosures))
}

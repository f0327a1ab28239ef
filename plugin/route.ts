import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  RouteHandlerMethod,
  RouteOptions
} from 'fastify'
import { Admission, type Shared, setPolicyHeaders } from './admission.js'
import { cohort } from './cohort.js'
import type { Decision } from './decision.js'
import { RouteTooEarlyError } from './errors.js'
import { HandlerRun } from './handler-run.js'
import { LIMITED, type LimitedRoute, limitedBy, nameOf, type Plan, planFor } from './plan.js'
import { Watch } from './watch.js'

/** The member of a request that holds the plan with which it began: its route may get another plan meanwhile. */
export const PLAN: unique symbol = Symbol('plan of the route')
type Begun = FastifyRequest & { [PLAN]?: Plan }

/** Adds to a route the hook and the handler that its plans may need, and nothing else. */
export function limitRoute(
  scope: FastifyInstance,
  route: RouteOptions,
  limited: LimitedRoute,
  shared: Shared
): void {
  const { plan, replaceable } = limited
  // A copy: other routes may share the object.
  route.config = Object.assign({}, route.config, { [LIMITED]: limited })
  const admission = new Admission(scope, route, shared)
  if (replaceable || plan.attempts.length > 0)
    guard(route, 'onRequest', [route.onRequest ?? [], countAttempts(limited, admission)].flat())
  guard(route, 'handler', limitHandler(route.handler, limited, admission))
}

/**
 * Sets a member of the route that a later `onRoute` hook may wrap, but must not replace.
 * @throws RouteTooEarlyError, in a hook that sets the member when nobody has read it since it was set last
 */
function guard(route: RouteOptions, member: 'handler' | 'onRequest', limiting: unknown): void {
  let [value, read] = [limiting, false]
  Object.defineProperty(route, member, {
    configurable: true,
    enumerable: true,
    get() {
      read = true
      return value
    },
    set(other) {
      if (!read) throw new RouteTooEarlyError(nameOf(route))
      value = other
      read = false
    }
  })
}

/**
 * Whether another plugin has copied a limited route, with the hook and the handler that run now, and the copy has
 * limits of its own.
 */
function isCopied(config: object, limited: LimitedRoute): boolean {
  const own = limitedBy(config)
  return own !== undefined && own !== limited
}

function countAttempts(limited: LimitedRoute, admission: Admission): onRequestHookHandler {
  return (request, reply, done) => {
    if (isCopied(request.routeOptions.config, limited)) return done()
    const { plan } = limited
    ;(request as Begun)[PLAN] = plan
    if (plan.attempts.length === 0) return done()
    decideAttempts(plan, reply, admission).then(allowed => {
      if (allowed) done()
    }, done)
  }
}

/**
 * @returns whether the request goes on
 * @throws an error that is for the app's error handler
 */
async function decideAttempts(begun: Plan, reply: FastifyReply, admission: Admission): Promise<boolean> {
  const { request } = reply
  const watch = new Watch(reply)
  try {
    await cohort()
    const plan = planFor(begun, begun.attempts, request)
    ;(request as Begun)[PLAN] = plan
    const decision = await admission.decide(plan.attempts, request, null)
    const over = watch.end()
    // The attempt stays counted, even if the request is over.
    if (over) admission.publish(decision, 'attempts', plan, reply)
    else admission.answer(decision, 'attempts', plan, reply)
    return decision.allowed && !over
  } catch (error) {
    if (!watch.end()) admission.fail(error, reply)
    return false
  }
}

/**
 * Decides right before the handler runs, so that nothing can come between a reservation and its handler.
 */
function limitHandler(
  handler: RouteHandlerMethod,
  limited: LimitedRoute,
  admission: Admission
): RouteHandlerMethod {
  return function (this: FastifyInstance, request, reply) {
    const begun = (request as Begun)[PLAN]
    const whole = begun ?? limited.plan
    const idle = whole.sends.length === 0 && whole.filters.length === 0
    const copied = isCopied(request.routeOptions.config, limited)
    // The attempts were not counted: a later `onRoute` hook has read `onRequest` of the route, and another one replaced
    // it.
    if (whole.attempts.length > 0 && begun === undefined && !copied) throw new RouteTooEarlyError(whole.route)
    if (idle || copied) return handler.call(this, request, reply)
    const plan = planFor(whole, whole.sends, request)
    const watch = new Watch(reply)
    const run = (decision: Decision) => {
      // The request is over, so the handler does not run, as after any hook that has answered.
      if (watch.end()) return abandon(decision, reply)
      admission.answer(decision, 'sends', plan, reply)
      if (!decision.allowed) return reply
      const start = () => handler.call(this, request, reply)
      const sent = reply.getHeader('ratelimit')
      // If the app has set this header itself, that stays.
      const updateHeaders = () => {
        if (reply.getHeader('ratelimit') === sent) setPolicyHeaders(decision, plan, reply)
      }
      const result = decision.pending ? new HandlerRun(reply, decision, updateHeaders).run(start) : start()
      // A handler that returns nothing sends later. The reply, which is a thenable, waits for that.
      return result === undefined ? reply : result
    }
    const failed = (error: unknown) => {
      if (!watch.end()) admission.fail(error, reply)
      return reply
    }
    return cohort()
      .then(() => admission.enter(plan, reply, watch))
      .then(run, failed)
  }
}

async function abandon(decision: Decision, reply: FastifyReply): Promise<FastifyReply> {
  await decision.refund()
  decision.end()
  return reply
}

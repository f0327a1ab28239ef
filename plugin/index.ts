import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import type { Shared } from './admission.js'
import { systemClock } from './clock.js'
import { conform } from './conform.js'
import type { Decision } from './decision.js'
import { decorator, type LimitDecorator } from './decorator.js'
import { durationAt } from './duration.js'
import {
  DeclaredLimits,
  hasForeign,
  isWatched,
  refuseSocket,
  refuseStrayRoutes,
  refuseUnlimited
} from './early-routes.js'
import { RegisteredError } from './errors.js'
import { Filters } from './filters.js'
import type { Afterwards } from './hold.js'
import { Limiter } from './limiter.js'
import { wrongOption } from './mistakes.js'
import { Documentation } from './openapi.js'
import { OptionsSchema, type RouteLimit, type SendLimitOptions } from './options.js'
import { Planner } from './planner.js'
import { RefusalLog } from './refusal-log.js'
import { rootOf } from './root.js'
import { limitRoute, PLAN } from './route.js'
import type { Rule } from './rule.js'
import { RuleCompiler } from './rules.js'
import { openStore } from './store/open.js'
import { UnnamedProxy } from './unnamed-proxy.js'
import { warnOfProxies, warnOfSlip, warnOfSocket } from './warnings.js'

declare module 'fastify' {
  interface FastifyInstance {
    limit: LimitDecorator
  }
  interface FastifyReply {
    /** The decision on this request; null where none was made. */
    limit: Decision | null
  }
  interface FastifyContextConfig {
    /** A rule, the name of one, a filter, or a list of these. */
    limit?: RouteLimit | undefined
  }
}

const MAX_TIMEOUT_MS = 3_600_000

const FAILED: Record<Afterwards, string> = {
  refund: 'a refund failed; what was counted stays counted, unless a later try succeeds',
  release: 'a lock was not released; it ends by itself, unless a later try succeeds',
  renewal: 'a lock was not renewed; it is tried again as long as it lasts'
}

const plugin: FastifyPluginAsync<SendLimitOptions> = async (fastify, options) => {
  if (fastify.hasDecorator('limit')) throw new RegisteredError()
  // Before anything that may throw: an app that passes over the error must not start with routes that nothing limits.
  fastify.addHook('onReady', async () => refuseStrayRoutes(fastify))
  // Routes that were declared before would stay without limits, so the registration fails.
  refuseStrayRoutes(fastify)
  conform(OptionsSchema, options, 'options')
  const timeout = durationAt(options.timeout ?? '1s', 'options.timeout')
  if (timeout > MAX_TIMEOUT_MS)
    throw wrongOption('options.timeout', options.timeout, 'A timeout is 1h or shorter.')

  const { reserver, receipts, identity, begin, verify } = openStore(fastify, options, timeout)
  const limiter = new Limiter(reserver, receipts, timeout, options.clock ?? systemClock, (error, what) =>
    fastify.log.error({ err: error }, FAILED[what])
  )
  const filters = new Filters()
  // Added before anything that may throw, so that what is open is closed even if the registration fails.
  fastify.addHook('onClose', async () => {
    try {
      await filters.close()
    } finally {
      await reserver.close()
    }
  })
  const planner = new Planner(new RuleCompiler(identity), limiter, filters, options)
  const refusals = new RefusalLog()
  const shared: Shared = { limiter, timeout, options, refusals, proxy: new UnnamedProxy(fastify.log) }

  const replace = (rules: readonly Rule[]) => {
    const compiled = planner.replace(rules)
    warnOfProxies(fastify, compiled)
    warnOfSocket(fastify, compiled)
  }
  fastify.decorate('limit', decorator(limiter, options, { begin, verify }, replace, fastify.log))
  fastify.decorateRequest(PLAN)
  fastify.decorateReply('limit', null)
  const documentation = new Documentation()
  const routes = new DeclaredLimits()
  const sockets = fastify.hasDecorator('websocketServer')
  fastify.addHook('onRoute', function (route) {
    routes.add(route)
    documentation.see(route.schema)
    const limited = planner.plan(route)
    if (limited === undefined) return warnOfSlip(this, route)
    if (!sockets) refuseSocket(route)
    limitRoute(this, route, limited, shared)
    if (fastify.hasPlugin('@fastify/swagger')) documentation.add(route, limited)
  })
  if (!isWatched(fastify)) {
    refuseUnlimited(fastify)
    rootOf(fastify).addHook('onRoute', ({ schema }) => documentation.see(schema))
  }
  fastify.addHook('onReady', async () => {
    routes.verify()
    warnOfProxies(fastify, limiter.rules.values())
    documentation.write(hasForeign(fastify))
    await filters.init()
  })
  fastify.addHook('onListen', async () => warnOfSocket(fastify, limiter.rules.values()))
}

/**
 * The plugin: it limits how many messages may be sent, and to whom. Register it before the routes that it limits:
 * `await app.register(limitPlugin, { rules })`, then `config: { limit: 'name' }` on a route.
 * @throws OptionError, RegisteredError, RouteTooEarlyError; when the server starts, also SecretMismatchError
 */
export const limitPlugin = fp(plugin, { name: 'fastify-send-limit', fastify: '5.x' })
export default limitPlugin

export type { Awaitable } from './awaitable.js'
export { isTimeZone } from './calendar.js'
export type { Clock } from './clock.js'
export type { Decision } from './decision.js'
export type { LimitDecorator } from './decorator.js'
export type { LimitError, Problem } from './errors.js'
export * as errors from './errors.js'
export type { Filter, FilterResult } from './filter.js'
export { canonicalEmail } from './identity/email.js'
export { canonicalIp } from './identity/ip.js'
export { compileIpList } from './identity/ip-list.js'
export { canonicalPhone, phoneCountry } from './identity/phone.js'
export type { Key, KeyFunction, KeyPart } from './key.js'
export { limitTransform } from './limit-transform.js'
export type { Keys } from './named.js'
export type { DecisionEvent, RouteLimit, SendLimitOptions } from './options.js'
export type {
  AllowFunction,
  CostFunction,
  Limit,
  LimitRule,
  LockRule,
  MaxFunction,
  PrivateFunction,
  RequestValue,
  Rule,
  TimeZoneFunction
} from './rule.js'
export type { LimitState, RuleState } from './states.js'
export type { RedisClient } from './store/client.js'
export type { Refusal, Verdict, Violation } from './verdict.js'

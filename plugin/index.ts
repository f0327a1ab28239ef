import type { FastifyInstance, FastifyPluginAsync, FastifyRequest, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { conform } from './conform.js'
import type { Verdict } from './decision.js'
import { parseDuration } from './duration.js'
import {
  DeclaredLimits,
  isWatched,
  refuseEarlyRoutes,
  refuseSocket,
  refuseStrayRoutes,
  refuseUnplanned
} from './early-routes.js'
import { RegisteredError, wrongOption } from './errors.js'
import { Filters } from './filters.js'
import { type Keys, Limiter } from './limiter.js'
import { Documentation } from './openapi.js'
import { OptionsSchema, type RouteLimit, type Rule, type SendLimitOptions } from './options.js'
import { Planner } from './planner.js'
import type { Decision } from './reservation.js'
import { limitRoute, PLAN, type Shared } from './route.js'
import { RuleCompiler } from './rules.js'
import { openStore } from './store/open.js'
import { isHeard, tell } from './telling.js'
import { warn } from './warnings.js'

/** `fastify.limit`: the limits outside of routes. Keys are values by rule: `{ mobile: '+8613800138000' }`. */
export interface LimitDecorator {
  /** Decides and reserves over all the rules named; settle the decision with `keep()` or `refund()`, and release its locks with `end()`. */
  reserve(keys: Keys, request?: FastifyRequest): Promise<Decision>
  /** The decision as it would be; changes nothing. */
  peek(keys: Keys, request?: FastifyRequest): Promise<Verdict>
  /** Forgets what is counted; blocks stay. */
  clear(keys: Keys): Promise<void>
  /** Refuses these identities, for a duration or until `unblock`. */
  block(keys: Keys, duration?: string | number): Promise<void>
  unblock(keys: Keys): Promise<void>
  /**
   * Puts these rules in the place of all that the plugin's options hold, for every route at once; what is counted
   * under a name goes on. Rules that stand in a route stay. When it throws, nothing has changed.
   * @throws OptionError with the path of the mistake, RuleUnknownError when a route names a rule that is gone
   */
  replace(rules: readonly Rule[]): void
  /** Every rule by name; those that stand in a route as `name@METHOD url`. */
  readonly rules: Readonly<Record<string, Rule>>
}

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
    limit?: RouteLimit
  }
}

const MAX_TIMEOUT = 3_600_000

const plugin: FastifyPluginAsync<SendLimitOptions> = async (fastify, options) => {
  if (fastify.hasDecorator('limit')) throw new RegisteredError()
  refuseEarlyRoutes(fastify)
  conform(OptionsSchema, options, 'options')
  const timeout = durationOption(options.timeout ?? '1s', 'options.timeout')
  if (timeout > MAX_TIMEOUT)
    throw wrongOption('options.timeout', options.timeout, 'A timeout is 1h or shorter.')

  const { reserver, identity } = openStore(fastify, options, timeout)
  const limiter = new Limiter(reserver, timeout, error =>
    fastify.log.error({ err: error }, 'a settlement failed; what was counted stays counted')
  )
  const filters = new Filters()
  const planner = new Planner(new RuleCompiler(identity), limiter, filters, options)
  const shared: Shared = { limiter, timeout, options }

  const replace = (rules: readonly Rule[]) => warn(fastify, planner.replace(rules))
  fastify.decorate('limit', decorator(limiter, options, replace))
  fastify.decorateRequest(PLAN)
  fastify.decorateReply('limit', null)
  const documentation = new Documentation()
  const routes = new DeclaredLimits()
  const sockets = fastify.hasDecorator('websocketServer')
  fastify.addHook('onRoute', route => {
    routes.add(route)
    const limited = planner.plan(route)
    if (limited === undefined) return
    if (!sockets) refuseSocket(route)
    limitRoute(route, limited, shared)
    if (fastify.hasPlugin('@fastify/swagger')) documentation.add(route, limited)
  })
  if (!isWatched(fastify)) fastify.addHook('onRequest', refuseUnplanned(planner))
  fastify.addHook('onReady', async () => {
    refuseStrayRoutes(fastify)
    routes.verify()
    warn(fastify, limiter.rules.values())
    documentation.write()
    await filters.init()
  })
  fastify.addHook('onClose', async () => {
    await filters.close()
    await reserver.close()
  })
}

function decorator(
  limiter: Limiter,
  options: SendLimitOptions,
  replace: LimitDecorator['replace']
): LimitDecorator {
  return {
    async reserve(keys, request) {
      const decision = await limiter.decideFor(keys, request)
      if (isHeard(options))
        tell({ stage: 'sends', route: null }, decision, decision.verdict(), options, request ?? null)
      return decision
    },
    peek: async (keys, request) => limiter.peek(keys, request),
    clear: async keys => limiter.clear(keys),
    block: async (keys, duration) =>
      limiter.block(keys, duration === undefined ? 0 : durationOption(duration, 'duration')),
    unblock: async keys => limiter.unblock(keys),
    replace,
    get rules() {
      return Object.fromEntries([...limiter.rules].map(([name, rule]) => [name, rule.options]))
    }
  }
}

function durationOption(value: string | number, at: string): number {
  const ms = parseDuration(value)
  if (ms === undefined)
    throw wrongOption(
      at,
      value,
      'Write a duration such as "1s" or "5m", or whole milliseconds; at most 366 days.'
    )
  return ms
}

/**
 * Limits on messages. Register it before the routes that it limits:
 * `await app.register(limitPlugin, { rules })`, then `config: { limit: 'name' }` on a route.
 * @throws OptionError, RegisteredError, RouteTooEarlyError, SecretMismatchError
 */
export const limitPlugin = fp(plugin, { name: 'fastify-send-limit', fastify: '5.x' })
export default limitPlugin

export { isTimeZone } from './calendar.js'
export type { LimitState, RuleState, Verdict, Violation } from './decision.js'
export type { LimitError } from './errors.js'
export * as errors from './errors.js'
export type { Problem } from './http.js'
export { canonicalEmail } from './identity/email.js'
export { canonicalIp } from './identity/ip.js'
export { canonicalPhone } from './identity/phone.js'
export type { Keys } from './limiter.js'
export type {
  AllowFunction,
  DecisionEvent,
  Filter,
  FilterResult,
  Key,
  KeyFunction,
  KeyPart,
  Limit,
  MaxFunction,
  RequestValue,
  RouteLimit,
  Rule,
  SendLimitOptions,
  TimeZoneFunction
} from './options.js'
export type { Decision } from './reservation.js'
export type { RedisClient } from './store/client.js'
export type { FastifyInstance, RouteOptions }

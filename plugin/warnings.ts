import type { FastifyInstance, RouteOptions } from 'fastify'
import type { CompiledRule } from './compiled-rule.js'
import { nameOf } from './plan.js'
import { rootOf } from './root.js'
import { countsByAddress } from './rule-reading.js'

/** Warns of rules that `trustProxy` makes weaker than they read. */
export function warnOfProxies(fastify: FastifyInstance, rules: Iterable<CompiledRule>): void {
  const danger = dangerOf(trustProxyOf(fastify))
  if (danger !== undefined) warnByAddress(fastify, rules, `with ${danger}; name the proxies instead`)
}

/** Warns of rules that limit nobody, since the server listens on a Unix socket, where no request has an address. */
export function warnOfSocket(fastify: FastifyInstance, rules: Iterable<CompiledRule>): void {
  if (typeof fastify.server.address() !== 'string' || trustsSocket(trustProxyOf(fastify))) return
  const cure = 'set trustProxy to (_address, hop) => hop === 0 if a proxy sends them'
  warnByAddress(fastify, rules, `requests over a Unix socket have none; ${cure}`)
}

function warnByAddress(fastify: FastifyInstance, rules: Iterable<CompiledRule>, danger: string): void {
  for (const rule of rules)
    if (countsByAddress(rule)) fastify.log.warn(`the rule ${rule.name} counts by address, but ${danger}`)
}

/** Whether it trusts a proxy without an address, which Fastify asks about as `undefined`. */
function trustsSocket(trustProxy: unknown): boolean {
  if (typeof trustProxy !== 'function') return trustProxy === true
  try {
    return trustProxy(undefined, 0)
  } catch {
    return false
  }
}

/** Warns of a route that reads as limited, and is not. @param scope the instance in which the route is declared */
export function warnOfSlip(scope: FastifyInstance, route: RouteOptions): void {
  // The HEAD route of a GET has the same options, and would be warned of twice.
  const slip = route.method !== 'HEAD' && slipOf(scope, route)
  if (slip) scope.log.warn(`${nameOf(route)} has ${slip}, by which nothing is limited; it is config.limit`)
}

function slipOf(scope: FastifyInstance, route: RouteOptions): string | undefined {
  const config = route.config ?? {}
  if ('limit' in route) return 'limit'
  if ('limits' in config) return 'config.limits'
  // `config.rateLimit` is that of @fastify/rate-limit, which limits only the routes declared after it.
  const former = 'rateLimit' in config && config.rateLimit !== false
  return former && !scope.hasPlugin('@fastify/rate-limit') ? 'config.rateLimit' : undefined
}

function dangerOf(trustProxy: unknown): string | undefined {
  if (trustProxy === true) return 'trustProxy: true the client chooses its address'
  // With a number, Fastify believes nobody's `X-Forwarded-For` since 5.12.1, and believed anybody's before.
  if (typeof trustProxy === 'number' && trustProxy > 0)
    return `trustProxy: ${trustProxy} all clients behind a proxy have one address, or each chooses its own`
  return undefined
}

// Fastify shows its options in no other way.
function trustProxyOf(fastify: FastifyInstance): unknown {
  const root = rootOf<object>(fastify)
  const symbol = Object.getOwnPropertySymbols(root).find(each => each.description === 'fastify.options')
  return symbol && (root as Record<symbol, { trustProxy?: unknown } | undefined>)[symbol]?.trustProxy
}

import type { FastifyInstance, RouteOptions } from 'fastify'
import type { CompiledRule } from './compiled-rule.js'
import { pathsOf } from './identity/part.js'
import { isAddress } from './identity/path.js'
import { nameOf } from './plan.js'
import { rootOf } from './root.js'

/** Warns of what makes a rule weaker than it reads. */
export function warn(fastify: FastifyInstance, rules: Iterable<CompiledRule>): void {
  const danger = dangerOf(trustProxyOf(fastify))
  if (danger === undefined) return
  for (const { name, key, distinct } of rules) {
    const paths = [...key.parts, ...(distinct?.parts ?? [])].flatMap(pathsOf)
    if (!paths.some(isAddress)) continue
    fastify.log.warn(`the rule ${name} counts by address, but with ${danger}; name the proxies instead`)
  }
}

/** Warns of a route that reads as limited, and is not. @param scope in which it is declared */
export function warnOfSlip(scope: FastifyInstance, route: RouteOptions): void {
  // The HEAD of a GET is declared with the same.
  const slip = route.method !== 'HEAD' && slipOf(scope, route)
  if (slip) scope.log.warn(`${nameOf(route)} has ${slip}, by which nothing is limited; it is config.limit`)
}

function slipOf(scope: FastifyInstance, route: RouteOptions): string | undefined {
  const config = route.config ?? {}
  if ('limit' in route) return 'limit'
  if ('limits' in config) return 'config.limits'
  // Of @fastify/rate-limit, which limits what is declared after it alone.
  const former = 'rateLimit' in config && config.rateLimit !== false
  return former && !scope.hasPlugin('@fastify/rate-limit') ? 'config.rateLimit' : undefined
}

function dangerOf(trustProxy: unknown): string | undefined {
  if (trustProxy === true) return 'trustProxy: true the client chooses its address'
  // A number of proxies has been believed of nobody since Fastify 5.12.1, and of anybody before.
  if (typeof trustProxy === 'number' && trustProxy > 0)
    return `trustProxy: ${trustProxy} all clients behind a proxy have one address, or each chooses its own`
  return undefined
}

// Fastify tells of its options in no other way.
function trustProxyOf(fastify: FastifyInstance): unknown {
  const root = rootOf<object>(fastify)
  const symbol = Object.getOwnPropertySymbols(root).find(each => each.description === 'fastify.options')
  return symbol && (root as Record<symbol, { trustProxy?: unknown } | undefined>)[symbol]?.trustProxy
}

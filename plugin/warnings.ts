import type { FastifyInstance } from 'fastify'
import type { CompiledRule } from './rules.js'

/** Warns of what makes a rule weaker than it reads. */
export function warn(fastify: FastifyInstance, rules: Iterable<CompiledRule>): void {
  if (!trustsEveryProxy(fastify)) return
  for (const { name, key } of rules) {
    if (!key.parts.some(part => part.label === 'ip' || part.label === 'request.ip')) continue
    fastify.log.warn(
      `the rule ${name} counts by address, but with trustProxy: true the client chooses its address; name the proxies instead`
    )
  }
}

// Fastify tells of its options in no other way.
function trustsEveryProxy(fastify: FastifyInstance): boolean {
  for (
    let scope: object | null = fastify;
    scope !== null;
    scope = Object.getPrototypeOf(scope) as object | null
  ) {
    const symbol = Object.getOwnPropertySymbols(scope).find(each => each.description === 'fastify.options')
    if (symbol)
      return (scope as Record<symbol, { trustProxy?: unknown } | undefined>)[symbol]?.trustProxy === true
  }
  return false
}

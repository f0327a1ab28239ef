import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, RouteOptions } from 'fastify'

// Routes that carry config.limit, by the instance that declared them, since this module was loaded. Fastify tells
// of a new instance on this channel before anything is declared on it; the plugin itself comes too late to see.
const declared = new WeakMap<object, { instance: object; route: string }[]>()

subscribe('fastify.initialization', message => {
  const { fastify } = message as { fastify: FastifyInstance }
  const routes: { instance: object; route: string }[] = []
  declared.set(fastify, routes)
  fastify.addHook('onRoute', function (this: FastifyInstance, route: RouteOptions) {
    if (route.config?.limit === undefined || this.hasDecorator('limit')) return
    routes.push({ instance: this, route: `${[route.method].flat().join(',')} ${route.url}` })
  })
})

/** The first limited route that was declared below `fastify` before now: nothing would limit it. */
export function earlyRoutes(fastify: FastifyInstance): string | undefined {
  for (let scope: object | null = fastify; scope !== null; scope = Object.getPrototypeOf(scope) as object | null) {
    const routes = declared.get(scope)
    if (routes) return routes.find(({ instance }) => fastify === instance || Object.prototype.isPrototypeOf.call(fastify, instance))?.route
  }
  return undefined
}

import { type Channel, channel, subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { RouteTooEarlyError } from './errors.js'
import { isForeign } from './foreign-schema.js'
import { wrongOption } from './mistakes.js'
import { limitedBy, nameOf } from './plan.js'
import { rootOf } from './root.js'

interface Watched {
  /** All routes, limited or not: a hook that runs later may give one a limit. */
  declared: RouteOptions[]
  /** Whether any route has a schema that is not JSON Schema. */
  foreign: boolean
}

/** The state that all copies of this module share: a package manager may install two copies, or a bundler make them. */
interface Shared {
  apps: WeakMap<object, Watched>
  /**
   * Routes that an `onRoute` hook of the plugin has seen. Whether the scope of a route has `fastify.limit` does not
   * tell this: a scope that was made before the plugin inherits the decorator, but not the hook.
   */
  heard: WeakSet<RouteOptions>
}
// The number stands for the shape of `Shared`: two copies may be of different versions.
const SHARED = Symbol.for('fastify-send-limit.routes.2')

// Fastify publishes a new instance on this channel before anything is declared on it. The plugin itself is registered
// too late to see everything.
const INITIALIZATION = 'fastify.initialization'
const { apps, heard } = sharedBy(channel(INITIALIZATION))

/**
 * The shared state: what apps have declared since this module was first loaded. Jest, for example, loads the module
 * again for each test file, while the channel belongs to the process. If each copy subscribed, all copies would stay in
 * memory.
 */
function sharedBy(initialization: Channel & { [SHARED]?: Shared }): Shared {
  const known = initialization[SHARED]
  if (known) return known
  const shared: Shared = { apps: new WeakMap(), heard: new WeakSet() }
  initialization[SHARED] = shared
  subscribe(INITIALIZATION, message => {
    const { fastify } = message as { fastify: FastifyInstance }
    const app: Watched = { declared: [], foreign: false }
    shared.apps.set(fastify, app)
    fastify.addHook('onRoute', route => {
      app.foreign ||= isForeign(route.schema)
      app.declared.push(route)
    })
  })
  return shared
}

/**
 * @throws RouteTooEarlyError when a route with `config.limit` was declared, anywhere in the app, and no hook of the
 *   plugin has heard of it
 */
export function refuseStrayRoutes(fastify: FastifyInstance): void {
  const declared = watched(fastify)?.declared ?? []
  const stray = declared.find(route => route.config?.limit !== undefined && !heard.has(route))
  if (stray) throw new RouteTooEarlyError(nameOf(stray))
}

/** Whether this module was loaded before the app was made, so that it saw every route. */
export function isWatched(fastify: FastifyInstance): boolean {
  return watched(fastify) !== undefined
}

/** Whether a route anywhere in the app, as far as it was watched, has a schema that is not JSON Schema. */
export function hasForeign(fastify: FastifyInstance): boolean {
  return watched(fastify)?.foreign ?? false
}

/**
 * Refuses each request, anywhere in the app, to a route that has `config.limit` and is not limited. For an app that was
 * made before this module was loaded, so that its routes could not be watched.
 */
export function refuseUnlimited(fastify: FastifyInstance): void {
  rootOf(fastify).addHook('onRequest', ({ method, routeOptions: { config, url } }, _reply, done) => {
    const stray = config.limit !== undefined && limitedBy(config) === undefined
    done(stray ? new RouteTooEarlyError(`${method} ${url}`) : undefined)
  })
}

/** The limits with which routes were declared. */
export class DeclaredLimits {
  private readonly declared: { route: RouteOptions; limits: unknown[] }[] = []

  add(route: RouteOptions): void {
    heard.add(route)
    this.declared.push({ route, limits: limitsOf(route) })
  }

  /**
   * @throws RouteTooEarlyError when an onRoute hook that ran after the plugin's has changed a limit, which has no
   *   effect
   */
  verify(): void {
    const changed = this.declared.find(({ route, limits }) => !isSame(limitsOf(route), limits))
    if (changed) throw new RouteTooEarlyError(nameOf(changed.route))
  }
}

/** The route's limits in a list of their own, since a hook may add to the list of the route. */
function limitsOf({ config }: RouteOptions): unknown[] {
  return [config?.limit].flat()
}

// Compares as sets: a HEAD route has the very list of its GET, so a hook that ran before the plugin has added to it
// twice.
function isSame(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.every(each => others.includes(each)) && others.every(each => some.includes(each))
}

/**
 * @throws OptionError for a websocket route: @fastify/websocket, registered after this plugin, passes handlers no reply
 */
export function refuseSocket(route: RouteOptions): void {
  const { websocket, wsHandler } = route as { websocket?: unknown; wsHandler?: unknown }
  if (websocket || wsHandler)
    throw wrongOption(`${nameOf(route)}: websocket`, true, 'Register @fastify/websocket before this plugin.')
}

function watched(fastify: FastifyInstance): Watched | undefined {
  return apps.get(rootOf(fastify))
}

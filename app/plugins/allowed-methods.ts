import type { FastifyInstance } from 'fastify'

/** Collects the routes that are declared from here on. @returns the methods that an address takes */
export function allowedMethods(fastify: FastifyInstance): (url: string) => string[] {
  const routes = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  fastify.addHook('onRoute', ({ url, method }) => {
    if (url.includes('*')) return
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    for (const each of [method].flat()) route.methods.add(each)
    routes.set(url, route)
  })
  return url => {
    const path = url.split('?', 1)[0] ?? ''
    const found = [...routes.values()].filter(({ pattern }) => pattern.test(path))
    return [...new Set(found.flatMap(({ methods }) => [...methods]))].sort()
  }
}

function patternOf(url: string): RegExp {
  const parts = url.split('/').map(part => (part.startsWith(':') ? '[^/]+' : part.replace(/[^\w-]/g, '\\$&')))
  return new RegExp(`^${parts.join('/')}$`)
}

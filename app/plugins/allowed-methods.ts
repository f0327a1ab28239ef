import type { FastifyInstance } from 'fastify'

/** The methods that a URL takes, as the router finds them. */
export function allowedMethods(fastify: FastifyInstance, url: string): string[] {
  const found = fastify.supportedMethods.flatMap(method => {
    const route = fastify.findRoute({ method, url })
    return route === null ? [] : [{ method, params: Object.entries(route.params) }]
  })
  // A wildcard route matches addresses where there is nothing, and no parameter is empty.
  const taking = found.filter(({ params }) => params.every(([name, value]) => name !== '*' && value !== ''))
  // A fixed path takes precedence over a parameter: /v1/captcha/verify names no code.
  const spelled = taking.filter(({ params }) => params.length === 0)
  return (spelled.length > 0 ? spelled : taking).map(({ method }) => method).sort()
}

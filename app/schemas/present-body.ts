import type { FastifySchema, RouteOptions } from 'fastify'
import type { TSchema } from 'typebox'
import { limitTransform } from '../../plugin/index.js'

interface Given {
  schema: FastifySchema
  url: string
  route: RouteOptions
}

/** Documents a route's body as it is whenever the document is written: what it names may be reloaded. */
export function presentBody(body: () => TSchema) {
  return limitTransform(({ schema, url }: Given) => ({ schema: { ...schema, body: body() }, url }))
}

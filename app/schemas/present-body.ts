import type { FastifySchema, RouteOptions } from 'fastify'
import type { TSchema } from 'typebox'
import { limitTransform } from '../../plugin/index.js'

interface Given {
  schema: FastifySchema
  url: string
  route: RouteOptions
}

/** Documents a route's body as it is when the document is written, since a reload may replace what the body names. */
export function presentBody(body: () => TSchema) {
  return limitTransform(({ schema, url }: Given) => ({ schema: { ...schema, body: body() }, url }))
}

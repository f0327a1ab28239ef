import type { FastifySchema, RouteOptions } from 'fastify'
import type { TSchema } from 'typebox'
import { limitTransform } from '../../plugin/index.js'

interface Given {
  schema: FastifySchema
  url: string
  route: RouteOptions
}

/** Documents this body in place of the route's own, asked for at each writing: a reload may replace what it names. */
export function presentBody(body: () => TSchema) {
  return limitTransform(({ schema, url }: Given) => ({ schema: { ...schema, body: body() }, url }))
}

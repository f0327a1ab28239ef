import type { FastifySchema, RouteOptions } from 'fastify'
import { documented, sources } from './openapi.js'
import { limitedBy } from './plan.js'

/**
 * Wraps the `transform` of \@fastify/swagger that an app needs whose schemas are not JSON Schema, such as
 * `jsonSchemaTransform` of fastify-type-provider-zod: of limited routes it documents what their rules can answer.
 */
export function limitTransform<
  Given extends { schema: FastifySchema; url: string; route: RouteOptions },
  Made extends { schema?: unknown }
>(transform: (given: Given) => Made): (given: Given) => Made {
  return given => {
    const { schema } = given
    // The transform reads the app's own language alone.
    const made = transform(
      sources.has(schema as object) ? { ...given, schema: sources.get(schema as object) } : given
    )
    const limited = limitedBy(given.route.config ?? {})
    return limited ? { ...made, schema: documented(made.schema as FastifySchema, limited) } : made
  }
}

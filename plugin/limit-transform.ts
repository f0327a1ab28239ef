import type { FastifySchema, RouteOptions } from 'fastify'
import { documented, sources } from './openapi.js'
import { limitedBy } from './plan.js'

/**
 * Wraps the `transform` that \@fastify/swagger needs in an app whose schemas are not JSON Schema, such as
 * `jsonSchemaTransform` of fastify-type-provider-zod. For limited routes it documents the answers of their rules, too.
 */
export function limitTransform<
  Given extends { schema: FastifySchema; url: string; route: RouteOptions },
  Made extends { schema?: unknown }
>(transform: (given: Given) => Made): (given: Given) => Made {
  return given => {
    const { schema } = given
    // The transform reads only the app's own schema language, so it gets the schema that the app has written.
    const made = transform(
      sources.has(schema as object) ? { ...given, schema: sources.get(schema as object) } : given
    )
    const limited = limitedBy(given.route.config ?? {})
    return limited ? { ...made, schema: documented(made.schema as FastifySchema, limited) } : made
  }
}

import type { FastifySchema } from 'fastify'

/** A body or an answer that may have a schema for each type of content. */
interface Whole {
  content?: Record<string, { schema?: unknown } | undefined>
}

type Parts = FastifySchema & { body?: Whole | undefined; query?: unknown }

/** Whether any part of a schema is not JSON Schema. */
export function isForeign(schema: FastifySchema | null | undefined): boolean {
  return partsOf(schema).some(isStandard)
}

/** The parts of a route's schema, of the request and of its answers. Each is in the app's own schema language. */
function partsOf(schema: FastifySchema | null | undefined): unknown[] {
  // Fastify takes `query` for `querystring`, but only after it has told of the route.
  const { body, querystring, query, params, headers, response } = (schema ?? {}) as Parts
  const answers = Object.values((response ?? {}) as Record<string, Whole | undefined>)
  const contents = [body, ...answers].flatMap(each => Object.values(each?.content ?? {}))
  // fastify-type-provider-zod reads an answer's "properties", too.
  const described = [...answers, ...contents.map(content => content?.schema)]
  const members = described.map(each => (each as { properties?: unknown } | undefined)?.properties)
  return [body, querystring, query, params, headers, ...described, ...members]
}

/**
 * Whether a part is a Standard Schema (standardschema.dev), as those of Zod, Valibot and others are. JSON Schema that
 * Zod has written is none: it has the schema that it came from as a hidden member.
 */
function isStandard(part: unknown): boolean {
  if ((part as { '~standard'?: unknown } | null | undefined)?.['~standard'] === undefined) return false
  const hidden = Object.getOwnPropertyDescriptor(part, '~standard')?.enumerable === false
  // Tells plain objects of any realm: the one listener for routes (early-routes.ts) may be of another realm than the
  // app.
  const above = Object.getPrototypeOf(part)
  return !hidden || (above !== null && Object.getPrototypeOf(above) !== null)
}

import type { FastifySchema } from 'fastify'

interface Answer {
  content?: Record<string, { schema?: unknown } | undefined>
}

/** Whether any part of a schema is not JSON Schema. */
export function isForeign(schema: FastifySchema | null | undefined): boolean {
  return partsOf(schema).some(isStandard)
}

/** The parts of a route's schema, of the request and of its answers. Each is in the app's own schema language. */
function partsOf(schema: FastifySchema | null | undefined): unknown[] {
  const { body, querystring, params, headers, response } = schema ?? {}
  const answers = Object.values((response ?? {}) as Record<string, Answer | undefined>)
  const contents = answers.flatMap(answer => Object.values(answer?.content ?? {}))
  // fastify-type-provider-zod reads an answer's "properties", too.
  const described = [...answers, ...contents.map(content => content?.schema)]
  const members = described.map(each => (each as { properties?: unknown } | undefined)?.properties)
  return [body, querystring, params, headers, ...described, ...members]
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

import type { FastifySchema } from 'fastify'

interface Answer {
  content?: Record<string, { schema?: unknown } | undefined>
}

/** Whether any part of a schema is not JSON Schema. */
export function isForeign(schema: FastifySchema | null | undefined): boolean {
  return partsOf(schema).some(isStandard)
}

/** What a schema says of a request and its answers, each in the app's own language. */
function partsOf(schema: FastifySchema | null | undefined): unknown[] {
  const { body, querystring, params, headers, response } = schema ?? {}
  const answers = Object.values((response ?? {}) as Record<string, Answer | undefined>)
  const contents = answers.flatMap(answer => Object.values(answer?.content ?? {}))
  // fastify-type-provider-zod reads an answer's "properties", too.
  const described = [...answers, ...contents.map(content => content?.schema)]
  const members = described.map(each => (each as { properties?: unknown } | undefined)?.properties)
  return [body, querystring, params, headers, ...described, ...members]
}

/** Zod, Valibot and others (standardschema.dev); not the JSON Schema that Zod writes, in which it hides what it came from. */
function isStandard(part: unknown): boolean {
  if ((part as { '~standard'?: unknown } | null | undefined)?.['~standard'] === undefined) return false
  const hidden = Object.getOwnPropertyDescriptor(part, '~standard')?.enumerable === false
  // Whether it is a plain object, of whatever realm: the one listener for routes (early-routes.ts) may be of another one.
  const above = Object.getPrototypeOf(part)
  return !hidden || (above !== null && Object.getPrototypeOf(above) !== null)
}

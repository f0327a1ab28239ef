import type { FastifySchema } from 'fastify'

/** Adds a request header to the schema of a route. */
export function withHeader(schema: FastifySchema = {}, name: string, description: string): FastifySchema {
  const { properties, ...headers } = (schema.headers ?? { type: 'object' }) as { properties?: object }
  return {
    ...schema,
    headers: { ...headers, properties: { ...properties, [name]: { type: 'string', description } } }
  }
}

/** Adds an answer header to the schema of a route, for those of the statuses that it documents. */
export function withAnswerHeader(
  schema: FastifySchema,
  statuses: readonly number[],
  name: string,
  description: string
): FastifySchema {
  const response = { ...(schema.response as Record<number, { headers?: object }>) }
  for (const status of statuses) {
    const answer = response[status]
    if (answer === undefined) continue
    response[status] = { ...answer, headers: { ...answer.headers, [name]: { type: 'string', description } } }
  }
  return { ...schema, response }
}

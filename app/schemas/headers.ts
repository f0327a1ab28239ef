import type { FastifySchema } from 'fastify'

/** The schema of a route with a header of the request in it. */
export function withHeader(schema: FastifySchema = {}, name: string, description: string): FastifySchema {
  const { properties, ...headers } = (schema.headers ?? { type: 'object' }) as { properties?: object }
  return {
    ...schema,
    headers: { ...headers, properties: { ...properties, [name]: { type: 'string', description } } }
  }
}

/** The same with a header of the answers of some statuses, where they are documented. */
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

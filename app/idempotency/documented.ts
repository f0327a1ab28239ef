import type { FastifySchema } from 'fastify'

const KEY = {
  type: 'string',
  description:
    'One for each message, such as a UUID. A repetition with the same key and body gets the first answer again.'
}

/** The schema of a route with the header in it. */
export function documented(schema: FastifySchema = {}): FastifySchema {
  const { properties, ...headers } = (schema.headers ?? { type: 'object' }) as { properties?: object }
  return { ...schema, headers: { ...headers, properties: { ...properties, 'idempotency-key': KEY } } }
}

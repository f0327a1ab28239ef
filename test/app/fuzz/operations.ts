import type { App } from '../helper.js'

/** A JSON schema, as far as the documents of this app use it. */
export interface Schema {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  items?: Schema
  pattern?: string
  minLength?: number
  maxLength?: number
  examples?: unknown[]
  $ref?: string
}

type Content = Record<string, { schema: Schema }>

interface Documented {
  operationId: string
  security: object[]
  parameters?: { in: 'path' | 'query' | 'header'; name: string; schema: Schema }[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content; headers?: object; description?: string }>
}

export interface OpenApi {
  paths: Record<string, Record<string, Documented>>
  components: object
}

/** One operation of the OpenAPI document. */
export interface Operation extends Documented {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  /** The schema of its body; undefined if it takes none. */
  body: Schema | undefined
}

/** Every operation of the OpenAPI document of the app. */
export function operationsOf(app: App): { document: OpenApi; operations: Operation[] } {
  const document = app.swagger() as unknown as OpenApi
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, documented]) => ({
      ...documented,
      method: method.toUpperCase() as Operation['method'],
      path,
      body: documented.requestBody?.content['application/json']?.schema
    }))
  )
  return { document, operations }
}

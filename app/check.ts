import type { Static, TSchema } from 'typebox'
import { Errors } from 'typebox/value'

/** Something that an operator wrote is wrong; the message says what, and what would be right. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

/**
 * Reads the JSON of a file that an operator wrote: some editors put a byte order mark before it (RFC 8259, section 8.1).
 * @throws when it is none, or not in UTF-8: it would be sent with other characters in their place
 */
export const parseJson = (file: Uint8Array) =>
  JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(file))

/**
 * Holds a value against its schema.
 * @param called what the value as a whole is called, for the error
 * @throws ConfigError that names the first member at fault
 */
export function check<S extends TSchema>(schema: S, value: unknown, called: string): Static<S> {
  const error = Errors(schema, value).find(each => each.keyword !== 'boolean')
  if (error === undefined) return value as Static<S>
  const { requiredProperties, additionalProperties, allowedValues } = error.params as Record<string, string[]>
  const path = error.instancePath.split('/').slice(1)
  const extra = requiredProperties?.[0] ?? additionalProperties?.[0]
  if (extra !== undefined) path.push(extra)
  const right = allowedValues ? `must be one of ${allowedValues.join(', ')}` : error.message
  const { description, writeOnly } = member(schema, path) ?? {}
  // What is not expected may be a secret under a wrong name.
  const given = extra !== undefined || writeOnly ? '' : ` (${JSON.stringify(at(value, path))})`
  const hint = description === undefined ? '' : ` It is ${description}.`
  throw new ConfigError(`${called}${path.join('.')}${given} ${right}.${hint}`)
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((each, name) => (each as Record<string, unknown> | undefined)?.[name], value)
}

function member(schema: TSchema, path: readonly string[]) {
  return at(
    schema,
    path.flatMap(name => ['properties', name])
  ) as { description?: string; writeOnly?: boolean } | undefined
}

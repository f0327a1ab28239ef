import type { Static, TSchema } from 'typebox'
import { Errors } from 'typebox/value'
import { wrongOption } from './errors.js'

/**
 * Holds a value against its schema.
 * @param at the path of the value, for the error
 * @throws OptionError with the path of the first mistake and what would be right
 */
export function conform<S extends TSchema>(schema: S, value: unknown, at: string): Static<S> {
  const errors = Errors(schema, value)
  // An unknown member is told twice; the second time by what the object allows.
  const error = errors.find(each => each.keyword !== 'boolean')
  if (error === undefined) return value as Static<S>
  const path = error.instancePath.split('/').slice(1)
  const params = error.params as { additionalProperties?: string[]; requiredProperties?: string[]; allowedValues?: unknown[] }
  const { additionalProperties: [unknown] = [], requiredProperties: [missing] = [], allowedValues } = params
  if (unknown !== undefined) {
    throw wrongOption(dotted(at, [...path, unknown]), memberAt(value, [...path, unknown]), `There is no such option here; known are ${known(memberAt(schema, schemaPath(path)))}.`)
  }
  if (missing !== undefined) throw wrongOption(dotted(at, [...path, missing]), undefined, 'It is required.')
  const right = allowedValues ? `It must be one of ${allowedValues.join(', ')}.` : `It ${error.message}.`
  throw wrongOption(dotted(at, path), memberAt(value, path), right + described(memberAt(schema, schemaPath(path))))
}

function schemaPath(path: string[]): string[] {
  return path.flatMap(name => (/^\d+$/.test(name) ? ['items'] : ['properties', name]))
}

function memberAt(value: unknown, path: string[]): unknown {
  return path.reduce<unknown>((each, name) => (each as Record<string, unknown> | undefined)?.[name], value)
}

function known(schema: unknown): string {
  return Object.keys((schema as { properties?: object } | undefined)?.properties ?? {}).join(', ')
}

function described(schema: unknown): string {
  const description = (schema as { description?: string } | undefined)?.description
  return description === undefined ? '' : ` Right: ${description}.`
}

/** `rules` and ['0', 'max'] make `rules[0].max`. */
export function dotted(at: string, path: readonly string[]): string {
  return path.reduce((text, name) => (/^\d+$/.test(name) ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`), at)
}

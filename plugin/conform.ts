import type { Static, TSchema } from 'typebox'
import { Errors, Pointer } from 'typebox/schema'
import { wrongOption } from './mistakes.js'

/**
 * Holds a value against its schema.
 * @param at the path of the value, for the error
 * @throws OptionError with the path of the first mistake and what would be right
 */
export function conform<S extends TSchema>(
  schema: S,
  value: unknown,
  at: string
): asserts value is Static<S> {
  // An unknown member is told twice; the second time by what the object allows.
  const [, errors] = Errors(schema, value)
  // Of eight unknown members TypeBox tells the first time alone: its list ends there.
  const error = errors.find(each => each.keyword !== 'boolean') ?? errors[0]
  if (error === undefined) return
  const path = Pointer.Indices(error.instancePath)
  const { additionalProperties, requiredProperties } = error.params as {
    additionalProperties?: string[]
    requiredProperties?: string[]
  }
  const [unknown] = error.keyword === 'boolean' ? path.splice(-1) : (additionalProperties ?? [])
  const [missing] = requiredProperties ?? []
  const place = unknown === undefined && missing === undefined ? path : [...path, unknown ?? missing ?? '']
  throw wrongOption(
    dotted(at, place),
    memberAt(value, place),
    unknown === undefined
      ? `It ${missing === undefined ? '' : 'is required and '}must be ${wanted(memberAt(schema, schemaPath(place)))}.`
      : `There is no such option here; known: ${known(memberAt(schema, schemaPath(path)))}.`,
    // It may be a secret under a wrong name.
    unknown !== undefined && at === 'options'
  )
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

/** What a schema asks for, to follow "must be". */
function wanted(schema: unknown): string {
  const {
    description,
    enum: values,
    type
  } = schema as { description?: string; enum?: string[]; type?: string }
  if (description !== undefined) return description
  if (values !== undefined) return `one of ${values.join(', ')}`
  return `${/^[aeiou]/.test(type ?? '') ? 'an' : 'a'} ${type}`
}

/** `rules` and ['0', 'max'] make `rules[0].max`. */
function dotted(at: string, path: readonly string[]): string {
  return path.reduce(
    (text, name) => (/^\d+$/.test(name) ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`),
    at
  )
}

import type { Static, TSchema } from 'typebox'
import { Errors, Pointer } from 'typebox/schema'
import { wrongOption } from './mistakes.js'

/** What is asked of a schema to say what would be right. */
interface Described {
  description?: string
  enum?: string[]
  type?: string
  properties?: Record<string, Described>
  items?: Described
}

/**
 * Holds a value against its schema: an object, or a list, whose members have no members of their own there.
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
  const [inner] = Pointer.Indices(error.instancePath)
  const { additionalProperties, requiredProperties } = error.params as {
    additionalProperties?: string[]
    requiredProperties?: string[]
  }
  const { properties = {}, items } = schema as Described
  const unknown = error.keyword === 'boolean' ? inner : additionalProperties?.[0]
  const missing = requiredProperties?.[0]
  const name = unknown ?? missing ?? inner
  const right =
    unknown === undefined
      ? `It ${missing === undefined ? '' : 'is required and '}must be ${wanted(name === undefined ? schema : (items ?? properties[name]))}.`
      : `There is no such option here; known: ${Object.keys(properties).join(', ')}.`
  if (name === undefined) throw wrongOption(at, value, right)
  const path = /^\d+$/.test(name) ? `${at}[${name}]` : `${at}.${name}`
  // It may be a secret under a wrong name.
  const secret = unknown !== undefined && at === 'options'
  throw wrongOption(path, (value as Record<string, unknown>)[name], right, secret)
}

/** What a schema asks for, to follow "must be". */
function wanted({ description, enum: values, type = '' }: Described = {}): string {
  if (description !== undefined) return description
  if (values !== undefined) return `one of ${values.join(', ')}`
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`
}

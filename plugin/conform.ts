import { Ajv, type SchemaObject } from 'ajv'
import { wrongOption } from './mistakes.js'
import type { ObjectSchema } from './schemas.js'

const ajv = new Ajv({
  // Checking the schemas themselves takes longer than checking all values by them.
  meta: false,
  validateSchema: false,
  allowUnionTypes: true,
  // The keyword `is` checks by a function what JSON Schema cannot express.
  keywords: [{ keyword: 'is', validate: (is: (value: unknown) => boolean, value: unknown) => is(value) }]
})

/**
 * Checks a value by its schema.
 * @param at the path of the value, for the error
 * @throws OptionError with what would be right
 */
export function conformValue(schema: SchemaObject, value: unknown, at: string): void {
  if (!ajv.validate(schema, value)) throw wrongOption(at, value, `It must be ${wanted(schema)}.`)
}

/**
 * Checks an object by its schema. Each member is checked by itself, since Ajv takes long to compile schemas of members
 * that few apps set. A member that is undefined counts as left out.
 * @throws OptionError with the path of the first mistake and what would be right
 */
export function conform<T>(schema: ObjectSchema<T>, value: unknown, at: string): asserts value is T {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrongOption(at, value, `It must be ${schema.description}.`)
  const properties: Record<string, SchemaObject> = schema.properties
  const members = value as Record<string, unknown>
  // Before what is missing, since an unknown member may be just that under a wrong name.
  const unknown = Object.keys(members).find(
    name => members[name] !== undefined && !Object.hasOwn(properties, name)
  )
  if (unknown !== undefined && !schema.open) {
    const right = `There is no such option here; known: ${Object.keys(properties).join(', ')}.`
    // The error does not show the value: it may be the secret under a wrong name.
    throw wrongOption(`${at}.${unknown}`, members[unknown], right, at === 'options')
  }
  const missing = Object.keys(schema.required).find(name => members[name] === undefined)
  if (missing !== undefined) {
    const right = `It is required and must be ${wanted(properties[missing])}.`
    throw wrongOption(`${at}.${missing}`, undefined, right)
  }
  for (const [name, member] of Object.entries(properties))
    if (members[name] !== undefined) conformValue(member, members[name], `${at}.${name}`)
}

/** What a schema asks for, to follow "must be". */
function wanted({ description, enum: values, type }: SchemaObject = {}): string {
  if (description !== undefined) return description
  if (values !== undefined) return `one of ${values.join(', ')}`
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`
}

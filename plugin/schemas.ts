import type { SchemaObject } from 'ajv'

/** The members that are not optional. */
type Needed<T> = { readonly [Name in keyof T as T extends Required<Pick<T, Name>> ? Name : never]: true }

/** An object, described by the JSON Schemas of its members. The compiler checks that they are the members of `T`. */
export interface ObjectSchema<T> {
  properties: { readonly [Name in keyof T]-?: SchemaObject & { enum?: readonly T[Name][] } }
  required: Needed<T>
  description: string
  /** Whether the object may have other members. */
  open: boolean
}

export function object<T>(
  properties: ObjectSchema<T>['properties'],
  required: ObjectSchema<T>['required'],
  description = 'an object'
): ObjectSchema<T> {
  return { properties, required, description, open: false }
}

export const Name: SchemaObject = {
  type: 'string',
  pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$',
  description: '1 to 64 letters, digits, "_", "." and "-", a letter or digit first'
}

export const Duration: SchemaObject = {
  type: ['string', 'number'],
  description: 'a duration such as "60s", "5m", "1h", "24h", "30d", or milliseconds'
}

/** How many bits of an IPv4 address name a network. */
export const Ipv4Prefix = wholeNumber(8, 32)

/** How many bits of an IPv6 address name a network. */
export const Ipv6Prefix = wholeNumber(16, 128)

export function wholeNumber(minimum: number, maximum: number): SchemaObject {
  return { type: 'integer', minimum, maximum, description: `a whole number from ${minimum} to ${maximum}` }
}

/** Any function: only its TypeScript type says what it takes and returns. */
export const Fn: SchemaObject = { is: isFunction, description: 'a function' }

export function isFunction(value: unknown): boolean {
  return typeof value === 'function'
}

import fc, { type Arbitrary } from 'fast-check'
import type { Schema } from './operations.js'

/** Meaningful values, which no schema tells, by the name of the member. */
export type Words = Record<string, readonly unknown[]>

/** Values that a schema allows, mostly meaningful ones. */
export function validOf(schema: Schema, words: Words, name = ''): Arbitrary<unknown> {
  const known = [...(words[name] ?? []), ...(schema.examples ?? [])]
  const free = freeOf(schema, words)
  if (known.length === 0) return free
  return fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...known) },
    { weight: schema.maxLength === undefined || schema.pattern ? 1 : 2, arbitrary: free }
  )
}

function freeOf(schema: Schema, words: Words): Arbitrary<unknown> {
  const { anyOf, enum: allowed, pattern, minLength = 0, maxLength = 64, properties, required = [] } = schema
  if (anyOf) return fc.oneof(...anyOf.map(each => validOf(each, words)))
  if (allowed) return fc.constantFrom(...allowed)
  if ('const' in schema) return fc.constant(schema.const)
  if (schema.type === 'null') return fc.constant(null)
  if (schema.type === 'boolean') return fc.boolean()
  if (schema.type === 'object') {
    if (properties === undefined) return fc.dictionary(fc.stringMatching(/^\w{1,32}$/), odd, { maxKeys: 4 })
    const members = Object.entries(properties).map(([key, each]) => {
      const valid = validOf(each, words, key)
      return [
        key,
        required.includes(key) ? valid : fc.oneof({ weight: 2, arbitrary: absent }, valid)
      ] as const
    })
    return fc.record(Object.fromEntries(members)).map(withoutAbsent)
  }
  if (schema.type !== 'string') throw new Error(`no values for ${JSON.stringify(schema)}`)
  if (pattern === undefined) return text(minLength, maxLength)
  return fc
    .stringMatching(new RegExp(pattern))
    .filter(({ length }) => length >= minLength && length <= maxLength)
}

const absent = fc.constant(undefined)

const withoutAbsent = (object: object) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))

const text = (minLength: number, maxLength: number) =>
  fc.string({
    minLength,
    maxLength: Math.min(maxLength, 400),
    unit: fc.oneof(fc.constantFrom(...NASTY), unit)
  })

// Controls, line ends, bidirectional and zero-width characters, halves of a pair, digits and dots of other scripts.
const NASTY = [
  ...'\0\x07\b\t\n\r\x1b\x7f\x85\xa0\xad\u200b\u200d\u200e\u202e\u2028\u2029\u2066\u2069\ufeff\ufffd\uffff',
  '\ud800',
  '\udfff',
  ...'０１９.。@＠+＋%\'"\\/<>{}$;İıßſΩ',
  '👩‍👩‍👧',
  '🇨🇳'
]
const unit = fc.string({ minLength: 1, maxLength: 1, unit: 'binary' })

/** A text of any kind. */
export const anyText = text(0, 64)

/** Values that no schema here wants. */
export const odd: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(null, true, false, 0, -1, 1.5, 1e308, 2 ** 53, '', ' ', '0', 'null', [], {}, [[]], [null]),
  fc.constantFrom('a'.repeat(5_000), '9'.repeat(5_000), '😀'.repeat(1_000), '\u202e'.repeat(65), '\0'),
  fc.constantFrom(['13800138000'], { $ne: null }, { toString: 1 }, { length: 3 }, { toJSON: 1 }),
  anyText,
  fc.jsonValue({ maxDepth: 3 })
)

/** Names of members that do harm where they are treated as plain ones. */
export const oddName = fc.oneof(
  fc.constantFrom(
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    'hasOwnProperty',
    '',
    ' ',
    'a/b~c',
    '0'
  ),
  anyText
)

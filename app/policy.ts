import { readFileSync } from 'node:fs'
import { type Static, Type } from 'typebox'
import type { Rule } from '../plugin/index.js'
import { check } from './check.js'

const strict = { additionalProperties: false }

/** What may be sent, and how often. The rules are checked where they are registered. */
export const PolicySchema = Type.Object(
  {
    purposes: Type.Record(
      Type.String({ pattern: '^[a-z][a-z0-9-]{0,31}$' }),
      Type.Object({ action: Type.String({ minLength: 1, maxLength: 80 }) }, strict),
      { minProperties: 1, description: 'what a code may be for, with the words for it in the message' }
    ),
    code: Type.Object(
      {
        digits: Type.Integer({ minimum: 4, maximum: 10 }),
        lifetimeSeconds: Type.Integer({ minimum: 30, maximum: 600 }),
        tries: Type.Integer({ minimum: 1, maximum: 9 })
      },
      strict
    ),
    rules: Type.Array(Type.Unsafe<Rule>({}))
  },
  strict
)
export type Policy = Static<typeof PolicySchema>

/** @throws ConfigError that names what is wrong */
export function loadPolicy(): Policy {
  const text = readFileSync(new URL('policy.json', import.meta.url), 'utf8')
  return check(PolicySchema, JSON.parse(text), 'policy.')
}

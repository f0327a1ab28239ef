import { readFileSync } from 'node:fs'
import { type Static, Type } from 'typebox'
import type { Rule } from '../plugin/index.js'
import { PricesSchema } from './audit/cost.js'
import { ConfigError, check } from './check.js'
import { LOCALES } from './locales/locale.js'

const strict = { additionalProperties: false }

const Words = Type.Object(
  Object.fromEntries(LOCALES.map(locale => [locale, Type.String({ minLength: 1, maxLength: 80 })])),
  { ...strict, description: 'the words for it in each language' }
)

/** What may be sent, how often, and what it costs. The rules are checked where they are registered. */
export const PolicySchema = Type.Object(
  {
    purposes: Type.Record(
      Type.String({ pattern: '^[a-z][a-z0-9-]{0,31}$' }),
      Type.Object(
        {
          action: Words,
          conceal: Type.Optional(
            Type.Boolean({ description: 'whether the answer is to say nothing of the recipient' })
          )
        },
        strict
      ),
      { minProperties: 1, description: 'what a code may be for' }
    ),
    code: Type.Object(
      {
        digits: Type.Integer({ minimum: 4, maximum: 10 }),
        lifetimeSeconds: Type.Integer({ minimum: 30, maximum: 600 }),
        tries: Type.Integer({ minimum: 1, maximum: 10 }),
        resend: Type.Enum(['rotate', 'reuse'])
      },
      strict
    ),
    countries: Type.Optional(
      Type.Array(Type.String({ pattern: '^[A-Z]{2}$' }), {
        minItems: 1,
        description: 'a list of countries as in ["CN", "SG"]: whose numbers are sent to; all when left out'
      })
    ),
    prices: Type.Optional(PricesSchema),
    rules: Type.Array(Type.Unsafe<Rule>({}))
  },
  strict
)
export type Policy = Static<typeof PolicySchema>

const OWN = new URL('policy.json', import.meta.url)

/**
 * @param file the app's own when left out
 * @throws ConfigError that says what is wrong, and where
 */
export function loadPolicy(file: string | URL = OWN): Policy {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new ConfigError(`The policy cannot be read: ${(error as Error).message}`)
  }
  return check(PolicySchema, value, 'policy.')
}

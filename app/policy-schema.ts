import { type Static, Type } from 'typebox'
import { PricesSchema } from './audit/cost.js'
import { DECIDES, KINDS, type PolicyRule } from './facts.js'
import { NO_COUNTRY } from './recipient.js'
import { PARAM_PATTERN, PURPOSE_PATTERN, strict } from './schemas/common.js'

const COUNTRY = `two capital letters as in "CN" (ISO 3166-1), or "${NO_COUNTRY}" for numbers of none`
export const Country = Type.String({ pattern: `^([A-Z]{2}|${NO_COUNTRY})$`, description: COUNTRY })

const Words = Type.Record(Type.String(), Type.String(), {
  description: 'the words for the purpose by language, as in { "en": "log in" }'
})

const Code = Type.Object(
  {
    digits: Type.Integer({ minimum: 4, maximum: 10 }),
    lifetimeSeconds: Type.Integer({ minimum: 30, maximum: 600 }),
    tries: Type.Integer({ minimum: 1, maximum: 10 }),
    resend: Type.Enum(['rotate', 'reuse'])
  },
  strict
)

/** The app's own policy; in a build, the copy beside the compiled code. */
export const OWN = new URL('policy.json', import.meta.url)

/** The names of the rules that every policy has. */
export const RULES = Object.keys(DECIDES)

/** Only these members are checked here; the plugin checks the rest. */
const RuleSchema = Type.Unsafe<PolicyRule>(
  Type.Object({
    name: Type.String(),
    on: Type.Optional(
      Type.Array(Type.Enum(KINDS), {
        minItems: 1,
        uniqueItems: true,
        description: `a list of the requests on which a rule of your own decides: ${KINDS.join(', ')}`
      })
    )
  })
)

const CountryQuotas = Type.Record(
  Type.String({ pattern: `^([A-Z]{2}|${NO_COUNTRY}|default)$` }),
  Type.Integer({
    minimum: 1,
    maximum: 10_000_000,
    description: 'how many messages a day are sent to the numbers of the country'
  }),
  {
    ...strict,
    minProperties: 1,
    description: 'how many messages a day are sent to the numbers of each country',
    names: `${COUNTRY}, or "default" for each of the others`
  }
)

const Params = Type.Array(Type.String({ pattern: PARAM_PATTERN, description: 'the name of a parameter' }), {
  minItems: 1,
  uniqueItems: true,
  description: 'a list of what its codes are bound to, as in ["amount", "payee"]'
})

/** What may be sent, how often, and what it costs. */
export const PolicySchema = Type.Object(
  {
    purposes: Type.Record(
      Type.String({ pattern: PURPOSE_PATTERN }),
      Type.Object(
        {
          action: Words,
          code: Type.Optional(Type.Partial(Code, strict)),
          conceal: Type.Optional(
            Type.Boolean({ description: 'whether the answers hide what becomes of the message' })
          ),
          params: Type.Optional(Params)
        },
        strict
      ),
      {
        ...strict,
        minProperties: 1,
        description: 'what a code may be for',
        names: 'at most 32 of a-z, 0-9 and -, a letter first, as in "log-in"'
      }
    ),
    code: Code,
    countries: Type.Optional(
      Type.Array(Country, {
        minItems: 1,
        description:
          'a list of the countries to whose numbers messages are sent, as in ["CN", "SG"]; all countries when left out'
      })
    ),
    countryQuotas: Type.Optional(CountryQuotas),
    prices: Type.Optional(PricesSchema),
    rules: Type.Array(RuleSchema)
  },
  strict
)
export type Policy = Static<typeof PolicySchema>

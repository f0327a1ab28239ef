import { type Static, type TSchema, Type } from 'typebox'
import { LINE, PARAM_PATTERN, strict, TEMPLATE_PATTERN } from '../schemas/common.js'
import type { Channel } from '../senders/sender.js'

const Line = Type.String({ pattern: `^${LINE}$` })
const Lines = Type.Array(Line, { minItems: 1, description: 'a list of lines' })

/** The most characters that a value may have. */
export const LONGEST = 500

/** Beyond these bounds, a number in JSON may have become another one. */
const Exact = Type.Integer({
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
  description:
    'a bound of an integer, a whole number of at most 9007199254740991; longer numbers are of type string'
})

/** A parameter: the values that may take the place of a `{name}`. */
const ParamSchema = Type.Object(
  {
    type: Type.Enum(['string', 'integer', 'url'], {
      description: 'string: a text without any link; integer: a whole number; url: an https address'
    }),
    maxLength: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LONGEST, description: 'the most characters of a string or url' })
    ),
    pattern: Type.Optional(
      Type.String({ description: 'a regular expression for the whole of a string or url' })
    ),
    minimum: Type.Optional(Exact),
    maximum: Type.Optional(Exact),
    example: Type.String()
  },
  strict
)
export type Param = Static<typeof ParamSchema>

/** Mostly one line; another may name the site of a code. */
const Text = Type.String({ pattern: `^${LINE}(?:\\n${LINE})*$` })
const Sms = Type.Object({ text: Text }, strict)
const Mail = Type.Object(
  {
    subject: Line,
    text: Lines,
    html: Type.Array(Line, {
      minItems: 1,
      description: 'a list of the lines that stand in the body of the page'
    })
  },
  strict
)

const name = Type.String({ pattern: TEMPLATE_PATTERN })
const named = { ...strict, names: 'at most 64 of a-z, 0-9 and -, a letter first, as in "order-shipped"' }
const params = Type.Record(Type.String({ pattern: PARAM_PATTERN }), ParamSchema, {
  ...strict,
  maxProperties: 16,
  names: 'at most 32 letters, digits and _, one of a-z first'
})

/** The templates of a channel, each with its parameters, and its words by language. */
function templates<Words extends TSchema>(words: Words) {
  const locales = Type.Record(Type.String(), words)
  return Type.Record(name, Type.Object({ params, locales }, strict), named)
}

export const TemplatesSchemas = { sms: templates(Sms), mail: templates(Mail) }

/** The words of a template as a file has them; `subject` and `html` belong to mail. */
export interface Words {
  subject?: string
  text: string | readonly string[]
  html?: readonly string[]
}
export interface Template {
  params: Record<string, Param>
  /** The words by language, such as `en`. */
  locales: Record<string, Words>
}
export type TemplateFiles = Record<Channel, Record<string, Template>>

import { Type } from 'typebox'
import { examplesOf } from '../templates/params.js'
import type { Template } from '../templates/schema.js'
import { strict, TEMPLATE_PATTERN } from './common.js'
import { Email, LocaleName, Phone } from './recipient.js'

type Offered = Readonly<Record<string, Template>>

// Values are checked against the template, not here, so that all that is wrong can be named at once.
export const Params = (description: string, examples: object[]) =>
  Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      maxProperties: 16,
      description: `${description} Each value is a text or a whole number.`,
      examples
    })
  )

const Name = (offered: Offered) =>
  Type.String({
    pattern: TEMPLATE_PATTERN,
    description: choiceOf(
      'The name of the template',
      Object.entries(offered).map(([name, { params }]) => [name, Object.keys(params)])
    ),
    examples: Object.keys(offered).slice(0, 1)
  })

/** Describes a name to choose: lists the names, each with its params, as in `order-shipped { order }`. */
export function choiceOf(
  what: string,
  choices: readonly [name: string, params: readonly string[]][]
): string {
  if (choices.length === 0) return `${what}. There is none to choose.`
  const list = choices.map(([name, params]) =>
    params.length === 0 ? name : `${name} { ${params.join(', ')} }`
  )
  const braces = choices.some(([, params]) => params.length > 0)
    ? ' The braces list the `params` of each.'
    : ''
  return `${what}, one of: ${list.join(', ')}.${braces}`
}

const parts = (offered: Offered) => ({
  template: Name(offered),
  params: Params(
    'The parameters of the template, all of them and no others. Leave this out if the template has none.',
    Object.values(offered)
      .slice(0, 1)
      .map(({ params }) => examplesOf(params))
  ),
  locale: Type.Optional(LocaleName)
})

export const SmsBody = (offered: Offered) => Type.Object({ phone: Phone, ...parts(offered) }, strict)

export const MailBody = (offered: Offered) => Type.Object({ to: Email, ...parts(offered) }, strict)

export const MessageAnswer = Type.Object(
  {
    id: Type.String({
      format: 'uuid',
      description: 'The id of the message, by which the log and the audit trail name it.'
    })
  },
  { description: 'A sender has taken the message.' }
)

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
      description: `${description}, no more and no less: texts and whole numbers`,
      examples
    })
  )

const Name = (offered: Offered) =>
  Type.String({
    pattern: TEMPLATE_PATTERN,
    description: `one of ${Object.entries(offered).map(described).join(', ') || 'none'}`,
    examples: Object.keys(offered).slice(0, 1)
  })

const described = ([name, { params }]: [string, Template]) => withParams(name, Object.keys(params))

/** A name with its params, as in `order-shipped { order }`. */
export const withParams = (name: string, params: readonly string[]): string =>
  params.length === 0 ? name : `${name} { ${params.join(', ')} }`

const parts = (offered: Offered) => ({
  template: Name(offered),
  params: Params(
    'what the template names',
    Object.values(offered)
      .slice(0, 1)
      .map(({ params }) => examplesOf(params))
  ),
  locale: Type.Optional(LocaleName)
})

export const SmsBody = (offered: Offered) => Type.Object({ phone: Phone, ...parts(offered) }, strict)

export const MailBody = (offered: Offered) => Type.Object({ to: Email, ...parts(offered) }, strict)

export const MessageAnswer = Type.Object(
  { id: Type.String({ format: 'uuid', description: 'names it in the log and the audit trail' }) },
  { description: 'The message is on its way.' }
)

import { Type } from 'typebox'
import { Phone } from './phone.js'

const strict = { additionalProperties: false }
const Value = Type.Union([
  // Line breaks would make headers of a subject, other controls have no place in a message.
  Type.String({ minLength: 1, maxLength: 64, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$' }),
  Type.Number()
])
const Params = Type.Optional(
  Type.Record(Type.String({ pattern: '^\\w{1,32}$' }), Value, {
    maxProperties: 16,
    additionalProperties: false,
    description: 'what the template names, no more and no less'
  })
)
const Name = <T extends object>(templates: T) => Type.Enum(Object.keys(templates) as (keyof T & string)[])

export const SmsBody = <T extends object>(templates: T) =>
  Type.Object({ phone: Phone, template: Name(templates), params: Params }, strict)

export const MailBody = <T extends object>(templates: T) =>
  Type.Object(
    {
      to: Type.String({
        minLength: 3,
        maxLength: 320,
        description: 'mail address',
        examples: ['someone@example.com']
      }),
      template: Name(templates),
      params: Params
    },
    strict
  )

export const MessageAnswer = Type.Object(
  { id: Type.String({ format: 'uuid' }) },
  { description: 'The message is on its way.' }
)

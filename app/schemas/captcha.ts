import { Type } from 'typebox'
import { ID_PATTERN } from '../captcha/captchas.js'
import type { Policy } from '../policy.js'
import { Phone } from './phone.js'

const strict = { additionalProperties: false }
const Id = Type.String({ pattern: ID_PATTERN, description: 'names a code; says nothing of it' })
const Time = (description: string) => Type.String({ format: 'date-time', description })

export const CaptchaBody = ({ purposes }: Policy) =>
  Type.Object({ phone: Phone, purpose: Type.Enum(Object.keys(purposes)) }, strict)

export const CaptchaAnswer = Type.Object(
  {
    id: Id,
    expiresAt: Time('when the code ends'),
    resendAt: Time('when another one may be asked for, as things stand')
  },
  { description: 'The code is on its way. An older one for this number and purpose has ended.' }
)

export const VerifyBody = ({ code: { digits } }: Policy) =>
  Type.Object(
    { id: Id, code: Type.String({ pattern: `^[0-9]{${digits}}$`, examples: ['0'.repeat(digits)] }) },
    strict
  )

export const VerifyAnswer = Type.Object(
  { verified: Type.Literal(true) },
  { description: 'The code was right. It cannot be used again.' }
)

import { Type } from 'typebox'
import { ID_PATTERN } from '../captcha/captchas.js'
import type { Policy } from '../policy.js'
import { CHANNELS } from '../senders/sender.js'
import { OneOf, PURPOSE_PATTERN, strict, Time } from './common.js'
import { Params, withParams } from './message.js'
import { Email, EXAMPLE_PHONE, LocaleName, Phone } from './recipient.js'

const Id = Type.String({ pattern: ID_PATTERN, description: 'names a code; says nothing of it' })
const Purpose = Type.String({ pattern: PURPOSE_PATTERN, description: 'what the code is for' })
type Purposes = Policy['purposes']
const Channel = OneOf(CHANNELS)
const EXAMPLE = [{ amount: 'EUR 12.50', payee: 'Example Shop' }]
const Masked = Type.String({ description: 'the recipient, masked' })

export const CaptchaParams = Type.Object({ id: Id }, strict)

/** A body that the API accepts as it is; undefined when every purpose has params. */
export function captchaExample(purposes: Purposes) {
  const purpose = Object.keys(purposes).find(name => purposes[name]?.params === undefined)
  return purpose === undefined ? undefined : { phone: EXAMPLE_PHONE, purpose }
}

export const CaptchaBody = (purposes: Purposes) => {
  const names = Object.entries(purposes).map(([name, { params = [] }]) => withParams(name, params))
  const example = captchaExample(purposes)
  return Type.Object(
    {
      phone: Type.Optional(Phone),
      email: Type.Optional(Email),
      purpose: Type.String({ pattern: PURPOSE_PATTERN, description: `one of ${names.join(', ')}` }),
      params: Params(
        'with a key: what the purpose names, which the message shows and the code is bound to',
        EXAMPLE
      ),
      locale: Type.Optional(LocaleName),
      send: Type.Optional(
        Type.Boolean({
          default: true,
          description:
            'false, with a key and for a concealed purpose: all is answered and counted alike, and nothing is sent'
        })
      )
    },
    { ...strict, description: 'Either a phone or an email', ...(example && { examples: [example] }) }
  )
}

/** Null when the body is left out. */
export const ResendBody = Type.Union([
  Type.Object(
    {
      locale: Type.Optional(
        Type.Unsafe<string>({
          ...LocaleName,
          description: 'language of the message, a tag of BCP 47; else that in which the code was asked for'
        })
      )
    },
    strict
  ),
  Type.Null()
])

const answered = {
  id: Id,
  channel: Channel,
  recipient: Masked,
  expiresAt: Time('when the code ends'),
  resendAt: Time('when another one may be asked for, as things stand')
}

export const CaptchaAnswer = Type.Object(answered, { description: 'The code is on its way.' })

export const StatusAnswer = Type.Object(
  {
    ...answered,
    resendAt: Time('when the rule recipient admits another one; others may refuse it until later'),
    purpose: Purpose,
    status: OneOf(['pending', 'verified', 'failed', 'cancelled', 'expired'], {
      description: 'failed: no tries are left'
    }),
    delivery: OneOf(['accepted', 'unknown'], {
      description: 'unknown: no sender has said that it took the message'
    }),
    attemptsLeft: Type.Integer()
  },
  { description: 'How the code stands.' }
)

export const VerifyBody = Type.Object(
  {
    id: Id,
    code: Type.String({
      pattern: '^[\\s‐-―－-]*([0-9０-９][\\s‐-―－-]*){4,10}$',
      maxLength: 64,
      description: 'as a person may type it: with blanks, dashes or digits of full width'
    }),
    purpose: Type.Optional(Purpose),
    phone: Type.Optional(Phone),
    email: Type.Optional(Email),
    params: Params('what the code is bound to', EXAMPLE)
  },
  {
    ...strict,
    description: 'With a purpose or a recipient, the code must be for these.',
    examples: [{ id: 'q2M7xw0yTfK3bR8sVdLh5A', code: '000000' }]
  }
)

export const VerifyAnswer = Type.Object(
  {
    verified: Type.Literal(true),
    attemptsLeft: Type.Integer(),
    purpose: Purpose,
    channel: Channel,
    recipient: Masked,
    params: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'what it was bound to, as its message showed it'
      })
    )
  },
  { description: 'The code was right. It cannot be used again.' }
)

export const CancelAnswer = Type.Null({ description: 'The code is ended.' })

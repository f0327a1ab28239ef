import { Type } from 'typebox'
import { ID_PATTERN } from '../captcha/captchas.js'
import type { Policy } from '../policy-schema.js'
import { CHANNELS } from '../senders/sender.js'
import { OneOf, PURPOSE_PATTERN, strict, Time } from './common.js'
import { choiceOf, Params } from './message.js'
import { ProblemSchema } from './problem.js'
import { Email, EXAMPLE_PHONE, LocaleName, Phone } from './recipient.js'

const Id = Type.String({
  pattern: ID_PATTERN,
  description: 'The id of the code. It reveals neither the code nor the recipient.'
})
const GivenId = Type.String({
  pattern: ID_PATTERN,
  description: 'The id of the code, as in the answer to the request for it.'
})
const Purpose = Type.String({
  pattern: PURPOSE_PATTERN,
  description: 'The purpose for which the code was requested.'
})
type Purposes = Policy['purposes']
const Channel = OneOf(CHANNELS, 'The channel by which the message is sent.')
const EXAMPLE = [{ amount: 'EUR 12.50', payee: 'Example Shop' }]
const Masked = Type.String({
  description: 'The phone number or mail address of the recipient, masked, as in `+86*******8000`.'
})

export const CaptchaParams = Type.Object({ id: GivenId }, strict)

/** A body that the API accepts as it is; undefined when every purpose has params. */
export function captchaExample(purposes: Purposes) {
  const purpose = Object.keys(purposes).find(name => purposes[name]?.params === undefined)
  return purpose === undefined ? undefined : { phone: EXAMPLE_PHONE, purpose }
}

const Challenge = Type.String({
  pattern: '^[!-~]{1,8192}$',
  description:
    'The token of the challenge that the person has solved, such as that of Turnstile. Required without a key. It is accepted once.'
})

/** @param challenging whether the body may have the token of a challenge */
export const CaptchaBody = (purposes: Purposes, challenging: boolean) => {
  const choices = Object.entries(purposes).map(([name, { params = [] }]): [string, string[]] => [
    name,
    params
  ])
  const example = captchaExample(purposes)
  return Type.Object(
    {
      phone: Type.Optional(Phone),
      email: Type.Optional(Email),
      purpose: Type.String({
        pattern: PURPOSE_PATTERN,
        description: choiceOf('The purpose of the code', choices)
      }),
      params: Params(
        'What the code is bound to and its message shows: all parameters of the purpose and no others. Requires a key. Leave this out if the purpose has none.',
        EXAMPLE
      ),
      locale: Type.Optional(LocaleName),
      ...(challenging && { challenge: Type.Optional(Challenge) }),
      send: Type.Optional(
        Type.Boolean({
          default: true,
          description:
            'If false, nothing is sent, but the request is answered and counted as if it were. Allowed only with a key and for a concealed purpose.'
        })
      )
    },
    {
      ...strict,
      description: 'The purpose of the code and its recipient: either `phone` or `email`.',
      ...(example && { examples: [example] })
    }
  )
}

/** Null when the body is left out. */
export const ResendBody = Type.Union(
  [
    Type.Object(
      {
        locale: Type.Optional(
          Type.Unsafe<string>({
            ...LocaleName,
            description:
              'The language of the message (BCP 47). If absent, the language in which the code was requested.'
          })
        )
      },
      strict
    ),
    Type.Null()
  ],
  { description: 'The body may be left out.' }
)

const answered = {
  id: Id,
  channel: Channel,
  recipient: Masked,
  expiresAt: Time('The time at which the code expires, by the clock of the service.'),
  resendAt: Time(
    'The time from which the next code for this recipient can be requested or resent, as things stand, by the clock of the service.'
  )
}

export const CaptchaAnswer = Type.Object(answered, {
  description:
    'A sender has taken the message. For a concealed purpose, this is answered before anything is sent, whether or not a message follows.'
})

/** The problem of a code of which it is not known whether its message was sent. */
export const CodeProblemSchema = Type.Object(
  { ...ProblemSchema.properties, ...Type.Partial(Type.Object(answered)).properties },
  { $id: 'CodeProblem', additionalProperties: true }
)

export const StatusAnswer = Type.Object(
  {
    ...answered,
    resendAt: Time(
      'The time from which the rule `recipient`, and those on wrong codes, admit the next code. Other rules may refuse it for longer.'
    ),
    purpose: Purpose,
    status: OneOf(
      ['pending', 'verified', 'failed', 'cancelled', 'expired'],
      '`pending`: the code can be verified. `verified`: it has been used. `failed`: it was tried too often. `cancelled`: it was cancelled. `expired`: its time is over.'
    ),
    delivery: OneOf(
      ['accepted', 'unknown'],
      '`accepted`: a sender has taken the message; for a concealed purpose always. `unknown`: no sender is known to have taken it.'
    ),
    triesLeft: Type.Integer({
      description: 'How many tries the code has left. 0 unless its status is `pending`.'
    })
  },
  { description: 'The state of the code.' }
)

export const VerifyBody = Type.Object(
  {
    id: GivenId,
    code: Type.String({
      maxLength: 64,
      description:
        'The code as the user typed or pasted it: 4 to 10 digits of any script. Spaces, dashes and invisible characters are ignored.'
    }),
    purpose: Type.Optional(
      Type.Unsafe<string>({
        ...Purpose,
        description: 'The purpose that the code must have been requested for.'
      })
    ),
    phone: Type.Optional(Phone),
    email: Type.Optional(Email),
    params: Params(
      'The `params` of the transaction, the same as in the request for the code. If they differ, the code counts as wrong. Leave this out if the code is bound to none.',
      EXAMPLE
    )
  },
  {
    ...strict,
    description:
      'The code with its id. If `purpose`, `phone` or `email` is given, a code for another purpose or recipient counts as wrong.',
    examples: [{ id: 'q2M7xw0yTfK3bR8sVdLh5A', code: '000000' }]
  }
)

export const VerifyAnswer = Type.Object(
  {
    verified: Type.Literal(true, { description: 'Always true.' }),
    triesLeft: Type.Integer({ description: 'How many tries the code had left.' }),
    purpose: Purpose,
    channel: OneOf(CHANNELS, 'The channel by which the message was sent.'),
    recipient: Masked,
    params: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description:
          'What the code is bound to, as its message showed it. Absent if the code is bound to nothing.'
      })
    )
  },
  { description: 'The code is right. It is used up now and cannot be verified again.' }
)

export const CancelAnswer = Type.Null({ description: 'The code is cancelled.' })

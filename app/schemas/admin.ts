import { Type } from 'typebox'
import { LINE, OneOf, PURPOSE_PATTERN, strict, Time } from './common.js'
import { Email, EXAMPLE_PHONE, Phone, RecipientHash } from './recipient.js'

const Recipient = {
  phone: Type.Optional(Phone),
  email: Type.Optional(Email),
  recipientHash: Type.Optional(RecipientHash)
}

const ONE_RECIPIENT = 'Exactly one recipient: `phone`, `email` or `recipientHash`.'

const NOT_WITH_HASH = 'Not allowed with `recipientHash`.'

export const RecipientBody = Type.Object(
  {
    ...Recipient,
    endUserIp: Type.Optional(
      Type.String({
        minLength: 2,
        maxLength: 64,
        description: `The IP address of an end user. Includes the rules that count by this address. ${NOT_WITH_HASH}`,
        examples: ['192.0.2.1']
      })
    ),
    purpose: Type.Optional(
      Type.String({
        pattern: PURPOSE_PATTERN,
        description: `A purpose of codes. Includes the rules that count by this purpose. ${NOT_WITH_HASH}`
      })
    )
  },
  {
    ...strict,
    description: ONE_RECIPIENT,
    examples: [{ phone: EXAMPLE_PHONE, endUserIp: '192.0.2.1' }]
  }
)

export const ListBody = Type.Object(
  {
    ...Recipient,
    duration: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,7}(s|m|h|d)$',
        description:
          'How long this lasts, in `s`, `m`, `h` or `d`, at most `366d`. If absent, it lasts until the recipient is unblocked.',
        examples: ['24h']
      })
    ),
    reason: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        pattern: `^${LINE}$`,
        description:
          'The reason in one line, which the list and the audit trail show. Do not name a person in it.'
      })
    )
  },
  {
    ...strict,
    description: ONE_RECIPIENT,
    examples: [{ phone: EXAMPLE_PHONE, duration: '24h', reason: 'complaint' }]
  }
)

/**
 * As the document has it: its pattern allows U+2028 and U+2029. To forbid them it would need `\u`, which Go does not
 * know, and which generators of clients turn into the line break itself, in the middle of a regular expression.
 */
export const DocumentedListBody = {
  ...ListBody,
  properties: {
    ...ListBody.properties,
    reason: { ...ListBody.properties.reason, pattern: '^[^\\x00-\\x1f\\x7f-\\x9f]*$' }
  }
}

export const PageQuery = Type.Object(
  {
    standing: Type.Optional(OneOf(['blocked', 'allowed'], 'Which recipients to list. If absent, both.')),
    limit: Type.Optional(
      // A text, since members of a query are texts and nothing is coerced.
      Type.String({
        pattern: '^([1-9][0-9]?|100)$',
        description: 'How many recipients the page has at most, 1 to 100. If absent, 50.'
      })
    ),
    after: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,14}$',
        description: 'The `next` of the previous page. If absent, the first page.'
      })
    )
  },
  strict
)

const StandingMembers = {
  standing: OneOf(['blocked', 'allowed'], 'Whether the recipient is blocked or allowed.'),
  reason: Type.Optional(Type.String({ description: 'The reason. Absent if none was given.' })),
  since: Time('The time at which the recipient was blocked or allowed.'),
  until: Type.Optional(Time('The time at which this ends by itself. Absent if it does not.'))
}
const Name = {
  recipient: Type.Optional(
    Type.String({
      description: 'The phone number or mail address, masked. Absent if only the hash is known.'
    })
  ),
  recipientHash: RecipientHash
}

const NOT_BY_HASH = 'Absent in a look-up by `recipientHash`, by which no rule counts.'

export const LookupAnswer = Type.Object(
  {
    ...Name,
    standing: Type.Union([Type.Object(StandingMembers), Type.Null()], {
      description: 'How the recipient is listed. Null if the recipient is neither blocked nor allowed.'
    }),
    rules: Type.Optional(
      Type.Array(
        Type.Object({
          rule: Type.String({ description: 'The name of the rule.' }),
          max: Type.Number({
            description:
              'How many messages, different recipients or tries of a code the limit allows; 0 if the rule itself blocks the recipient.'
          }),
          used: Type.Number({
            description:
              'How many of these are used. For rules on different recipients, only others count here.'
          }),
          remaining: Type.Number({ description: 'How many of these are left.' }),
          windowMs: Type.Number({
            description: 'The length of the window, in milliseconds. For a lock, the longest time it is held.'
          }),
          resetMs: Type.Number({
            description:
              'The time until the oldest of these no longer counts, or until the calendar period ends, in milliseconds.'
          }),
          refuses: Type.Boolean({
            description:
              'Whether the rule would refuse now: a message or, for a rule on tries, a try of a code and the next code.'
          })
        }),
        {
          description: `The limits of each rule that can be looked up from what the request names. Others may still refuse. ${NOT_BY_HASH}`
        }
      )
    ),
    retryAfterMs: Type.Optional(
      Type.Union([Type.Number(), Type.Null()], {
        description: `The time until these rules and the block list would admit a message, in milliseconds. Null if only an operator can end the refusal. ${NOT_BY_HASH}`
      })
    )
  },
  {
    description:
      'Whether the recipient is blocked or allowed, and what the rules on the recipient have counted.'
  }
)

export const StandingAnswer = Type.Object(
  { ...Name, ...StandingMembers },
  { description: 'The recipient is blocked or allowed from now on.' }
)

export const UnblockAnswer = Type.Object(
  {
    ...Name,
    recipient: Type.Optional(
      Type.String({
        description:
          'The phone number or mail address, masked. Absent if the request named the recipient by `recipientHash`.'
      })
    ),
    standing: Type.Null({ description: 'Always null.' }),
    countsCleared: Type.Boolean({
      description:
        'Whether the counts of the recipient were cleared: true for a `phone` or `email`, false for a `recipientHash`.'
    })
  },
  { description: 'The recipient is neither blocked nor allowed any more.' }
)

export const PageAnswer = Type.Object(
  {
    recipients: Type.Array(Type.Object({ ...Name, ...StandingMembers }), {
      description: 'The recipients on this page, newest first.'
    }),
    next: Type.Union([Type.String(), Type.Null()], {
      description: 'The `after` for the next page. Null on the last page.'
    })
  },
  { description: 'A page of the recipients. It may have fewer than `limit` even if it is not the last one.' }
)

export const ReloadAnswer = Type.Object(
  {
    rules: Type.Integer({ description: 'How many rules the policy has.' }),
    purposes: Type.Integer({ description: 'How many purposes the policy has.' }),
    accounts: Type.Integer({ description: 'How many accounts `ACCOUNTS_FILE` lists, 0 without such a file.' })
  },
  { description: 'The new policy, templates and accounts are in force.' }
)

import { Type } from 'typebox'
import { OneOf, PURPOSE_PATTERN, strict, Time } from './common.js'
import { Email, EXAMPLE_PHONE, Phone, RecipientHash } from './recipient.js'

const Recipient = {
  phone: Type.Optional(Phone),
  email: Type.Optional(Email),
  recipientHash: Type.Optional(RecipientHash)
}

const ONE_RECIPIENT = 'one recipient: a phone, an email or a recipientHash'

const NOT_WITH_HASH = 'not with a recipientHash'

export const RecipientBody = Type.Object(
  {
    ...Recipient,
    endUserIp: Type.Optional(
      Type.String({
        minLength: 2,
        maxLength: 64,
        description: `address of the end user: for the rules that count by it; ${NOT_WITH_HASH}`,
        examples: ['192.0.2.1']
      })
    ),
    purpose: Type.Optional(
      Type.String({
        pattern: PURPOSE_PATTERN,
        description: `what a code is for: for the rules that count by it; ${NOT_WITH_HASH}`
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
        description: 'for how long, at most 366d; until it is unblocked when left out',
        examples: ['24h']
      })
    ),
    reason: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$',
        description: 'for the list and the audit trail; name no person'
      })
    )
  },
  {
    ...strict,
    description: ONE_RECIPIENT,
    examples: [{ phone: EXAMPLE_PHONE, duration: '24h', reason: 'complaint' }]
  }
)

export const PageQuery = Type.Object(
  {
    standing: Type.Optional(OneOf(['blocked', 'allowed'], { description: 'which list; both when left out' })),
    limit: Type.Optional(
      // A text, since members of a query are texts and nothing is coerced.
      Type.String({ pattern: '^([1-9][0-9]?|100)$', description: 'how many, 1 to 100; 50 when left out' })
    ),
    after: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,14}$', description: 'the "next" of the page before' })
    )
  },
  strict
)

const StandingMembers = {
  standing: OneOf(['blocked', 'allowed']),
  reason: Type.Optional(Type.String()),
  since: Time('when it began'),
  until: Type.Optional(Time('when it ends by itself; left out: never'))
}
const Name = {
  recipient: Type.Optional(
    Type.String({ description: 'masked; left out where nothing but the hash is known' })
  ),
  recipientHash: RecipientHash
}

const NOT_BY_HASH = 'left out of a look-up by recipientHash, as rules count by the recipient in clear'

export const LookupAnswer = Type.Object(
  {
    ...Name,
    standing: Type.Union([Type.Object(StandingMembers), Type.Null()]),
    rules: Type.Optional(
      Type.Array(
        Type.Object({
          rule: Type.String(),
          max: Type.Number(),
          used: Type.Number(),
          remaining: Type.Number(),
          windowMs: Type.Number({ description: 'length of the window; of a lock, its time to live' }),
          resetMs: Type.Number({ description: 'until a slot returns, or the calendar period ends' }),
          refuses: Type.Boolean({ description: 'whether it would refuse now: a message, or a try of a code' })
        }),
        { description: NOT_BY_HASH }
      )
    ),
    retryAfterMs: Type.Optional(
      Type.Union([Type.Number(), Type.Null()], {
        description: `until these rules, and the lists, would admit a message; null: not by themselves; ${NOT_BY_HASH}`
      })
    )
  },
  {
    description:
      'How the recipient stands, and what the rules have counted whose keys follow from what was asked about.'
  }
)

export const StandingAnswer = Type.Object(
  { ...Name, ...StandingMembers },
  { description: 'It is so from now on.' }
)

export const UnblockAnswer = Type.Object(
  {
    ...Name,
    standing: Type.Null(),
    countsForgotten: Type.Boolean({
      description: 'whether what is counted of the recipient is forgotten: not by a recipientHash'
    })
  },
  { description: 'The recipient is on no list.' }
)

export const PageAnswer = Type.Object(
  {
    recipients: Type.Array(Type.Object({ ...Name, ...StandingMembers })),
    next: Type.Union([Type.String(), Type.Null()], {
      description: 'for "after"; null: this is the last page'
    })
  },
  { description: 'A page, the newest first. It may be shorter than its limit.' }
)

export const ReloadAnswer = Type.Object(
  {
    rules: Type.Integer(),
    purposes: Type.Integer(),
    accounts: Type.Integer({ description: 'those of ACCOUNTS_FILE' })
  },
  {
    description: 'The new policy, templates and accounts are in force: so many rules, purposes and accounts.'
  }
)

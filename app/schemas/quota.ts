import { Type } from 'typebox'

export const QuotaAnswer = Type.Object(
  {
    account: Type.String({ description: 'id of the account' }),
    limits: Type.Array(
      Type.Object({
        max: Type.Number(),
        used: Type.Number(),
        remaining: Type.Number(),
        windowMs: Type.Number({
          description:
            'length of what the policy counts in: of a day 24 hours, also where the clock is set, of a month 30 days'
        }),
        resetMs: Type.Number({ description: 'until the day ends' }),
        timeZone: Type.Optional(
          Type.String({
            description: 'IANA time zone whose midnight ends it; of a rolling limit there is none'
          })
        )
      }),
      { description: 'one a day, unless the policy says otherwise; none where it hides them' }
    )
  },
  { description: 'What the account has used of its quota, and has left.' }
)

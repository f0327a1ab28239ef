import { Type } from 'typebox'

export const QuotaAnswer = Type.Object(
  {
    account: Type.String({ description: 'The id of the account.' }),
    limits: Type.Array(
      Type.Object({
        max: Type.Number({ description: 'How many messages the limit allows.' }),
        used: Type.Number({ description: 'How many messages are used, never more than `max`.' }),
        remaining: Type.Number({ description: 'How many messages are left.' }),
        windowMs: Type.Number({
          description:
            'The length of the period or window, in milliseconds: 24 hours for a day, even when the clocks change, and 30 days for a month.'
        }),
        resetMs: Type.Number({
          description:
            'The time until the period ends, in milliseconds. For a rolling limit, the time until the oldest message no longer counts, 0 if none counts.'
        }),
        timeZone: Type.Optional(
          Type.String({
            description: 'The IANA time zone whose midnight ends the period. Absent for a rolling limit.'
          })
        )
      }),
      {
        description:
          'The limits of the quota, one a day unless the policy says otherwise. Empty if the policy hides them, counts by more than the account, or exempts or blocks the account.'
      }
    )
  },
  { description: 'How much of its quota the account has used, and how much is left.' }
)

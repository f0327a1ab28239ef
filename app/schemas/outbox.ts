import { Type } from 'typebox'
import { CHANNELS } from '../senders/sender.js'
import { OneOf, Time } from './common.js'

export const OutboxAnswer = Type.Object(
  {
    messages: Type.Array(
      Type.Object({
        at: Time('The time at which the message reached the outbox.'),
        channel: OneOf(CHANNELS, 'The channel of the message.'),
        to: Type.String({ description: 'The recipient: a phone number (E.164) or a mail address.' }),
        subject: Type.Optional(Type.String({ description: 'The subject of a mail. Absent for an SMS.' })),
        text: Type.String({ description: 'The text of the message.' })
      }),
      { description: 'The messages, newest first, at most 100.' }
    )
  },
  { description: 'The last messages.' }
)

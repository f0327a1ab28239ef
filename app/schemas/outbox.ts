import { Type } from 'typebox'
import { CHANNELS } from '../senders/sender.js'
import { OneOf } from './common.js'

export const OutboxAnswer = Type.Object(
  {
    messages: Type.Array(
      Type.Object({
        at: Type.String({ format: 'date-time' }),
        channel: OneOf(CHANNELS),
        to: Type.String(),
        subject: Type.Optional(Type.String()),
        text: Type.String()
      })
    )
  },
  { description: 'The last messages.' }
)

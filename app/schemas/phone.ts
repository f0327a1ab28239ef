import { Type } from 'typebox'

export const Phone = Type.String({
  minLength: 3,
  maxLength: 64,
  description: 'phone number, with country code or as it is dialled at home',
  examples: ['13800138000']
})

import { Type } from 'typebox'

/** Has its country code, so it is a number whatever `REGION` is. */
export const EXAMPLE_PHONE = '+8613800138000'

export const Phone = Type.String({
  minLength: 3,
  maxLength: 64,
  description: 'phone number, with country code or as it is dialled at home',
  examples: [EXAMPLE_PHONE]
})

export const Email = Type.String({
  minLength: 3,
  maxLength: 320,
  description: 'mail address',
  examples: ['someone@example.com']
})

/** 128 bits in base64url: only two bits of the last of its 22 characters count. */
export const RecipientHash = Type.String({
  pattern: '^[A-Za-z0-9_-]{21}[AQgw]$',
  description: 'what the audit trail calls a recipient',
  examples: ['ltrg0q3VbTzbH-2J2kaApQ']
})

/** A language by its tag (BCP 47). */
export const LocaleName = Type.String({
  maxLength: 100,
  pattern: '^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$',
  description:
    'language of the message, a tag of BCP 47: the nearest that its texts have, or else the default of the service; left out: as Accept-Language says',
  examples: ['en', 'zh-Hant-HK']
})

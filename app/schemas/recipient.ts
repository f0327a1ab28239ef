import { Type } from 'typebox'

/** Has its country code, so it is a number whatever `REGION` is. */
export const EXAMPLE_PHONE = '+8613800138000'

export const Phone = Type.String({
  minLength: 3,
  maxLength: 64,
  description:
    'The phone number of the recipient. Without a country code it is read as a number of the country for which the service is configured.',
  examples: [EXAMPLE_PHONE]
})

export const Email = Type.String({
  minLength: 3,
  maxLength: 320,
  description: 'The mail address of the recipient.',
  examples: ['someone@example.com']
})

/** 128 bits in base64url: only two bits of the last of its 22 characters count. */
export const RecipientHash = Type.String({
  pattern: '^[A-Za-z0-9_-]{21}[AQgw]$',
  description: 'The hash by which the audit trail names the recipient.',
  examples: ['ltrg0q3VbTzbH-2J2kaApQ']
})

/** A language by its tag (BCP 47). */
export const LocaleName = Type.String({
  maxLength: 100,
  pattern: '^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$',
  description:
    'The language of the message (BCP 47). If no text is in it, a more general tag is tried (`zh-Hant` for `zh-Hant-HK`), then the default language of the service. If absent, `Accept-Language` decides.',
  examples: ['en', 'zh-Hant-HK']
})

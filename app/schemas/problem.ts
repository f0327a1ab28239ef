import { Type } from 'typebox'

const FlawSchema = Type.Object(
  {
    pointer: Type.String({ description: 'where, as a JSON pointer' }),
    code: Type.Optional(Type.String({ description: 'what; stays the same in every language' })),
    detail: Type.String()
  },
  { additionalProperties: true }
)

/** The body of every error (RFC 9457). */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'URI of the kind of problem' }),
    title: Type.String({ description: 'in the language of content-language' }),
    status: Type.Integer(),
    detail: Type.Optional(Type.String({ description: 'in the language of content-language' })),
    code: Type.Optional(Type.String({ description: 'stays the same in every language' })),
    instance: Type.Optional(
      Type.String({ format: 'uri', description: 'the request, as the log and the audit trail name it' })
    ),
    errors: Type.Optional(
      Type.Array(FlawSchema, {
        description: 'what is wrong, and where; of a body that is INVALID, the first that is found'
      })
    ),
    'violated-policies': Type.Optional(Type.Array(Type.String(), { description: 'the rules that refuse' })),
    retryAfterMs: Type.Optional(
      // A union would make each serializer bring a validator.
      Type.Unsafe<number | null>({
        type: ['number', 'null'],
        description: 'milliseconds until it may be asked again; null: no waiting helps'
      })
    ),
    attemptsLeft: Type.Optional(Type.Integer({ description: 'of CODE_WRONG: tries that the code has left' })),
    known: Type.Optional(
      Type.Array(Type.String(), { description: 'what there is in place of what is unknown' })
    )
  },
  { $id: 'Problem', additionalProperties: true }
)

const descriptions = {
  400: 'The request cannot be read: the body is not JSON, or the address or a header is malformed.',
  401: 'The key is missing, not known or revoked.',
  403: 'This is not for this caller, or the recipient or caller is blocked.',
  404: 'It does not exist, or no longer exists.',
  409: 'The same is under way.',
  410: 'This has ended.',
  413: 'The body is too large.',
  414: 'A part of the address is too long.',
  415: 'The body is not application/json, or has a content-encoding.',
  422: 'What was sent is not as documented, or cannot be.',
  500: 'Something went wrong.',
  502: 'The message could not be sent, and was not counted.',
  503: 'This cannot be done now.',
  504: 'It is not known whether the message was sent; it was counted. Of a code, it has the members of a 202, too.'
}
type Status = keyof typeof descriptions

/** The codes of docs/app-errors.md that an operation may answer: what ends before it is routed belongs to none. */
const STATUSES = {
  HOST_MISSING: 400,
  HOST_INVALID: 400,
  FST_ERR_BAD_URL: 400,
  FST_ERR_CTP_INVALID_JSON_BODY: 400,
  FST_ERR_CTP_EMPTY_JSON_BODY: 400,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 400,
  FST_SEND_LIMIT_KEY_MISSING: 400,
  IDEMPOTENCY_KEY_INVALID: 400,
  API_KEY_MISSING: 401,
  API_KEY_UNKNOWN: 401,
  API_KEY_REVOKED: 401,
  ADMIN_KEY_MISSING: 401,
  ADMIN_KEY_WRONG: 401,
  ORIGIN_UNKNOWN: 403,
  PURPOSE_FORBIDDEN: 403,
  TEMPLATE_FORBIDDEN: 403,
  FST_SEND_LIMIT_BLOCKED: 403,
  CAPTCHA_UNKNOWN: 404,
  FST_SEND_LIMIT_IN_FLIGHT: 409,
  IDEMPOTENCY_KEY_IN_USE: 409,
  CAPTCHA_ENDED: 410,
  FST_ERR_CTP_BODY_TOO_LARGE: 413,
  FST_ERR_MAX_PARAM_LENGTH: 414,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 415,
  CONTENT_ENCODED: 415,
  INVALID: 422,
  FST_SEND_LIMIT_KEY_INVALID: 422,
  END_USER_IP_INVALID: 422,
  RECIPIENT_MISSING: 422,
  PHONE_INVALID: 422,
  PHONE_TAKES_NO_SMS: 422,
  COUNTRY_NOT_SERVED: 422,
  EMAIL_INVALID: 422,
  RECIPIENT_REFUSED: 422,
  PURPOSE_UNKNOWN: 422,
  SEND_REQUIRED: 422,
  TEMPLATE_UNKNOWN: 422,
  PARAMS_INVALID: 422,
  TEXT_TOO_LONG: 422,
  CODE_WRONG: 422,
  IDEMPOTENCY_KEY_REUSED: 422,
  DURATION_TOO_LONG: 422,
  RELOAD_REFUSED: 422,
  INTERNAL: 500,
  SEND_FAILED: 502,
  SHUTTING_DOWN: 503,
  FST_ERR_HANDLER_TIMEOUT: 503,
  FST_SEND_LIMIT_STORE_UNAVAILABLE: 503,
  FST_SEND_LIMIT_STORE_FULL: 503,
  FST_SEND_LIMIT_TIMEOUT: 503,
  IDEMPOTENCY_KEY_LOST: 503,
  IDEMPOTENCY_FULL: 503,
  IDEMPOTENCY_UNAVAILABLE: 503,
  SEND_UNAVAILABLE: 503,
  LOCK_LOST: 503,
  NO_SENDER: 503,
  CODES_FULL: 503,
  CODES_UNAVAILABLE: 503,
  LISTS_FULL: 503,
  LISTS_UNAVAILABLE: 503,
  QUOTA_UNAVAILABLE: 503,
  REDIS_UNAVAILABLE: 503,
  SEND_UNKNOWN: 504
} as const satisfies Record<string, Status>
type Code = keyof typeof STATUSES

// What operations have in common. The refusals of rules, 429, the plugin documents.
const ANY: Code[] = [
  'HOST_MISSING',
  'HOST_INVALID',
  'FST_ERR_BAD_URL',
  'INTERNAL',
  'SHUTTING_DOWN',
  'FST_ERR_HANDLER_TIMEOUT'
]
export const BODY: Code[] = [
  'FST_ERR_CTP_INVALID_JSON_BODY',
  'FST_ERR_CTP_EMPTY_JSON_BODY',
  'FST_ERR_CTP_INVALID_CONTENT_LENGTH',
  'FST_ERR_CTP_BODY_TOO_LARGE',
  'FST_ERR_CTP_INVALID_MEDIA_TYPE',
  'CONTENT_ENCODED',
  'INVALID'
]
export const ID: Code[] = ['FST_ERR_MAX_PARAM_LENGTH', 'INVALID']
export const LIMITED: Code[] = [
  'FST_SEND_LIMIT_KEY_MISSING',
  'FST_SEND_LIMIT_KEY_INVALID',
  'FST_SEND_LIMIT_BLOCKED',
  'FST_SEND_LIMIT_STORE_UNAVAILABLE',
  'FST_SEND_LIMIT_STORE_FULL',
  'FST_SEND_LIMIT_TIMEOUT'
]
export const KEY: Code[] = ['API_KEY_MISSING', 'API_KEY_UNKNOWN', 'API_KEY_REVOKED']
export const OPERATOR: Code[] = ['ADMIN_KEY_MISSING', 'ADMIN_KEY_WRONG']
export const PHONE: Code[] = ['PHONE_INVALID', 'PHONE_TAKES_NO_SMS']
export const RECIPIENT: Code[] = ['RECIPIENT_MISSING', ...PHONE, 'EMAIL_INVALID']
/** What endpoints of codes have in common. */
export const CAPTCHA: Code[] = [
  ...LIMITED,
  ...KEY,
  'ORIGIN_UNKNOWN',
  'END_USER_IP_INVALID',
  'CODES_UNAVAILABLE'
]
/** What those have in common that send. */
export const SENDING: Code[] = [
  'IDEMPOTENCY_KEY_INVALID',
  'IDEMPOTENCY_KEY_IN_USE',
  'IDEMPOTENCY_KEY_REUSED',
  'IDEMPOTENCY_KEY_LOST',
  'IDEMPOTENCY_FULL',
  'IDEMPOTENCY_UNAVAILABLE',
  'LISTS_UNAVAILABLE',
  'RECIPIENT_REFUSED',
  'SEND_FAILED',
  'SEND_UNAVAILABLE',
  'SEND_UNKNOWN',
  'LOCK_LOST',
  'NO_SENDER'
]

const RETRY = { type: 'integer', description: 'seconds until it may be tried again, where that is known' }
const more: Partial<Record<Status, object>> = {
  401: { 'www-authenticate': { type: 'string', description: 'which header takes the key' } },
  409: { 'retry-after': RETRY },
  415: { 'accept-encoding': { type: 'string', description: 'identity, where the body was encoded' } },
  503: { 'retry-after': RETRY }
}

/** Answers that are problems, documented: those with these codes, and with those that any operation has. */
export function problems(...codes: Code[]) {
  const all = [...new Set([...ANY, ...codes])]
  const answer = (status: Status) => ({
    description: `${descriptions[status]} Codes: ${all.filter(code => STATUSES[code] === status).join(', ')}.`,
    ...(more[status] && { headers: more[status] }),
    content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } }
  })
  return Object.fromEntries(all.map(code => [STATUSES[code], answer(STATUSES[code])]))
}

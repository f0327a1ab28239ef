import { Type } from 'typebox'
import { ANY, type Code, STATUSES } from './problem-codes.js'

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
        description:
          'what is wrong, and where: all that is wrong with params, of anything else what is found first'
      })
    ),
    'violated-policies': Type.Optional(Type.Array(Type.String(), { description: 'the rules that refuse' })),
    retryAfterMs: Type.Optional(
      // Not a union, for which each serializer would need a validator.
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

const RETRY = { type: 'integer', description: 'seconds until it may be tried again, where that is known' }
const more: Partial<Record<Status, object>> = {
  401: { 'www-authenticate': { type: 'string', description: 'which header takes the key' } },
  409: { 'retry-after': RETRY },
  415: { 'accept-encoding': { type: 'string', description: 'identity, where the body was encoded' } },
  503: { 'retry-after': RETRY }
}

/** Documents the answers that are problems: those with the given codes, and with the codes that any operation has. */
export function problems(...codes: Code[]) {
  const all = [...new Set([...ANY, ...codes])]
  const answer = (status: Status) => ({
    description: `${descriptions[status]} Codes: ${all.filter(code => STATUSES[code] === status).join(', ')}.`,
    ...(more[status] && { headers: more[status] }),
    content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } }
  })
  return Object.fromEntries(all.map(code => [STATUSES[code], answer(STATUSES[code])]))
}

import { Type } from 'typebox'
import { PROBLEM_JSON } from '../problem.js'
import { ANY, type Code, STATUSES } from './problem-codes.js'

const FlawSchema = Type.Object(
  {
    pointer: Type.String({
      description: 'Where the mistake is: a JSON pointer into the body, or to a parameter of the address.'
    }),
    code: Type.Optional(
      Type.String({ description: 'What is wrong there, such as `REQUIRED`. The same in every language.' })
    ),
    detail: Type.String({ description: 'What is wrong there, in words.' }),
    allowed: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'For `NOT_ONE_OF`: what may be there.' })
    ),
    limit: Type.Optional(
      Type.Number({
        description: 'For `TOO_SHORT`, `TOO_LARGE` and the like: what may be there at least, or at most.'
      })
    ),
    pattern: Type.Optional(Type.String({ description: 'For `PATTERN`: what must match there.' })),
    format: Type.Optional(Type.String({ description: 'For `FORMAT`: the format that must be there.' }))
  },
  { additionalProperties: true }
)

/** The body of every error (RFC 9457). */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'A URI for the type of problem (RFC 9457). `code` is more exact.' }),
    title: Type.String({
      description: 'A short summary for developers, in the language of `content-language`.'
    }),
    status: Type.Integer({ description: 'The HTTP status of the answer.' }),
    detail: Type.Optional(
      Type.String({
        description: 'What is wrong, in words for developers, in the language of `content-language`.'
      })
    ),
    code: Type.Optional(
      Type.String({ description: 'What is wrong, for programs. The same in every language.' })
    ),
    instance: Type.Optional(
      Type.String({
        format: 'uri',
        description: 'A URN of the request, with the id by which the log and the audit trail name it.'
      })
    ),
    errors: Type.Optional(
      Type.Array(FlawSchema, {
        description:
          'The mistakes in the request. Mistakes in `params` are all listed, of other mistakes usually only the first.'
      })
    ),
    'violated-policies': Type.Optional(
      Type.Array(Type.String(), {
        description:
          'The policies that refuse the request: a limit, as in `recipient-60s`, or the name of a rule or filter.'
      })
    ),
    retryAfterMs: Type.Optional(
      // Not a union, for which each serializer would need a validator.
      Type.Unsafe<number | null>({
        type: ['number', 'null'],
        description:
          'The time until the request may be repeated, in milliseconds. Null if no time can be named.'
      })
    ),
    verified: Type.Optional(Type.Boolean({ description: 'For `CODE_WRONG`: always false.' })),
    triesLeft: Type.Optional(
      Type.Integer({ description: 'For `CODE_WRONG`: how many tries the code has left.' })
    ),
    known: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'The names to choose from, if the request names a purpose or template that does not exist.'
      })
    ),
    members: Type.Optional(
      Type.Array(Type.String(), {
        description: 'For `RECIPIENT_MISSING`: the members of the body that may name the recipient.'
      })
    ),
    account: Type.Optional(
      Type.String({ description: 'For `PURPOSE_FORBIDDEN` and `TEMPLATE_FORBIDDEN`: the account.' })
    ),
    purpose: Type.Optional(Type.String({ description: 'For `PURPOSE_FORBIDDEN`: the purpose.' })),
    template: Type.Optional(
      Type.String({
        description: 'The template, if it does not exist, may not be sent, or its `params` do not fit.'
      })
    ),
    channel: Type.Optional(Type.String({ description: 'For `NO_SENDER`: `sms` or `mail`.' })),
    limit: Type.Optional(
      Type.Integer({ description: 'For `TEXT_TOO_LONG`: how many SMS a message may take at most.' })
    ),
    max: Type.Optional(
      Type.Integer({ description: 'For `LISTS_FULL`: how many recipients the lists take at most.' })
    ),
    methods: Type.Optional(
      Type.Array(Type.String(), { description: 'For `METHOD_NOT_ALLOWED`: the methods of the address.' })
    ),
    reason: Type.Optional(Type.String({ description: 'For `RELOAD_REFUSED`: the mistake, in words.' }))
  },
  { $id: 'Problem', additionalProperties: true }
)

const descriptions = {
  400: 'The request cannot be read: its body, its address or a header is malformed, or lacks what a limit counts by.',
  401: 'The key is missing or not valid.',
  403: 'The caller may not do this, or the caller or the recipient is blocked.',
  404: 'The account has no code with this id, or the code no longer exists.',
  409: 'The same is being done by a request that is still running.',
  410: 'The code was used or cancelled, or can no longer be resent. Request a new one.',
  413: 'The body has more than 16 KiB.',
  414: 'A part of the address, such as the id, is too long.',
  415: 'The body is not `application/json`, or has a `content-encoding`.',
  422: 'The request was read, but cannot be carried out as it stands.',
  // The plugin describes it by the rules of the operation.
  429: undefined,
  500: 'Something went wrong in the service. Its log says what.',
  502: 'The message could not be sent. It was not counted.',
  503: 'The service cannot do this now, or took too long. After `FST_ERR_HANDLER_TIMEOUT` it may still be done.',
  504: 'It is not known whether the message was sent. It was counted.'
}
type Status = keyof typeof descriptions

const RETRY = {
  type: 'integer',
  description: 'Seconds until the request may be repeated. Absent if no time can be named.'
}
const more: Partial<Record<Status, object>> = {
  401: {
    'www-authenticate': {
      type: 'string',
      description: 'How to authenticate: names the header that takes the key.'
    }
  },
  409: { 'retry-after': RETRY },
  415: {
    'accept-encoding': { type: 'string', description: '`identity`, if the body had a `content-encoding`.' }
  },
  503: { 'retry-after': RETRY }
}

/** Documents the answer of a status. @param also what its description tells in addition */
function answerOf(status: Status, codes: readonly Code[], $ref = 'Problem#', also = '') {
  const description = descriptions[status]
  const own = codes.filter(code => STATUSES[code] === status).join(', ')
  return {
    ...(description && { description: `${description}${also} Codes: ${own}.` }),
    ...(more[status] && { headers: more[status] }),
    content: { [PROBLEM_JSON]: { schema: { $ref } } }
  }
}

/** Documents the answers that are problems: those with the given codes, and with the codes that any operation has. */
export function problems(...codes: Code[]) {
  const all = [...new Set([...ANY, ...codes])]
  return Object.fromEntries(all.map(code => [STATUSES[code], answerOf(STATUSES[code], all)]))
}

/** The same for operations that send a code: if it may have been sent (504), the caller needs its id. */
export function problemsOfCodes(...codes: Code[]) {
  const unknown = answerOf(504, codes, 'CodeProblem#', ' The body also has the members of a 202.')
  return { ...problems(...codes), 504: unknown }
}

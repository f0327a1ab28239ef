import { Type } from 'typebox'

/** The body of every error (RFC 9457). */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'URI of the kind of problem' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.Optional(Type.String()),
    code: Type.Optional(Type.String({ description: 'stays the same in every language' })),
    errors: Type.Optional(
      Type.Array(Type.Object({ pointer: Type.String(), detail: Type.String() }), {
        description: 'what is wrong where, as JSON pointers'
      })
    )
  },
  { $id: 'Problem', additionalProperties: true }
)

const descriptions = {
  400: 'The body is no JSON.',
  401: 'The key is missing or not known.',
  413: 'The body is too large.',
  415: 'The body is not application/json.',
  422: 'What was sent is not as documented.',
  500: 'Something went wrong.',
  502: 'The message could not be sent. It does not count.',
  503: 'This cannot be done now.',
  504: 'Whether the message went out is not known. It counts.'
}
type Status = keyof typeof descriptions

/** Answers that are problems, documented. */
export function problems(...statuses: Status[]) {
  const answer = (status: Status) => ({
    description: descriptions[status],
    content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } }
  })
  return Object.fromEntries(statuses.map(status => [status, answer(status)]))
}

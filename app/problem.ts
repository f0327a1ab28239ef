import { STATUS_CODES } from 'node:http'
import { fill } from './locales/fill.js'

export const PROBLEM_JSON = 'application/problem+json'

/** A problem document (RFC 9457), with members of its own. */
export interface ProblemDocument {
  type: string
  title: string
  status: number
  detail?: string
  code?: string
  [member: string]: unknown
}

/** An error that carries its own answer. */
export interface ProblemError extends Error {
  statusCode: number
  code: string
  problem: ProblemDocument
  /** Further headers of the answer. */
  headers?: Record<string, string>
}

/**
 * @param code what is wrong; each has one `detail`, a translation (app/locales) and a line in docs/app-errors.md
 * @param detail is shown to the client, in English, with `{names}` of members in it
 * @param more further members of the document
 */
export function problemDocument(
  status: number,
  code: string,
  detail: string,
  more: object = {}
): ProblemDocument {
  // RFC 9457, section 4.2.1: with about:blank the title is the status phrase.
  const title = STATUS_CODES[status] ?? 'Error'
  return { type: 'about:blank', title, status, detail: fill(detail, more), code, ...more }
}

/** A 401, which has to say how to authenticate (RFC 9110, section 11.6.1). */
export function unauthorized(code: string, detail: string, realm: string, header: string): ProblemError {
  const headers = { 'www-authenticate': `ApiKey realm="${realm}", header="${header}"` }
  return Object.assign(problem(401, code, detail), { headers })
}

/** A {@link problemDocument} as an error, to be thrown. */
export function problem(status: number, code: string, detail: string, more?: object): ProblemError {
  const document = problemDocument(status, code, detail, more)
  return Object.assign(new Error(document.detail), { statusCode: status, code, problem: document })
}

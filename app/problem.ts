import { STATUS_CODES } from 'node:http'

/** A problem document (RFC 9457), with members of its own. */
export interface ProblemDocument {
  type: string
  title: string
  status: number
  detail?: string
  code?: string
  [member: string]: unknown
}

/** An error that says itself what is answered. */
export interface ProblemError extends Error {
  statusCode: number
  code: string
  problem: ProblemDocument
}

/**
 * @param detail is shown to the client
 * @param more further members of the document
 */
export function problemDocument(
  status: number,
  code: string,
  detail: string,
  more: object = {}
): ProblemDocument {
  // RFC 9457, section 4.2.1: with about:blank the title is the status phrase.
  return { type: 'about:blank', title: STATUS_CODES[status] ?? 'Error', status, detail, code, ...more }
}

export function problem(status: number, code: string, detail: string, more?: object): ProblemError {
  const document = problemDocument(status, code, detail, more)
  return Object.assign(new Error(detail), { statusCode: status, code, problem: document })
}

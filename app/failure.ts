import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyReply } from 'fastify'
import { type ProblemDocument, type ProblemError, problemDocument } from './problem.js'

/** Whatever Fastify, the plugin or the app may throw. */
export type Failure = FastifyError & Partial<ProblemError> & { headers?: Record<string, string> }

const TYPE = 'application/problem+json'

/** What is answered to an error; what is not meant for clients becomes a plain 500. */
export function documentOf(error: Failure): ProblemDocument {
  if (error.problem !== undefined) return error.problem
  if (error.validation) return invalid(error.validation, error.validationContext)
  const { statusCode = 500, code = '', message } = error
  // Errors of Fastify and the plugin are written for clients, unless they are a 500.
  if (statusCode >= 400 && statusCode !== 500 && code.startsWith('FST_')) {
    return problemDocument(statusCode, code, message)
  }
  if (statusCode >= 400 && statusCode < 500) return problemDocument(statusCode, 'REFUSED', message)
  return problemDocument(500, 'INTERNAL', 'Something went wrong here; the log tells what.')
}

function invalid(validation: NonNullable<Failure['validation']>, context = 'request'): ProblemDocument {
  const errors = validation.map(({ instancePath, message, params }) => {
    const allowed = (params.allowedValues as string[] | undefined)?.join(', ')
    return {
      pointer: `#${instancePath}`,
      detail: allowed === undefined ? message : `must be one of ${allowed}`
    }
  })
  return problemDocument(422, 'INVALID', `The ${context} is not as documented.`, { errors })
}

export function sendProblem(reply: FastifyReply, document: ProblemDocument): FastifyReply {
  return reply.code(document.status).type(TYPE).serializer(JSON.stringify).send(document)
}

/** Answers what is no HTTP request, or came too slowly, or has too large a head. */
export function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  const status = { ERR_HTTP_REQUEST_TIMEOUT: 408, HPE_HEADER_OVERFLOW: 431 }[error.code ?? ''] ?? 400
  const body = JSON.stringify(
    problemDocument(status, 'BROKEN_REQUEST', 'This is no request that can be read.')
  )
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Content-Type: ${TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close'
  ]
  if (socket.writable) socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroy(error)
}

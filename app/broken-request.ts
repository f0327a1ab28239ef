import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { sendProblem } from './failure.js'
import type { Locale } from './locales/locale.js'
import { translate } from './locales/translate.js'
import { PROBLEM_JSON, type ProblemDocument, problemDocument } from './problem.js'

/** Answers an `Expect` that nobody here meets (RFC 9110, section 10.1.1). */
export function answerExpectation(response: ServerResponse, locale: Locale): void {
  const document = problemDocument(
    417,
    'EXPECTATION_FAILED',
    'What the header Expect asks for is not supported.'
  )
  const body = JSON.stringify(translate(document, locale))
  const headers = {
    'content-type': PROBLEM_JSON,
    'content-language': locale,
    'content-length': Buffer.byteLength(body),
    connection: 'close'
  }
  response.writeHead(document.status, headers).end(body)
}

/** Answers under way that the answer to a broken request on their connection has to wait for. */
const awaited = new WeakSet<ServerResponse>()

/** Answers what is no HTTP request, or came too slowly, or has too large a head. */
export function answerBrokenRequest(
  this: FastifyInstance | undefined,
  error: Error & { code?: string },
  socket: Socket
): void {
  if (!socket.writable) return
  const underWay = [...(this?.connections.get(socket) ?? [])]
  const before = underWay.find(({ req, headersSent }) => req.complete || headersSent)
  if (before !== undefined) {
    // Sent before an earlier answer it would be read as that answer, sent within one as a part of it. Node reports the error
    // again with all that comes.
    if (!awaited.has(before)) before.once('close', () => answerBrokenRequest.call(this, error, socket))
    awaited.add(before)
    return
  }
  // Its answer has left; another one would be read as that to the next request.
  if (this?.answeredEarly.get(socket)?.complete === false) return socket.destroySoon()
  const document = brokenRequest(error.code)
  const locale = this?.defaultLocale ?? 'en'
  const body = JSON.stringify(translate(document, locale))
  const head = [
    `HTTP/1.1 ${document.status} ${STATUS_CODES[document.status]}`,
    `Content-Type: ${PROBLEM_JSON}`,
    `Content-Language: ${locale}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close'
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroySoon()
}

/** What is answered to a request that comes too slowly. */
export function requestTimeout(): ProblemDocument {
  return problemDocument(408, 'REQUEST_TIMEOUT', 'The request did not arrive in time.')
}

/** Whether it is in doubt where it ends (RFC 9112, section 6.1). Node goes on all the same; for a proxy it may end elsewhere. */
export function isUnbounded({ headers, httpVersion }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  return coding !== undefined && (httpVersion === '1.0' || !/^chunked$/i.test(coding))
}

/** Answers it, and ends the connection: what follows may be no request. */
export function refuseUnbounded(reply: FastifyReply): FastifyReply {
  return sendProblem(reply.header('connection', 'close'), brokenRequest())
}

function brokenRequest(code?: string): ProblemDocument {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTimeout()
  if (code === 'HPE_HEADER_OVERFLOW') {
    return problemDocument(431, 'HEADERS_TOO_LARGE', 'The headers of the request are too large.')
  }
  return problemDocument(400, 'BROKEN_REQUEST', 'This is no HTTP request that can be read.')
}

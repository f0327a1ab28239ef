import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { sendProblem } from './failure.js'
import type { Locale } from './locales/locale.js'
import { translate } from './locales/translate.js'
import { PROBLEM_JSON, type ProblemDocument, problemDocument } from './problem.js'

/** Answers an `Expect` that is not supported (RFC 9110, section 10.1.1). */
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

/** Answers under way for which the answer to a broken request on the same connection waits. */
const awaited = new WeakSet<ServerResponse>()

/** Answers a request that is not HTTP, comes too slowly, or has too large a head. */
export function answerBrokenRequest(
  this: FastifyInstance | undefined,
  error: Error & { code?: string },
  socket: Socket
): void {
  if (!socket.writable) return
  const underWay = [...(this?.connections.get(socket) ?? [])]
  const before = underWay.find(({ req, headersSent }) => req.complete || headersSent)
  if (before !== undefined) {
    // Wait for an earlier answer: sent before it, this one would be read in its place; sent during it, as a part of it.
    // The set is needed since Node reports the error again with all data that comes.
    if (!awaited.has(before)) before.once('close', () => answerBrokenRequest.call(this, error, socket))
    awaited.add(before)
    return
  }
  // The broken request has been answered already; another answer would be read as that to the next request.
  if (this?.answeredEarly.get(socket)?.complete === false) return socket.destroySoon()
  const document = brokenRequest(error.code)
  const locale = this?.defaultLocale ?? 'en'
  const body = JSON.stringify(translate(document, locale))
  const head = [
    `HTTP/1.1 ${document.status} ${STATUS_CODES[document.status]}`,
    `Content-Type: ${PROBLEM_JSON}`,
    `Content-Language: ${locale}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    // RFC 9110, section 6.6.1. Node adds it only to answers that it writes itself.
    `Date: ${new Date().toUTCString()}`,
    'Connection: close'
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroySoon()
}

/** The answer to a request that comes too slowly. */
export function requestTimeout(): ProblemDocument {
  return problemDocument(408, 'REQUEST_TIMEOUT', 'The request did not arrive in time.')
}

/**
 * Whether it is unclear where a request ends (RFC 9112, section 6.1). Node reads on, but a proxy may see another end.
 */
export function isUnbounded({ headers, httpVersion }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  return coding !== undefined && (httpVersion === '1.0' || !/^chunked$/i.test(coding))
}

/** Refuses such a request and ends the connection, since what follows may be no request. */
export function refuseUnbounded(reply: FastifyReply): FastifyReply {
  return sendProblem(reply.header('connection', 'close'), brokenRequest())
}

function brokenRequest(code?: string): ProblemDocument {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTimeout()
  if (code === 'HPE_HEADER_OVERFLOW') {
    // Node does not tell whether it is the address, for which RFC 9112, section 3, demands a 414.
    return problemDocument(
      431,
      'HEADERS_TOO_LARGE',
      'The headers of the request, or its address, are too large.'
    )
  }
  return problemDocument(400, 'BROKEN_REQUEST', 'This is no HTTP request that can be read.')
}

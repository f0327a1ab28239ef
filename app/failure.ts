import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify'
import { invalid } from './invalid.js'
import { en } from './locales/en.js'
import type { Locale } from './locales/locale.js'
import { translate } from './locales/translate.js'
import { type ProblemDocument, type ProblemError, problemDocument } from './problem.js'

/** Whatever Fastify, the plugin or the app may throw. */
export type Failure = FastifyError & Partial<ProblemError> & { headers?: Record<string, string> }

const TYPE = 'application/problem+json'

/** What is answered to an error; what is not meant for clients becomes a plain 500. */
export function documentOf(error: Failure): ProblemDocument {
  if (error.problem !== undefined) return error.problem
  if (error.validation) return invalid(error.validation)
  const { statusCode = 500, code = '', message } = error
  // Of the errors of Fastify and the plugin those that are written for clients.
  const known = (en.problems as Record<string, { detail: string } | undefined>)[code]
  if (known !== undefined) return problemDocument(statusCode, code, known.detail, keyOf(code, message))
  if (statusCode >= 400 && statusCode < 500) {
    return problemDocument(statusCode, 'REFUSED', 'The request was refused.')
  }
  return problemDocument(500, 'INTERNAL', 'Something went wrong here; the log tells what.')
}

// The plugin says in words alone what a rule is keyed by: "body.phone is missing …".
function keyOf(code: string, message: string): object {
  return code.startsWith('FST_SEND_LIMIT_KEY_') ? { key: message.split(' is ', 1)[0] } : {}
}

/** Answers with a problem, in the language of the request, which `instance` names as the log does (RFC 9457, section 3.1.5). */
export function sendProblem(reply: FastifyReply, document: ProblemDocument): FastifyReply {
  // What fails before it is routed meets no hook: nothing is decorated, and no header is set.
  const locale = reply.request.locale ?? reply.server.defaultLocale ?? 'en'
  const vary = [reply.getHeader('vary') ?? [], 'accept-language'].flat().join(', ')
  return reply
    .code(document.status)
    .type(TYPE)
    .headers({ 'content-language': locale, 'cache-control': 'no-store', vary })
    .serializer(JSON.stringify)
    .send({ ...translate(document, locale), instance: `urn:uuid:${reply.request.id}` })
}

/** Answers an `Expect` that nobody here meets (RFC 9110, section 10.1.1). */
export function answerExpectation(response: ServerResponse, locale: Locale): void {
  const document = problemDocument(
    417,
    'EXPECTATION_FAILED',
    'What the header Expect asks for is not done here.'
  )
  const body = JSON.stringify(translate(document, locale))
  const headers = {
    'content-type': TYPE,
    'content-language': locale,
    'content-length': Buffer.byteLength(body),
    connection: 'close'
  }
  response.writeHead(document.status, headers).end(body)
}

/** Answers that what is broken on the same connection waits for. */
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
    // Before earlier answers it would be read as one of them, before the end of that to this very request as a part of it.
    // Node tells anew of all that comes.
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
    `Content-Type: ${TYPE}`,
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

/**
 * How a handler ended: the status of its answer or of its error, 500 for an error without one; null when it is unclear
 * whether the message left.
 */
export type Outcome = number | null

/** @param payload what the handler sent or returned, no error @param statusCode of its reply */
export function outcomeOf(payload: unknown, statusCode: number): Outcome {
  // Fastify takes the status of a web Response when it sends it.
  return isResponse(payload) ? payload.status : statusCode
}

/** @param error what the handler threw or sent @param statusCode of its reply */
export function failureOf(error: unknown, statusCode: number): Outcome {
  return brokeOff(error) ? null : (statusIn(error, statusCode) ?? 500)
}

/**
 * The status of an error, found as Fastify finds it: the first from 400 to 599 of `statusCode`, `status` and `other`.
 */
function statusIn(error: unknown, other?: number): number | undefined {
  const { statusCode, status } = failureIn(error)
  return [statusCode, status, other].map(numberOf).find(code => code >= 400 && code <= 599)
}

/** NaN for other types, since `Number` of a symbol or an object may throw. */
function numberOf(code: unknown): number {
  return typeof code === 'number' || typeof code === 'string' ? Number(code) : Number.NaN
}

export function isHandlerTimeout(payload: unknown): boolean {
  return payload instanceof Error && (payload as { code?: unknown }).code === 'FST_ERR_HANDLER_TIMEOUT'
}

/** Recognizes a web Response by its tag, as Fastify does: those of undici and node-fetch are of other classes. */
export function isResponse(payload: unknown): payload is Response {
  return Object.prototype.toString.call(payload) === '[object Response]'
}

/**
 * The codes by which Node, undici, axios, nodemailer and @fastify/reply-from report that a wait was given up or a
 * connection broke off. SDKs on top of them keep these codes.
 */
const BROKEN_OFF = new Set<unknown>([
  'ECONNABORTED',
  'ECONNECTION',
  'ECONNRESET',
  'EPIPE',
  'ERR_CANCELED',
  'ERR_HTTP2_SESSION_ERROR',
  'ERR_HTTP2_STREAM_ERROR',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ESOCKET',
  'ESOCKETTIMEDOUT',
  'ETIMEDOUT',
  'FST_REPLY_FROM_GATEWAY_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_DESTROYED',
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_INFO',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_RES_EXCEEDED_MAX_SIZE',
  'UND_ERR_SOCKET'
])

/**
 * The types by which node-fetch 2 reports a wait that ended, or an answer that it did not read: such errors have no
 * code.
 */
const FETCH_TYPES = new Set<unknown>(['request-timeout', 'body-timeout', 'max-size', 'invalid-json'])

/** How many causes are followed. There is a limit since an error may be among its own causes. */
const DEEPEST = 4

/**
 * Whether the end is unclear: a handler that stopped waiting, or lost the connection, does not know whether the message
 * left. Errors are told by names, not by classes: under Jest, and in any other context of `node:vm`, Node's classes are
 * not the ones that this module sees.
 */
function brokeOff(error: unknown, depth = 0): boolean {
  // `request.signal` aborts with this error when the route's `handlerTimeout` is over.
  if (isHandlerTimeout(error)) return true
  const failure = failureIn(error)
  const { name, code, cause, response, message, type } = failure
  if (name === 'AbortError' || name === 'TimeoutError' || isUnreadable(failure)) return true
  if (name === 'FetchError' && FETCH_TYPES.has(type)) return true
  // axios and undici's RetryAgent use these codes for an answer that broke off in the middle, and for one of 5xx, which
  // alone has the status of an error.
  if (code === 'ERR_BAD_RESPONSE' || code === 'UND_ERR_REQ_RETRY')
    return statusIn(error, response?.status) === undefined
  // The message of end-of-stream, and so of @fastify/reply-from when its upstream has reset a stream of HTTP/2.
  if (message === 'premature close') return true
  if (BROKEN_OFF.has(code)) return !neverStood(error) && !neverStood(cause)
  // An error with a status is the app's own word on what became of the message, so its causes do not count. But
  // @fastify/reply-from gives all its failures a status.
  const wraps = statusIn(error) === undefined || code === 'FST_REPLY_FROM_INTERNAL_SERVER_ERROR'
  return wraps && cause !== undefined && depth < DEEPEST && brokeOff(cause, depth + 1)
}

interface Failure {
  statusCode?: unknown
  status?: unknown
  name?: unknown
  message?: unknown
  type?: unknown
  code?: unknown
  cause?: unknown
  response?: { status?: number }
  syscall?: unknown
  timeoutType?: unknown
}

/**
 * Whether the provider's answer could not be read: Node and undici found no HTTP, or JavaScript no JSON. The provider
 * may have the message all the same. A SyntaxError with a status does not count: the app gives one to what it could not
 * read itself, such as what its client sent.
 */
function isUnreadable(failure: Failure): boolean {
  const { name, code } = failure
  if (name === 'SyntaxError') return statusIn(failure) === undefined
  return name === 'HTTPParserError' || (typeof code === 'string' && code.startsWith('HPE_'))
}

function failureIn(error: unknown): Failure {
  return error ?? {}
}

/**
 * Whether there was no connection, so that nothing can have left. Node throws an AggregateError when it has tried
 * several addresses of a name in vain; axios keeps that as the cause of its own error.
 */
function neverStood(error: unknown): boolean {
  const { name, syscall, timeoutType } = failureIn(error)
  return name === 'AggregateError' || syscall === 'connect' || timeoutType === 'CONNECT_TIMEOUT'
}

/** How a handler ended: the status it answered with, 500 when it threw; null when that is unclear. */
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

/** As Fastify finds it: the first that is an error's, of those that it names and another one. */
function statusIn(error: unknown, other?: number): number | undefined {
  const { statusCode, status } = failureIn(error)
  return [statusCode, status, other].map(numberOf).find(code => code >= 400 && code <= 599)
}

/** None of other types: `Number` of a symbol or an object may throw. */
function numberOf(code: unknown): number {
  return typeof code === 'number' || typeof code === 'string' ? Number(code) : Number.NaN
}

export function isHandlerTimeout(payload: unknown): boolean {
  return payload instanceof Error && (payload as { code?: unknown }).code === 'FST_ERR_HANDLER_TIMEOUT'
}

/** As Fastify tells one: those of undici and node-fetch are of other classes. */
export function isResponse(payload: unknown): payload is Response {
  return Object.prototype.toString.call(payload) === '[object Response]'
}

/** What Node, undici, axios, nodemailer and @fastify/reply-from call the end of a wait or of a connection; SDKs on top of them keep it. */
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

/** What node-fetch 2 calls the end of a wait, and an answer that it did not read: these have no code. */
const FETCH_TYPES = new Set<unknown>(['request-timeout', 'body-timeout', 'max-size', 'invalid-json'])

/** How many causes deep is looked: an error may stand in its own. */
const DEEPEST = 4

/**
 * Whoever stopped waiting, or lost the connection, does not know whether the message left: such an end is unclear. Told by
 * names, not by classes: under Jest, and in any other context of `node:vm`, those of Node are not the ones that are seen here.
 */
function brokeOff(error: unknown, depth = 0): boolean {
  // What `request.signal` aborts with where there is a `handlerTimeout`.
  if (isHandlerTimeout(error)) return true
  const failure = failureIn(error)
  const { name, code, cause, response, message, type } = failure
  if (name === 'AbortError' || name === 'TimeoutError' || isUnreadable(failure)) return true
  if (name === 'FetchError' && FETCH_TYPES.has(type)) return true
  // As axios and undici's RetryAgent call an answer that broke off in the middle, and one of 5xx.
  if (code === 'ERR_BAD_RESPONSE' || code === 'UND_ERR_REQ_RETRY')
    return statusIn(error, response?.status) === undefined
  // As end-of-stream calls it, and so @fastify/reply-from a stream of HTTP/2 that its upstream has reset.
  if (message === 'premature close') return true
  if (BROKEN_OFF.has(code)) return !neverStood(error) && !neverStood(cause)
  // A status is the app's own word on what became of the message; but @fastify/reply-from has one for all trouble.
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
 * As Node and undici call an answer that is no HTTP, and JavaScript one that is no JSON: whoever gave it may have the message.
 * What the app itself could not read, it gives a status.
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
 * Whether there was no connection, so that nothing can have left. Node tries several addresses of a name; axios keeps its
 * error as the cause.
 */
function neverStood(error: unknown): boolean {
  const { name, syscall, timeoutType } = failureIn(error)
  return name === 'AggregateError' || syscall === 'connect' || timeoutType === 'CONNECT_TIMEOUT'
}

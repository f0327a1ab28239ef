/** How a handler ended: the status it answered with, 500 when it threw; null when that is unclear. */
export type Outcome = number | null

/** @param payload what the handler sent or returned, no error @param statusCode of its reply */
export function outcomeOf(payload: unknown, statusCode: number): Outcome {
  // Fastify takes the status of a web Response when it sends it.
  return isResponse(payload) ? payload.status : statusCode
}

/** @param error what the handler threw or sent @param statusCode of its reply */
export function failureOf(error: unknown, statusCode: number): Outcome {
  if (brokeOff(error)) return null
  const named = (error ?? {}) as { statusCode?: unknown; status?: unknown }
  // As Fastify does: the first that is an error's.
  const codes = [named.statusCode, named.status, statusCode].map(numberOf)
  return codes.find(code => code >= 400 && code <= 599) ?? 500
}

/** To make a number of anything else may throw. */
function numberOf(code: unknown): number {
  return typeof code === 'number' || typeof code === 'string' ? Number(code) : Number.NaN
}

export function isHandlerTimeout(payload: unknown): boolean {
  return payload instanceof Error && (payload as { code?: unknown }).code === 'FST_ERR_HANDLER_TIMEOUT'
}

/** As Fastify tells one: those of undici and node-fetch are of other classes. */
function isResponse(payload: unknown): payload is Response {
  return Object.prototype.toString.call(payload) === '[object Response]'
}

/** Whoever stopped waiting does not know whether the message left: such an end is unclear. */
function brokeOff(error: unknown): boolean {
  // What `request.signal` aborts with where there is a `handlerTimeout`.
  if (isHandlerTimeout(error)) return true
  return error instanceof Error && (error.name === 'AbortError' || error.name === 'TimeoutError')
}

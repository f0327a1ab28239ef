import { createError, type FastifyError } from '@fastify/error'
import type { Verdict } from './verdict.js'

// Each code has a paragraph with its cure in docs/errors.md; a test holds the two together.

/** A refusal as a problem document (RFC 9457). */
export interface Problem {
  /** `https://iana.org/assignments/http-problem-types#quota-exceeded` with 429, else `about:blank`. */
  type: string
  /** The kind of the refusal in words, the same for each of its kind. */
  title: string
  /** The status of the answer. */
  status: number
  /** What refuses, in words. */
  detail: string
  /** The code of the error: `FST_SEND_LIMIT_EXCEEDED`, `FST_SEND_LIMIT_IN_FLIGHT` or `FST_SEND_LIMIT_BLOCKED`. */
  code: string
  /**
   * The policies that refuse, by their names in `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers); a block or a
   * filter by the name of its rule or filter.
   */
  'violated-policies': string[]
  /** Time until every rule admits again, in milliseconds; null when no time can be named. */
  retryAfterMs: number | null
}

/** A refusal on its way through the app's error handler. */
export interface LimitError<Body = Problem> extends FastifyError {
  statusCode: number
  /** `Retry-After`, `RateLimit` and `RateLimit-Policy`, as far as they apply. */
  headers: Record<string, string>
  /** The body that is sent when the app has no error handler: a `Problem`, or what `errorResponse` built. */
  problem: Body
  /** Why it refuses, and what is left. */
  decision: Verdict
}

/** A class of refusals. */
export interface LimitErrorConstructor {
  new (policies: string): LimitError
  (policies: string): LimitError
  readonly prototype: LimitError
}

/**
 * Makes a class of refusals, for `instanceof`. Whoever makes a refusal sets `headers`, `problem` and `decision` itself.
 */
function refusalClass(
  code: string,
  message: string,
  status: number,
  base: ErrorConstructor | LimitErrorConstructor
): LimitErrorConstructor {
  return createError(
    code,
    message,
    status,
    base as ErrorConstructor,
    false
  ) as unknown as LimitErrorConstructor
}

/** Makes a class of errors that all requests of a flood may meet: a stack would take longer than a decision. */
function storeError<Code extends string>(code: Code, message: string) {
  return createError(code, message, 503, Error, false)
}

/** Any refusal, for `instanceof`: it is one of the three below. */
export const LimitError = refusalClass('FST_SEND_LIMIT', 'refused by: %s', 429, Error)
/** 429: a limit is reached until its window has moved on; or a filter refuses and names a time to wait. */
export const ExceededError = refusalClass('FST_SEND_LIMIT_EXCEEDED', 'limit reached: %s', 429, LimitError)
/** 409: the lock of a rule is held, since the same send is under way. */
export const InFlightError = refusalClass(
  'FST_SEND_LIMIT_IN_FLIGHT',
  'already under way: %s',
  409,
  LimitError
)
/**
 * 403: the identity is blocked, by a rule's list or by `fastify.limit.block`; or a filter refuses and names no time.
 */
export const BlockedError = refusalClass('FST_SEND_LIMIT_BLOCKED', 'blocked by: %s', 403, LimitError)

/** The request lacks what a rule is keyed by. */
export const KeyMissingError = createError(
  'FST_SEND_LIMIT_KEY_MISSING',
  '%s is missing or not a scalar value',
  400
)
/** The value cannot be the identity that a rule is keyed by. */
export const KeyInvalidError = createError('FST_SEND_LIMIT_KEY_INVALID', '%s is not a valid %s', 422)
/**
 * A function of the app (of a rule, a filter, `errorResponse`) returned something wrong, or threw no error; or a path
 * leads to something that its rule cannot take, such as a function.
 */
export const FunctionError = createError('FST_SEND_LIMIT_FUNCTION', '%s must %s', 500)
/** The store did not answer, or not in time, and nothing stands in for it. */
export const StoreUnavailableError = storeError(
  'FST_SEND_LIMIT_STORE_UNAVAILABLE',
  'the limits cannot be checked now'
)
/** The memory store is full of live limits. */
export const StoreFullError = storeError(
  'FST_SEND_LIMIT_STORE_FULL',
  'the memory store is full of live limits'
)
/** A key function, a promise at the path of a key, or a filter took longer than the option `timeout`. */
export const TimeoutError = createError('FST_SEND_LIMIT_TIMEOUT', '%s took longer than %d ms', 503)

/** A text is no receipt that this app can refund. */
export const ReceiptError = createError('FST_SEND_LIMIT_RECEIPT', 'the receipt %s', 400)

/** An option, a rule or an argument is wrong. The message says which, what it is, and what would be right. */
export const OptionError = createError('FST_SEND_LIMIT_OPTION', '%s: %s. %s')
/** A route names a rule or filter, or a call of `fastify.limit` a rule, that is not defined. */
export const RuleUnknownError = createError<'FST_SEND_LIMIT_RULE_UNKNOWN', string[]>(
  'FST_SEND_LIMIT_RULE_UNKNOWN',
  '%s: there is no %s named "%s"; known: %s'
)
/** `fastify.limit` exists already in this scope or above it, by this plugin or by something else. */
export const RegisteredError = createError(
  'FST_SEND_LIMIT_REGISTERED',
  'fastify.limit exists already; register the plugin once, in a scope that contains all limited routes, and decorate nothing else under that name'
)
/**
 * Nothing would limit a route: it got `config.limit` before the plugin was ready, outside the plugin's scope, or from a
 * later hook, or a later hook replaced its handler or `onRequest`.
 */
export const RouteTooEarlyError = createError(
  'FST_SEND_LIMIT_ROUTE_TOO_EARLY',
  '%s has config.limit, but was declared before the plugin was ready, or outside its scope, or got it from an onRoute hook that ran after the plugin, or lost its handler to one; await app.register(limitPlugin) first, in a scope that contains all limited routes, write the limit in the route, and let hooks wrap what is there'
)
/** This process hashes identities under another secret than the other processes with the same Redis and prefix. */
export const SecretMismatchError = createError(
  'FST_SEND_LIMIT_SECRET_MISMATCH',
  'another secret is in use under the prefix "%s" of this Redis; give all processes one secret, or this one another prefix'
)

import { STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyReply } from 'fastify'
import { isPromise } from './awaitable.js'
import {
  BlockedError,
  ExceededError,
  FunctionError,
  InFlightError,
  type LimitError,
  type Problem,
  StoreUnavailableError
} from './errors.js'
import { policyHeaders } from './headers.js'
import { wrongReturn } from './mistakes.js'
import type { SendLimitOptions } from './options.js'
import { isResponse } from './outcome.js'
import type { Disclosures } from './plan.js'
import { type Policy, seconds } from './policy.js'
import type { RefusalLog } from './refusal-log.js'
import { isUsedUp, type LimitState } from './states.js'
import type { Verdict } from './verdict.js'

const KINDS = {
  exceeded: {
    make: ExceededError,
    // Registered by draft-ietf-httpapi-ratelimit-headers.
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too many requests'
  },
  'in-flight': { make: InFlightError, type: 'about:blank', title: 'Conflict' },
  blocked: { make: BlockedError, type: 'about:blank', title: 'Forbidden' }
}

/**
 * Makes the error of a refusal, with its headers and its problem document.
 * @param disclosures what the headers may tell
 */
export function refusal(verdict: Verdict, disclosures: Disclosures): LimitError {
  const { make, type, title } = KINDS[verdict.refusal ?? 'exceeded']
  const policies = violatedPolicies(verdict, disclosures)
  const error = new make(policies.join(', '))
  error.headers = policyHeaders(verdict.rules, disclosures, policies)
  if (verdict.retryAfterMs !== null) error.headers['retry-after'] = String(seconds(verdict.retryAfterMs))
  error.decision = verdict
  const { statusCode: status, message: detail, code } = error
  error.problem = {
    type,
    title,
    status,
    detail,
    code,
    'violated-policies': policies,
    retryAfterMs: verdict.retryAfterMs
  }
  return error
}

/** Names of what refuses: a limit by its policy, a block or a filter by the name of the rule or filter. */
function violatedPolicies({ violated, rules }: Verdict, disclosures: Disclosures): string[] {
  const names: string[] = []
  for (const { rule, windowMs } of violated) {
    const policies = windowMs === 0 ? undefined : disclosures.get(rule)?.policies
    const limits = rules.find(each => each.name === rule)?.limits
    if (policies === undefined || limits === undefined) {
      add(names, rule)
      continue
    }
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as LimitState
      if (limit.windowMs === windowMs && isUsedUp(limit)) add(names, (policies[i] as Policy).name)
    }
  }
  return names
}

function add(names: string[], name: string): void {
  if (!names.includes(name)) names.push(name)
}

/**
 * Sends a refusal.
 * @param handled whether the app has an error handler of its own for the request: then the refusal goes through that
 * @throws FunctionError, and what `errorResponse` throws
 */
export function refuse(
  reply: FastifyReply,
  error: LimitError,
  errorResponse: SendLimitOptions['errorResponse'],
  handled: boolean
): void {
  const { request } = reply
  if (errorResponse) error.problem = bodyOf(errorResponse(error, request, reply)) as Problem
  // Only now: if `errorResponse` throws, the answer is no refusal, and must not tell when to come again.
  reply.headers(error.headers)
  if (handled) reply.send(error)
  else if (errorResponse) reply.code(error.statusCode).send(error.problem)
  else sendProblem(reply, error.statusCode, error.problem)
}

function bodyOf(built: unknown): unknown {
  // From a whole Response Fastify would take the status, too.
  if (!isPromise(built) && !isResponse(built)) return built
  throw wrongReturn(built, 'options.errorResponse', 'the body of the answer')
}

/**
 * Sends an error of the plugin's own (a key that is missing or invalid, a store that does not answer) as a problem
 * document when the app has no error handler.
 * @throws any other error, one of status 500, and each when the app has an error handler
 */
export function fail(reply: FastifyReply, error: unknown, handled: boolean, log: RefusalLog): void {
  // To Fastify a promise that rejects with nothing is no error.
  const thrown =
    error ?? new FunctionError('a function of a rule or filter', `throw an error, but threw ${error}`)
  const { code, statusCode: status = 500, message: detail } = thrown as Partial<FastifyError>
  const own = typeof code === 'string' && code.startsWith('FST_SEND_LIMIT_')
  if (!own || (status >= 500 && status !== 503) || handled) throw thrown
  // That the store is lost was logged when it was lost.
  if (status === 503 && !(thrown instanceof StoreUnavailableError)) log.fail(thrown as Error, reply.request)
  sendProblem(reply, status, { type: 'about:blank', title: STATUS_CODES[status], status, detail, code })
}

function sendProblem(reply: FastifyReply, status: number, problem: unknown): void {
  reply.code(status).type('application/problem+json').serializer(JSON.stringify).send(problem)
}

import { isTimeZone } from '../calendar.js'
import { conform } from '../conform.js'
import { FunctionError } from '../errors.js'
import { compilePath, type Source } from '../identity/path.js'
import { typeOf, wrongOption } from '../mistakes.js'
import {
  type Amount,
  type CostFunction,
  type MaxFunction,
  RequestPath,
  type RequestValue,
  type TimeZoneFunction
} from '../rule.js'

/** Members of a request that say what the client has sent. */
const SENT = new Set([
  'body',
  'query',
  'params',
  'headers',
  'raw',
  'socket',
  'id',
  'cookies',
  'url',
  'originalUrl',
  'host',
  'hostname',
  'port',
  'protocol',
  'mediaType'
])

/** Whether an option is to be read from the request. */
export function isRequestValue(value: unknown): value is RequestValue {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A `max` as it was given, or a function that reads it from the request. @throws OptionError */
export function compileMax({ max }: Amount, at: string): number | MaxFunction {
  return isRequestValue(max) ? fromRequest(max, isNumber, 'a number', `${at}.max`) : max
}

/** A function that tells how much a request takes of its limits. @throws OptionError */
export function compileCost(cost: CostFunction | RequestValue, at: string): CostFunction {
  if (typeof cost === 'function') return cost
  if (isRequestValue(cost)) return fromRequest(cost, isNumber, 'a number', at)
  throw wrongOption(at, cost, 'Write a function or { value: path }.')
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value)
}

/** A time zone as it was given, or a function that reads it from the request. @throws OptionError */
export function compileTimeZone(
  timeZone: string | TimeZoneFunction | RequestValue,
  at: string
): string | TimeZoneFunction {
  if (typeof timeZone === 'function') return timeZone
  const zone = 'an IANA time zone such as "Asia/Shanghai"'
  if (isRequestValue(timeZone)) return fromRequest(timeZone, isTimeZone, zone, at)
  if (!isTimeZone(timeZone)) throw wrongOption(at, timeZone, `Write ${zone}, a function or { value: path }.`)
  return timeZone
}

/**
 * Compiles `{ value: "request.account.quota" }` to a function of the request.
 * @param what what the value must be, for errors
 * @returns the function; it throws FunctionError with the path when the value is missing or something else
 * @throws OptionError when the path does not start at `request`, or leads to what a client sends: that must not choose
 *   its own limit
 */
function fromRequest<T>(
  value: RequestValue,
  is: (value: unknown) => value is T,
  what: string,
  at: string
): (source: object) => T {
  conform(RequestPath, value, at)
  const { value: path } = value
  // Checked before `compilePath`: what would be right for the path of a key is wrong here.
  if (!path.startsWith('request.') || SENT.has(path.split('.')[1] ?? ''))
    throw wrongOption(
      `${at}.value`,
      path,
      'Write a path to what plugins put on the request: what a client sends must not choose its own limit.'
    )
  const read = compilePath(path, `${at}.value`)
  return source => {
    const found = read(source as Source)
    if (!is(found)) throw new FunctionError(`${at}: ${path}`, `be ${what}, but is ${typeOf(found)}`)
    return found
  }
}

import { conform } from '../conform.js'
import { FunctionError } from '../errors.js'
import { compilePath, type Source } from '../identity/path.js'
import { wrongOption } from '../mistakes.js'
import { RequestPath, type RequestValue } from '../rule.js'

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

/**
 * Compiles `{ value: "request.account.quota" }` to a function of the request.
 * @param what what the value must be, for errors
 * @returns the function; it throws FunctionError with the path when the value is missing or something else
 * @throws OptionError when the path does not start at `request`, or leads to what a client sends: that must not choose its own limit
 */
export function fromRequest<T>(
  value: RequestValue,
  is: (value: unknown) => value is T,
  what: string,
  at: string
): (source: object) => T {
  conform(RequestPath, value, at)
  const { value: path } = value
  // Before it is read as the path of a key: what would be right for one is wrong here.
  if (!path.startsWith('request.') || SENT.has(path.split('.')[1] ?? ''))
    throw wrongOption(
      `${at}.value`,
      path,
      'Write a path to what plugins put on the request: what a client sends must not choose its own limit.'
    )
  const read = compilePath(path, `${at}.value`)
  return source => {
    const found = read(source as Source)
    if (!is(found)) throw new FunctionError(`${at}: ${path}`, what)
    return found
  }
}

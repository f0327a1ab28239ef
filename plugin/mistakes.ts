import { handled, isPromise } from './awaitable.js'
import { FunctionError, OptionError } from './errors.js'
import { isResponse } from './outcome.js'

/**
 * A function of the app answered what it must not. Of an async one, which it must not be, the promise has nobody who waits
 * for it: what it rejects with would end the process.
 */
export function misanswered(answer: unknown, what: string, right: string): Error {
  handled(answer)
  return new FunctionError(what, `return ${right}, but returned ${typeOf(answer)}`)
}

/** What a value is, without the value: that may be a secret, and the client reads the error. */
export function typeOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (Array.isArray(value)) return 'an array'
  if (isPromise(value)) return 'a promise'
  if (isResponse(value)) return 'a Response'
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

/** An option at a path is wrong. `is` is what was given, `right` a sentence on what would be right. */
export function wrongOption(path: string, is: unknown, right: string, secret = false): Error {
  return new OptionError(path, `${secret || SECRET.test(path) ? hide(is) : show(is)} is wrong`, right)
}

// Errors end in logs; a client knows its password.
const SECRET = /\.(?:secret|client)$/

function hide(value: unknown): string {
  return value === undefined || value === null ? String(value) : `the ${typeof value} given`
}

function show(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (isInstance(value)) return hide(value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'number' || typeof value === 'symbol') return String(value)
  try {
    const text = JSON.stringify(value, (_name, each) => (isInstance(each) ? '…' : each)) ?? 'undefined'
    return text.length > 80 ? `${text.slice(0, 79)}…` : text
  } catch {
    return 'what was given'
  }
}

/** Of a class, as a client is that stands in a wrong place. */
function isInstance(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype !== null && prototype !== Object.prototype
}

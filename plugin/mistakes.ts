import { handled, isPromise } from './awaitable.js'
import { FunctionError, OptionError } from './errors.js'
import { isResponse } from './outcome.js'

/**
 * Makes the error for a function of the app that returned something wrong. If it is async, which it must not be, nobody
 * waits for its promise, and a rejection would end the process.
 */
export function wrongReturn(answer: unknown, what: string, right: string): Error {
  handled(answer)
  return new FunctionError(what, `return ${right}, but returned ${typeOf(answer)}`)
}

/** Names the type of a value, not the value itself: that may be a secret, and the client reads the error. */
export function typeOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (Array.isArray(value)) return 'an array'
  if (isPromise(value)) return 'a promise'
  if (isResponse(value)) return 'a Response'
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

/**
 * Makes the error for a wrong option at a path. `is` is what was given, `right` a sentence on what would be right. A
 * `secret` value is not shown.
 */
export function wrongOption(path: string, is: unknown, right: string, secret = false): Error {
  return new OptionError(path, `${secret || SECRET.test(path) ? hide(is) : show(is)} is wrong`, right)
}

// Options whose values errors do not show: errors end up in logs, and a client knows its password.
const SECRET = /\.(?:secret|client)$/

function hide(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  return `the ${Array.isArray(value) ? 'array' : typeof value} given`
}

/** A value as an error shows it: in JSON, cut off where it is long. */
export function show(value: unknown): string {
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

/** Whether a value is an instance of a class, as a client is. */
export function isInstance(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype !== null && prototype !== Object.prototype
}

import type { FastifyRequest } from 'fastify'
import type { Awaitable } from './awaitable.js'
import { conform } from './conform.js'
import { isInstance } from './mistakes.js'
import { Fn, Name, object } from './schemas.js'

/** The answer of a filter. No answer at all means that the request passes. */
export interface FilterResult {
  /** Whether the filter lets the request pass. */
  allowed: boolean
  /** With a refusal: how long to wait, in milliseconds; the answer is 429. Without it, or with null, it is 403. */
  retryAfterMs?: number | null
  /**
   * With a pass: takes back what the filter did. It is called when the request is refused after all, when the decision
   * fails, or when the request is over by then. It may take the option `timeout` at most. It may be async; what it
   * returns does not matter.
   */
  undo?: () => unknown
}

/**
 * A check of your own. Filters run before the reservation, in the order in which the route names them, each within the
 * option `timeout`.
 */
export interface Filter {
  /** The name of the filter in routes, answers and logs, in the same form as the name of a rule. */
  name: string
  /** Runs once, before the server listens, if a route names the filter; may be async. */
  init?: () => unknown
  /** Is asked about each request. What it throws is answered like an error of the handler. It may be async. */
  check(request: FastifyRequest): Awaitable<FilterResult | undefined | void>
  /** Runs once, when the server closes, if a route names the filter; may be async. */
  close?: () => unknown
}

const FilterSchema = object<Filter>(
  { name: Name, init: Fn, check: Fn, close: Fn },
  { name: true, check: true },
  'an object such as { name: "friends", check: request => ({ allowed: true }) }'
)
/** The schema of an instance of a class, which may have other members. */
const FilterInstance = { ...FilterSchema, open: true }

/** @throws OptionError with the path of the mistake */
export function checkFilter(filter: unknown, at: string): Filter {
  conform(isInstance(filter) ? FilterInstance : FilterSchema, filter, at)
  return filter
}

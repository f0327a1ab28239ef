import type { FastifyRequest } from 'fastify'
import type { Awaitable } from './awaitable.js'
import { conform } from './conform.js'
import { Fn, Name, object } from './schemas.js'

/** What a filter says; nothing at all means that it passes. */
export interface FilterResult {
  allowed: boolean
  /** With a refusal: when to come again, in milliseconds. Without it, or with null, the answer is 403. */
  retryAfterMs?: number | null
  /** With a pass: takes back what the filter did, should the request be refused after all. */
  undo?: () => Awaitable<void>
}

/** A check of one's own, run before the reservation, in the order it is named in. */
export interface Filter {
  name: string
  /** Runs once, before the server listens, if a route names the filter. */
  init?: () => Awaitable<void>
  check(request: FastifyRequest): Awaitable<FilterResult | undefined | void>
  /** Runs once, when the server closes, if a route names the filter. */
  close?: () => Awaitable<void>
}

const FilterSchema = object<Filter>(
  { name: Name, init: Fn, check: Fn, close: Fn },
  { name: true, check: true },
  'an object such as { name: "friends", check: request => ({ allowed: true }) }'
)
/** An object of a class has members of its own. */
const FilterInstance = { ...FilterSchema, open: true }

/** @throws OptionError with the path of the mistake */
export function checkFilter(filter: unknown, at: string): Filter {
  const plain =
    typeof filter !== 'object' || filter === null || Object.getPrototypeOf(filter) === Object.prototype
  conform(plain ? FilterSchema : FilterInstance, filter, at)
  return filter
}

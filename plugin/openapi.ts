import type { FastifySchema, RouteOptions } from 'fastify'
import type { CompiledRule } from './compiled-rule.js'
import { formatDuration } from './duration.js'
import { isForeign } from './foreign-schema.js'
import type { KeyPart } from './key.js'
import type { LimitedRoute } from './plan.js'

const PROBLEM = 'application/problem+json'

const problem = {
  type: 'object',
  additionalProperties: true,
  required: ['type', 'title', 'status'],
  properties: {
    type: { type: 'string', description: 'A URI for the type of problem (RFC 9457).' },
    title: { type: 'string', description: 'A short summary of the problem.' },
    status: { type: 'integer', description: 'The HTTP status of the answer.' },
    detail: { type: 'string', description: 'What is wrong, in words.' },
    code: { type: 'string', description: 'What is wrong, for programs.' },
    'violated-policies': {
      type: 'array',
      items: { type: 'string' },
      description:
        'The policies that refuse the request: a limit, as in `mail-60s`, or the name of a rule or filter.'
    },
    retryAfterMs: {
      // Not a list of types: before 9.9 @fastify/swagger writes that as it is, and OpenAPI 3.0 does not know it.
      type: 'number',
      nullable: true,
      description:
        'The time until every rule admits the request, as things stand, in milliseconds. Null if no time can be named.'
    }
  }
}

// @fastify/swagger takes the schema of a header in place of the header.
const policies = {
  RateLimit: {
    type: 'string',
    description:
      'How much is left of each limit on the caller and of each limit that refuses, as in `"ip";r=2;t=60`: `r` are left, and no more are admitted within `t` seconds.'
  },
  'RateLimit-Policy': {
    type: 'string',
    description:
      'The limits that `RateLimit` tells of, as in `"ip";q=3;w=60`: at most `q` in a window of `w` seconds.'
  }
}
const waiting = {
  'Retry-After': {
    type: 'integer',
    description: 'Seconds until the request may be repeated, as things stand. Absent if no time can be named.'
  }
}

interface Answer {
  description?: string
  headers?: object
}

/** For each schema that `Documentation` has written, the schema that it was made of. */
export const sources = new WeakMap<object, FastifySchema | undefined>()

/** What limited routes may answer, for @fastify/swagger. */
export class Documentation {
  private readonly routes: { route: RouteOptions; limited: LimitedRoute }[] = []
  private foreign = false

  /**
   * Notes the schema of every route, limited or not. If any is not JSON Schema, the app has a transform, which may be
   * unable to read JSON Schema; then nothing is written.
   */
  see(schema: FastifySchema | undefined): void {
    this.foreign ||= isForeign(schema)
  }

  add(route: RouteOptions, limited: LimitedRoute): void {
    // A copy: Fastify compiles the schema object in place, and the app's own object is to stay as it was.
    if (route.schema) route.schema = copyOf(route.schema)
    this.routes.push({ route, limited })
  }

  /**
   * Writes the answers into the routes' schemas. That must come after Fastify has compiled the schemas: otherwise it
   * would serialize the app's own answers by these.
   * @param foreign whether routes that `see` has not seen have schemas that are not JSON Schema
   */
  write(foreign: boolean): void {
    if (this.foreign || foreign) return
    for (const { route, limited } of this.routes.splice(0)) {
      const schema = documented(route.schema, limited)
      sources.set(schema, route.schema)
      route.schema = schema
    }
  }
}

/**
 * The schema of a limited route with the answers that its rules in force can give. What the route documents itself
 * stays as it is, except that each answer names the headers that the plugin adds, and that an answer without a
 * `description` gets that of the plugin.
 */
export function documented(schema: FastifySchema | undefined, limited: LimitedRoute): FastifySchema {
  const answers = answersOf(limited)
  // @fastify/swagger writes this answer for a route that documents none. Beside our answers it would not.
  const own = (schema?.response ?? { 200: bodiless('Default Response') }) as Record<string, Answer | boolean>
  const covers = new Set(Object.keys(own).map(status => status.toLowerCase()))
  // The status, class (`4xx`) or `default` under which the route documents an answer of ours: the app's word on it.
  const coverOf = (status: string) => [status, `${status[0]}xx`, 'default'].find(each => covers.has(each))
  // Copies, here and in `withHeaders`: an old @fastify/swagger 9 writes an object that is there twice as an alias in
  // YAML, of which parsers take only so many.
  const ours = Object.entries(answers).map(([status, its]) => [status, structuredClone(its)] as const)
  const added = ours.filter(([status]) => coverOf(status) === undefined)
  const completed = Object.entries(own).map(([status, its]) => {
    const covered = ours.filter(([each]) => coverOf(each) === status.toLowerCase())
    const whole = covered.reduce((so, [, { headers }]) => withHeaders(so, headers), its)
    return [status, withDescription(whole, answers[status]?.description)] as const
  })
  const toCallers = limited.plan.callers.size > 0 ? policies : {}
  const response = [...added, ...completed].map(([status, its]) => [status, withHeaders(its, toCallers)])
  return copyOf(schema ?? {}, { response: Object.fromEntries(response) })
}

/** What a route may answer by its rules in force and its filters, by status. */
function answersOf({ plan, rewritten }: LimitedRoute): Record<string, Answer> {
  const refusal = rewritten ? bodiless : answer
  const rules = [...plan.attempts, ...plan.sends].filter(rule => !rule.observed)
  const locks = rules.filter(rule => rule.lock)
  const filtered = plan.filters.length > 0
  // The policy headers tell nothing of a private rule, nor of a filter.
  const disclosed = rules.some(({ name }) => plan.disclosures.get(name)?.to !== 'nobody')
  const headers = { ...waiting, ...(disclosed && policies) }
  const answers: Record<string, Answer> = {
    400: answer('The request lacks a value by which a rule counts.'),
    422: answer('A value by which a rule counts is not valid, such as an impossible phone number.'),
    503: answer('The limits cannot be checked now, so the request is refused.')
  }
  // Beside a rule that blocks, a limit or a lock may refuse as well, and the headers tell of that.
  if (filtered || rules.length > 0)
    answers[403] = {
      ...refusal('A rule or a filter blocks the request.'),
      ...(disclosed && rules.length > locks.length && { headers: policies })
    }
  if (filtered || rules.length > locks.length)
    answers[429] = { ...refusal(['A limit is reached.', ...rules.map(sentence)].join(' ')), headers }
  if (locks.length > 0)
    answers[409] = {
      ...refusal(['A request under the same lock is still running.', ...locks.map(sentence)].join(' ')),
      headers
    }
  return answers
}

/** A copy of a schema with these members. It inherits what the schema inherits, which Fastify reads as well. */
function copyOf(schema: FastifySchema, members?: FastifySchema): FastifySchema {
  const own = { ...schema, ...members }
  return Object.create(Object.getPrototypeOf(schema), Object.getOwnPropertyDescriptors(own))
}

/** Adds the headers that an answer lacks. Their names are the same in any case. */
function withHeaders(its: Answer | boolean, headers: object = {}): Answer | boolean {
  if (!isOpen(its)) return its
  const known = new Set(Object.keys(its.headers ?? {}).map(name => name.toLowerCase()))
  const lacking = Object.entries(structuredClone(headers)).filter(([name]) => !known.has(name.toLowerCase()))
  return lacking.length === 0 ? its : { ...its, headers: { ...Object.fromEntries(lacking), ...its.headers } }
}

function withDescription(its: Answer | boolean, description: string | undefined): Answer | boolean {
  return isOpen(its) && description !== undefined ? { description, ...its } : its
}

/** Whether an answer may get more than it has: none behind a `$ref` may, nor a schema `true` or `false`. */
function isOpen(its: Answer | boolean): its is Answer {
  return typeof its === 'object' && !('$ref' in its)
}

function answer(description: string): Answer & { content: object } {
  return { description, content: { [PROBLEM]: { schema: problem } } }
}

/** An answer whose body is not described: with the type `null`, @fastify/swagger says nothing of a body. */
function bodiless(description: string): Answer & { type: string } {
  return { description, type: 'null' }
}

/** Describes a rule in words. */
function sentence(rule: CompiledRule): string {
  const written = [rule.options.key].flat() as KeyPart[]
  const by = rule.key.parts.map(({ label }, i) => label + networkOf(written[i])).join(' and ')
  if (rule.lock) return `${rule.name}: one at a time by ${by}.`
  const different = rule.distinct?.parts.map(part => part.label).join(' and ')
  const limits = (rule.options.limits ?? []).map(limit => {
    const most = typeof limit.max === 'number' ? limit.max : `up to ${limit.ceiling}`
    const max = different === undefined ? most : `${most} different ${different}`
    const { window, timeZone = 'UTC' } = limit
    if (window !== undefined)
      return `${max} in ${typeof window === 'number' ? formatDuration(window) : window}`
    return `${max} per ${limit.per} (${typeof timeZone === 'string' ? timeZone : 'time zone of the request'})`
  })
  const each = rule.cost === undefined ? '' : ', each request at its cost'
  return `${rule.name}: ${limits.join(', ')}, counted by ${by}${each}.`
}

/** The sizes of the networks that the key counts, where the key itself says them. */
function networkOf(part: KeyPart | undefined): string {
  if (typeof part !== 'object' || !('ip' in part)) return ''
  const prefixes = Object.entries({ IPv4: part.ipv4Prefix, IPv6: part.ipv6Prefix })
  const own = prefixes.flatMap(([name, bits]) => (bits === undefined ? [] : [`${name} by /${bits}`]))
  return own.length === 0 ? '' : ` (${own.join(', ')})`
}

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
    type: { type: 'string', description: 'URI of the kind of problem (RFC 9457)' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string' },
    'violated-policies': { type: 'array', items: { type: 'string' } },
    retryAfterMs: { type: ['number', 'null'], description: 'milliseconds until every rule admits' }
  }
}

// @fastify/swagger takes a header as its schema.
const policies = {
  RateLimit: { type: 'string', description: 'what is left, by policy' },
  'RateLimit-Policy': { type: 'string', description: 'the policies' }
}
const waiting = { 'Retry-After': { type: 'integer', description: 'seconds until every rule admits' } }

interface Answer {
  headers?: object
}

/** Of schemas that `Documentation` wrote, those that they were made of. */
export const sources = new WeakMap<object, FastifySchema | undefined>()

/** What limited routes may answer, for @fastify/swagger. */
export class Documentation {
  private readonly routes: { route: RouteOptions; limited: LimitedRoute }[] = []
  private foreign = false

  /** Hears of every route, limited or not: the transform of an app with other schemas than JSON may read those alone. */
  see(schema: FastifySchema | undefined): void {
    this.foreign ||= isForeign(schema)
  }

  add(route: RouteOptions, limited: LimitedRoute): void {
    // Fastify compiles this object in place; what is written below must leave it alone.
    if (route.schema) route.schema = { ...route.schema }
    this.routes.push({ route, limited })
  }

  /**
   * Writes it, when Fastify has compiled the schemas: else the app's own answers would be serialized by these.
   * @param foreign whether the app has routes, unheard of here, with other schemas than JSON
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
 * The schema of a limited route with the answers that its rules in force can give. What the route documents itself is
 * left, but that each answer names the headers which tell the caller what is left.
 */
export function documented(
  schema: FastifySchema | undefined,
  { plan, rewritten }: LimitedRoute
): FastifySchema {
  const refusal = rewritten ? bodiless : answer
  const rules = [...plan.attempts, ...plan.sends].filter(rule => !rule.observed)
  const locks = rules.filter(rule => rule.lock)
  const filtered = plan.filters.length > 0
  // Of a private rule neither tells, nor is there anything to tell of a filter.
  const told = rules.some(({ name }) => plan.disclosures.get(name)?.to !== 'nobody')
  const headers = { ...waiting, ...(told && policies) }
  const answers: Record<string, object> = {
    400: answer('What a rule is keyed by is missing.'),
    422: answer('What a rule is keyed by cannot be such an identity.'),
    503: answer('The limits cannot be checked now.')
  }
  if (filtered || rules.length > 0) answers[403] = refusal('Blocked.')
  if (filtered || rules.length > locks.length)
    answers[429] = { ...refusal(['Limit reached.', ...rules.map(sentence)].join(' ')), headers }
  if (locks.length > 0)
    answers[409] = { ...refusal(['The same send is under way.', ...locks.map(sentence)].join(' ')), headers }
  // Where a route documents nothing, @fastify/swagger writes this; beside our answers it would not.
  const own = (schema?.response ?? { 200: { description: 'Default Response' } }) as Record<string, Answer>
  // What covers a whole class is the app's word on these answers, too.
  const covers = new Set(Object.keys(own).map(status => status.toLowerCase()))
  const added = Object.entries(answers).filter(
    ([status]) => !covers.has(`${status[0]}xx`) && !covers.has('default')
  )
  const all = Object.entries({ ...Object.fromEntries(added), ...own })
  const response = all.map(([status, its]) => [status, plan.callers.size > 0 ? withPolicies(its) : its])
  return { ...schema, response: Object.fromEntries(response) }
}

/** What stands elsewhere, behind a `$ref`, is left, and so is a schema `true` or `false`. */
function withPolicies(its: Answer | boolean): Answer | boolean {
  return typeof its === 'boolean' || '$ref' in its
    ? its
    : { ...its, headers: { ...policies, ...its.headers } }
}

function answer(description: string): object {
  return { description, content: { [PROBLEM]: { schema: problem } } }
}

/** By `null` @fastify/swagger says nothing of a body. */
function bodiless(description: string): object {
  return { description, type: 'null' }
}

/** What a rule says, in words. */
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
  return `${rule.name}: ${limits.join(', ')} by ${by}.`
}

/** Of which networks an address is one, where the key says so itself. */
function networkOf(part: KeyPart | undefined): string {
  if (typeof part !== 'object' || !('ip' in part)) return ''
  const prefixes = Object.entries({ IPv4: part.ipv4Prefix, IPv6: part.ipv6Prefix })
  const own = prefixes.flatMap(([name, bits]) => (bits === undefined ? [] : [`${name} by /${bits}`]))
  return own.length === 0 ? '' : ` (${own.join(', ')})`
}

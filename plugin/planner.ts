import { createHash } from 'node:crypto'
import type { RouteOptions } from 'fastify'
import { conform } from './conform.js'
import { RuleUnknownError, wrongOption } from './errors.js'
import type { Filters } from './filters.js'
import type { Limiter } from './limiter.js'
import { type Filter, FilterInstance, FilterSchema, type Rule, type SendLimitOptions } from './options.js'
import type { Plan } from './route.js'
import type { CompiledRule, RuleCompiler } from './rules.js'

function checkFilter(filter: unknown, at: string): Filter {
  const plain =
    typeof filter !== 'object' || filter === null || Object.getPrototypeOf(filter) === Object.prototype
  return conform(plain ? FilterSchema : FilterInstance, filter, at) as Filter
}

// JSON makes `{}` of every regular expression.
function patterns(_name: string, value: unknown): unknown {
  return value instanceof RegExp ? String(value) : value
}

/** Turns what stands in `config.limit` into plans, and keeps what routes share. */
export class Planner {
  private readonly filters = new Map<string, Filter>()
  private readonly planned = new Set<string>()
  private readonly made = new Map<string, { limit: unknown; plan: Plan }>()

  constructor(
    private readonly compiler: RuleCompiler,
    private readonly limiter: Limiter,
    private readonly used: Filters,
    { rules = [], filters = [] }: Pick<SendLimitOptions, 'rules' | 'filters'>
  ) {
    for (const [i, rule] of rules.entries()) {
      const at = `options.rules[${i}]`
      const compiled = compiler.compile(rule, at, '')
      this.claim(compiled.name, `${at}.name`)
      limiter.rules.set(compiled.name, compiled)
    }
    for (const [i, filter] of filters.entries()) {
      const at = `options.filters[${i}]`
      checkFilter(filter, at)
      this.claim(filter.name, `${at}.name`)
      this.filters.set(filter.name, filter)
    }
  }

  /**
   * The plan of a route; none for a route without limits. HEAD shares the plan of its GET.
   * @throws OptionError, RuleUnknownError
   */
  plan(route: RouteOptions): Plan | undefined {
    const limit = route.config?.limit
    if (limit === undefined) return undefined
    for (const method of [route.method].flat()) this.planned.add(`${method} ${route.url}`)
    const constraints = route.constraints ? ` ${JSON.stringify(route.constraints, patterns)}` : ''
    // With a prefix GET stands at one spelling of "/", HEAD at both.
    const place = `${route.url.replace(/\/$/, '')}${constraints}`
    const known = this.made.get(place)
    if (route.method === 'HEAD' && known?.limit === limit) return known.plan
    const name = `${[route.method].flat().join(',')} ${route.url}`
    const plan = { ...this.make(limit, name, constraints), handled: route.errorHandler !== undefined }
    this.made.set(place, { limit, plan })
    return plan
  }

  /** Whether a route has a plan. */
  plans(method: string, url: string): boolean {
    return this.planned.has(`${method} ${url}`)
  }

  private make(limit: unknown, name: string, constraints: string): Omit<Plan, 'handled'> {
    const list: unknown[] = Array.isArray(limit) ? limit : [limit]
    const at = (i: number) => `${name}: config.limit${Array.isArray(limit) ? `[${i}]` : ''}`
    if (list.length === 0)
      throw wrongOption(`${name}: config.limit`, limit, 'Name at least one rule, or leave it out.')
    const rules: CompiledRule[] = []
    const filters: Filter[] = []
    for (const [i, each] of list.entries()) {
      const found = this.find(each, at(i), name + constraints)
      if ([...rules, ...filters].some(other => other.name === found.name)) {
        throw wrongOption(at(i), found.name, 'Each rule or filter of a route has a name of its own.')
      }
      if ('check' in found) filters.push(found)
      else rules.push(found)
    }
    for (const filter of filters) this.used.add(filter)
    return {
      route: name,
      attempts: rules.filter(rule => rule.counts === 'attempts'),
      sends: rules.filter(rule => rule.counts !== 'attempts'),
      filters,
      callers: new Set(
        rules
          .filter(rule => rule.key.caller && !rule.observed && rule.options.lock === undefined)
          .map(rule => rule.name)
      )
    }
  }

  private find(each: unknown, at: string, place: string): CompiledRule | Filter {
    if (typeof each === 'string') {
      const found = this.limiter.rules.get(each) ?? this.filters.get(each)
      if (found === undefined)
        throw new RuleUnknownError(
          at,
          each,
          [...this.limiter.rules.keys(), ...this.filters.keys()].join(', ') || 'none'
        )
      return found
    }
    if (typeof each !== 'object' || each === null)
      throw wrongOption(at, each, 'Write a rule, the name of one, a filter, or a list of these.')
    if ('check' in each) return checkFilter(each, at)
    // An inline rule belongs to its route: so do its keys in the store.
    const owner = createHash('sha256').update(place).digest('base64url').slice(0, 6)
    const rule = this.compiler.compile(each as Rule, at, `@${owner}`)
    this.limiter.rules.set(`${rule.name}@${place}`, rule)
    return rule
  }

  private claim(name: string, at: string): void {
    if (this.limiter.rules.has(name) || this.filters.has(name)) {
      throw wrongOption(at, name, 'Each rule and filter has a name of its own.')
    }
  }
}

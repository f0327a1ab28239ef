import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { RouteOptions } from 'fastify'
import type { CompiledRule } from './compiled-rule.js'
import { checkFilter, type Filter } from './filter.js'
import type { Filters } from './filters.js'
import type { Limiter } from './limiter.js'
import { type Member, resolve } from './members.js'
import { wrongOption } from './mistakes.js'
import type { SendLimitOptions } from './options.js'
import { type LimitedRoute, nameOf, planOf } from './plan.js'
import type { Rule } from './rule.js'
import type { RuleCompiler } from './rules.js'

// The constraints of an app's own are of any type. JSON would write some as `{}`, leave others out, and refuse a bigint.
const TEXTS = ['bigint', 'function', 'symbol']
function texts(_name: string, value: unknown): unknown {
  return value instanceof RegExp || TEXTS.includes(typeof value) ? String(value) : value
}

const specsOf = (rules: ReadonlyMap<string, CompiledRule>) =>
  [...rules.values()].flatMap(({ specs }) => specs)

interface Planned extends LimitedRoute {
  members: readonly Member[]
}

/** Turns the `config.limit` of each route into a plan, and keeps the rules and filters that routes share. */
export class Planner {
  private readonly filters = new Map<string, Filter>()
  private readonly made = new Map<string, { limit: unknown; members: readonly Member[] }>()
  private readonly routes: Planned[] = []
  private shared: ReadonlyMap<string, CompiledRule>
  private readonly rewritten: boolean

  constructor(
    private readonly compiler: RuleCompiler,
    private readonly limiter: Limiter,
    private readonly used: Filters,
    { rules = [], filters = [], errorResponse }: Pick<SendLimitOptions, 'rules' | 'filters' | 'errorResponse'>
  ) {
    this.rewritten = errorResponse !== undefined
    this.shared = this.compile(rules, 'options.rules')
    this.limiter.rules = new Map(this.shared)
    for (const [i, filter] of filters.entries()) {
      const at = `options.filters[${i}]`
      checkFilter(filter, at)
      this.claim(filter.name, `${at}.name`, this.shared)
      this.filters.set(filter.name, filter)
    }
  }

  /**
   * Plans a route; undefined for one without limits. A HEAD route shares the inline rules of its GET.
   * @throws OptionError, RuleUnknownError
   */
  plan(route: RouteOptions): LimitedRoute | undefined {
    const limit = route.config?.limit
    if (limit === undefined) return undefined
    // NestJS passes an empty object when there are no constraints.
    const ordered = Object.entries(route.constraints ?? {}).sort(([one], [other]) => (one < other ? -1 : 1))
    const constrained = JSON.stringify(Object.fromEntries(ordered), texts)
    const constraints = constrained === '{}' ? '' : ` ${constrained}`
    const place = route.url + constraints
    // Under a prefix, `onRoute` hears of a GET of "/" in one spelling, with or without the slash, and of its HEAD in
    // both.
    const bare = route.url.replace(/\/$/, '') + constraints
    const known = this.made.get(place) ?? this.made.get(bare)
    const methods = [route.method].flat()
    const head = methods.every(method => method === 'HEAD')
    // Compared in depth, since an `onRoute` hook that ran before may have made the same rule anew.
    const shares = head && known && isDeepStrictEqual(known.limit, limit)
    const name = nameOf(route)
    const members = shares ? known.members : this.membersOf(limit, name, name + constraints)
    if (methods.includes('GET')) {
      const made = { limit, members }
      this.made.set(place, made)
      // A route that has this spelling itself goes before.
      if (!this.made.has(bare)) this.made.set(bare, made)
    }
    return this.planned(name, members)
  }

  /**
   * Replaces all rules of the plugin's options by these, for every route at once. Inline rules of routes stay. When it
   * throws, nothing has changed.
   * @returns the new rules
   * @throws OptionError with a path such as `rules[0].key`, RuleUnknownError when a route names a rule that is gone
   */
  replace(rules: readonly Rule[]): readonly CompiledRule[] {
    const shared = this.compile(rules, 'rules')
    const inline = [...this.limiter.rules].filter(([name]) => !this.shared.has(name))
    const all = new Map([...shared, ...inline])
    const plans = this.routes.map(({ plan, members }) =>
      planOf(plan.route, resolve(members, all, this.filters))
    )
    // The specs of rules that are gone are no longer in force.
    for (const { inForce } of specsOf(this.shared)) inForce.spec = null
    for (const spec of specsOf(shared)) spec.inForce.spec = spec
    this.shared = shared
    this.limiter.rules = all
    for (const [i, plan] of plans.entries()) (this.routes[i] as Planned).plan = plan
    return [...shared.values()]
  }

  private compile(rules: readonly Rule[], at: string): Map<string, CompiledRule> {
    if (!Array.isArray(rules)) throw wrongOption(at, rules, 'Write a list of rules.')
    const compiled = new Map<string, CompiledRule>()
    for (const [i, each] of rules.entries()) {
      const rule = this.compiler.compile(each as Rule, `${at}[${i}]`, '')
      this.claim(rule.name, `${at}[${i}].name`, compiled)
      compiled.set(rule.name, rule)
    }
    return compiled
  }

  private planned(name: string, members: readonly Member[]): LimitedRoute {
    const found = resolve(members, this.limiter.rules, this.filters)
    const plan = planOf(name, found)
    for (const filter of plan.filters) this.used.add(filter)
    const replaceable = found.some(each => this.shared.get(each.name) === each)
    const route = { plan, members, replaceable, rewritten: this.rewritten }
    this.routes.push(route)
    return route
  }

  /** @param place the route (with its constraints) that owns the inline rules */
  private membersOf(limit: unknown, name: string, place: string): Member[] {
    const list: unknown[] = Array.isArray(limit) ? [...limit] : [limit]
    if (list.length === 0)
      throw wrongOption(`${name}: config.limit`, limit, 'Name at least one rule, or leave it out.')
    return list.map((each, i) => {
      const at = `${name}: config.limit${Array.isArray(limit) ? `[${i}]` : ''}`
      return { at, is: this.memberOf(each, at, place) }
    })
  }

  private memberOf(each: unknown, at: string, place: string): Member['is'] {
    if (typeof each === 'string') return each
    if (typeof each !== 'object' || each === null || Array.isArray(each))
      throw wrongOption(at, each, 'Write a rule, the name of one, a filter, or a list of these.')
    if ('check' in each) return checkFilter(each, at)
    // An inline rule belongs to its route, and so do its keys in the store.
    const owner = hash('sha256', place, 'base64url').slice(0, 6)
    const rule = this.compiler.compile(each as Rule, at, `@${owner}`)
    this.limiter.rules.set(`${rule.name}@${place}`, rule)
    return rule
  }

  private claim(name: string, at: string, rules: ReadonlyMap<string, CompiledRule>): void {
    if (rules.has(name) || this.filters.has(name)) {
      throw wrongOption(at, name, 'Each rule and filter has a name of its own.')
    }
  }
}

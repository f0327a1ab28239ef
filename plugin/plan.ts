import type { FastifyRequest, RouteOptions } from 'fastify'
import type { CompiledRule } from './compiled-rule.js'
import { formatDuration } from './duration.js'
import type { Filter } from './filter.js'
import { isHidden } from './per-request.js'
import { Policy } from './policy.js'
import { countsByAddress } from './rule-reading.js'

/** What headers tell of a rule, and whom. */
interface Disclosure {
  /** One for each limit of the rule. */
  policies: readonly Policy[]
  /**
   * Who is told what is left: `caller`, every caller, since the rule counts the caller itself; `met`, only a caller who
   * has just run into one of its limits; or `nobody`.
   */
  to: 'caller' | 'met' | 'nobody'
}

/** The disclosures of rules, by the name of the rule. */
export type Disclosures = ReadonlyMap<string, Disclosure>

/** A route as errors and events name it: `POST /code`. */
export function nameOf({ method, url }: Pick<RouteOptions, 'method' | 'url'>): string {
  return `${method} ${url}`
}

/** What a route's `config.limit` means: its rules by stage, its filters, and what headers tell. */
export interface Plan {
  /** Method and url. */
  route: string
  attempts: readonly CompiledRule[]
  sends: readonly CompiledRule[]
  filters: readonly Filter[]
  disclosures: Disclosures
  /** Names of the rules that the caller is always told of. */
  callers: ReadonlySet<string>
  /** Names of the rules that count by the client's address. */
  byAddress: readonly string[]
}

/** A limited route. A request under way keeps the plan that it began with. */
export interface LimitedRoute {
  plan: Plan
  /**
   * Whether the route names rules of the plugin's options, which may be replaced: then any plan may follow this one.
   */
  readonly replaceable: boolean
  /** Whether the option `errorResponse` builds the bodies of its refusals. */
  readonly rewritten: boolean
}

/** The member of a route's `config` that holds what limits it. All copies of this module use the same symbol. */
export const LIMITED: unique symbol = Symbol.for('fastify-send-limit.limited')

/** What limits the route of this `config`, if anything does. */
export function limitedBy(config: object): LimitedRoute | undefined {
  return (config as { [LIMITED]?: LimitedRoute })[LIMITED]
}

/** The plan for these rules and filters, in the order of their names on the route. */
export function planOf(route: string, named: readonly (CompiledRule | Filter)[]): Plan {
  const rules = named.filter((each): each is CompiledRule => !('check' in each))
  return {
    route,
    attempts: rules.filter(rule => rule.counts === 'attempts'),
    sends: rules.filter(rule => rule.counts !== 'attempts'),
    filters: named.filter((each): each is Filter => 'check' in each),
    ...disclosuresOf(rules.map(rule => [rule.name, disclosureOf(rule)])),
    byAddress: rules.filter(countsByAddress).map(({ name }) => name)
  }
}

/**
 * The plan as headers tell it to this request: rules whose `private` function says so are hidden.
 * @param rules those of the stage that decides now: what functions of other rules read may not be on the request yet
 * @throws FunctionError
 */
export function planFor(plan: Plan, rules: readonly CompiledRule[], request?: FastifyRequest): Plan {
  // Rules that are hidden from everybody are so in the plan already.
  const hiding = rules.filter(rule => isHidden(rule, request))
  if (hiding.length === 0) return plan
  const hidden = hiding.map(({ name }) => name)
  const disclosed = [...plan.disclosures].map(([name, disclosure]): [string, Disclosure] =>
    hidden.includes(name) ? [name, { ...disclosure, to: 'nobody' }] : [name, disclosure]
  )
  return { ...plan, ...disclosuresOf(disclosed) }
}

function disclosuresOf(
  disclosed: readonly [name: string, Disclosure][]
): Pick<Plan, 'disclosures' | 'callers'> {
  const callers = disclosed.filter(([, { to }]) => to === 'caller').map(([name]) => name)
  return { disclosures: new Map(disclosed), callers: new Set(callers) }
}

function disclosureOf(rule: CompiledRule): Disclosure {
  const { key, observed, lock, hidden } = rule
  const names = policyNames(rule)
  const onCaller = key.caller && !observed && !lock
  return {
    policies: windowsOf(rule).map((windowMs, i) => new Policy(names[i] as string, windowMs)),
    to: hidden === true ? 'nobody' : onCaller ? 'caller' : 'met'
  }
}

function windowsOf({ specs }: CompiledRule): number[] {
  return specs.flatMap(spec => spec.limits.map(({ windowMs }) => windowMs))
}

/**
 * The names of a rule's policies, one for each limit. The policy of a single limit has the name of the rule. Those of
 * several limits are `mail-60s`, `mail-24h`, and for a calendar day beside the latter `mail-24h-calendar`.
 */
export function policyNames(rule: CompiledRule): string[] {
  const { name } = rule
  const lengths = windowsOf(rule)
  if (lengths.length === 1) return [name]
  // The rolling limits of a rule come first.
  return lengths.map((ms, i) => `${name}-${formatDuration(ms)}${lengths.indexOf(ms) < i ? '-calendar' : ''}`)
}

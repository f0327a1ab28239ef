import type { CompiledRule } from './compiled-rule.js'
import { formatDuration } from './duration.js'
import type { Filter } from './filter.js'

/** Whose figures headers may tell. */
export interface Audience {
  /** Names of rules on the caller itself: told always. */
  callers: ReadonlySet<string>
  /** Names of private rules: told never. */
  secrets: ReadonlySet<string>
  /** The names of each rule's limits, as `RateLimit-Policy` tells them. */
  policies: ReadonlyMap<string, readonly string[]>
}

/** What a route's `config.limit` comes to. */
export interface Plan extends Audience {
  /** Method and url. */
  route: string
  attempts: readonly CompiledRule[]
  sends: readonly CompiledRule[]
  filters: readonly Filter[]
  /** Whether the route has an error handler of its own. */
  handled: boolean
}

/** A limited route. A request under way keeps the plan that it began with. */
export interface LimitedRoute {
  plan: Plan
  /** Whether it names rules that may be replaced: then any plan may follow. */
  readonly replaceable: boolean
}

/** The plan for these rules and filters, in the order of their names on the route. */
export function planOf(route: string, handled: boolean, named: readonly (CompiledRule | Filter)[]): Plan {
  const rules = named.filter((each): each is CompiledRule => !('check' in each))
  const names = (which: (rule: CompiledRule) => boolean) =>
    new Set(rules.filter(which).map(rule => rule.name))
  return {
    route,
    handled,
    attempts: rules.filter(rule => rule.counts === 'attempts'),
    sends: rules.filter(rule => rule.counts !== 'attempts'),
    filters: named.filter((each): each is Filter => 'check' in each),
    callers: names(
      ({ key, observed, options }) =>
        key.caller && !observed && options.lock === undefined && options.private !== true
    ),
    secrets: names(({ options }) => options.private === true),
    policies: new Map(rules.map(rule => [rule.name, policyNames(rule)]))
  }
}

/** A rule of several limits is several policies: `mail-60s`, `mail-24h`, and beside the latter for a day `mail-24h-calendar`. */
export function policyNames({ name, specs }: CompiledRule): string[] {
  const lengths = specs.flatMap(spec => spec.limits.map(({ windowMs }) => windowMs))
  if (lengths.length === 1) return [name]
  // The rolling limits of a rule come first.
  return lengths.map((ms, i) => `${name}-${formatDuration(ms)}${lengths.indexOf(ms) < i ? '-calendar' : ''}`)
}

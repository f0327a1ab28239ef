import type { CompiledRule } from './compiled-rule.js'
import { RuleUnknownError } from './errors.js'
import type { Filter } from './filter.js'
import { wrongOption } from './mistakes.js'
import { policyNames } from './plan.js'

/** A member of a route's `config.limit`: a rule or filter, or the name of one. */
export interface Member {
  at: string
  is: string | CompiledRule | Filter
}

type Named<T> = ReadonlyMap<string, T>

/**
 * Finds the rules and filters that are the members of a route. No two of them may have a name in common, neither their
 * own nor that of a policy.
 * @throws OptionError, RuleUnknownError
 */
export function resolve(
  members: readonly Member[],
  rules: Named<CompiledRule>,
  filters: Named<Filter>
): (CompiledRule | Filter)[] {
  const taken = new Set<string>()
  return members.map(member => {
    const one = find(member, rules, filters)
    const names = new Set([one.name, ...('check' in one ? [] : policyNames(one))])
    for (const name of names) {
      if (taken.has(name))
        throw wrongOption(member.at, name, 'Each rule, filter and limit of a route has a name of its own.')
      taken.add(name)
    }
    return one
  })
}

function find({ at, is }: Member, rules: Named<CompiledRule>, filters: Named<Filter>): CompiledRule | Filter {
  if (typeof is !== 'string') return is
  const found = rules.get(is) ?? filters.get(is)
  if (found !== undefined) return found
  throw new RuleUnknownError(
    at,
    'rule or filter',
    is,
    [...rules.keys(), ...filters.keys()].join(', ') || 'none'
  )
}

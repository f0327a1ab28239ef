import { readFileSync } from 'node:fs'
import { isSupportedCountry } from 'libphonenumber-js/max'
import type { Rule } from '../plugin/index.js'
import { checkActions } from './actions.js'
import { checkBoundParams } from './bound-params.js'
import { ConfigError, check, parseJson, quoted } from './check.js'
import { checkPaths, factsOf, KINDS, type PolicyRule, reads } from './facts.js'
import { OWN, type Policy, PolicySchema, RULES } from './policy-schema.js'
import { NO_COUNTRY } from './recipient.js'
import { loadTemplates, type Templates } from './templates/templates.js'

/**
 * @param file the app's own policy when left out
 * @param templates the templates in force; read from the app's own files when left out
 * @throws ConfigError that says what is wrong, and where
 */
export function loadPolicy(file: string | URL = OWN, templates: Templates = loadTemplates()): Policy {
  let value: unknown
  try {
    value = parseJson(readFileSync(file))
  } catch (error) {
    throw new ConfigError(`POLICY_FILE cannot be read: ${(error as Error).message}`)
  }
  const policy = check(PolicySchema, value, 'policy')
  checkCountries(policy)
  checkBoundParams(policy, templates)
  checkActions(policy, templates)
  checkRules(policy)
  return policy
}

function checkCountries({ countries = [], countryQuotas = {} }: Policy): void {
  for (const [i, country] of countries.entries())
    checkCountry(country, `policy.countries[${i}] (${JSON.stringify(country)})`)
  for (const country of Object.keys(countryQuotas))
    if (country !== 'default') checkCountry(country, `policy.countryQuotas.${country}`)
}

/**
 * @param what begins the error: where the country stands
 * @throws ConfigError when a country is none whose numbers are known
 */
export function checkCountry(country: string, what: string): void {
  if (country === NO_COUNTRY || isSupportedCountry(country)) return
  const right = 'is no country whose numbers are known; write two letters as in "CN" (ISO 3166-1)'
  throw new ConfigError(`${what} ${right}.`)
}

/** Warnings about rules that refuse nothing. A policy for load tests has only these, and must not be used elsewhere. */
export function observers({ rules }: Policy): string[] {
  const names = rules.filter(({ mode }) => mode === 'observe').map(({ name }) => name)
  return names.length === 0 ? [] : [`policy.rules: ${names.join(', ')} only observe, and refuse nothing`]
}

/** Checks that the rules decide on something, read only facts that exist, and that none is missing. */
function checkRules({ rules }: Policy): void {
  for (const [i, rule] of rules.entries()) {
    const { name, counts, on, key, distinct, cost, limits } = rule
    const at = `policy.rules[${i}]`
    checkOn(rule, at)
    for (const [member, value] of Object.entries({ key, distinct, cost, limits }))
      checkPaths(value, `${at}.${member}`, factsOf({ name, counts, on }))
    checkKnown(rule, at)
  }
  const names = rules.map(({ name }) => name)
  const lacking = RULES.filter(name => !names.includes(name)).map(name => JSON.stringify(name))
  if (lacking.length > 0)
    throw new ConfigError(`policy.rules lacks ${lacking.join(', ')}, by which endpoints count.`)
}

/** Checks that a rule says on which requests it decides if it is one of the operator's own, and only then. */
function checkOn({ name, on }: PolicyRule, at: string): void {
  const own = !RULES.includes(name)
  if (own === (on !== undefined)) return
  const kinds = `"on": [${KINDS.map(kind => `"${kind}"`).join(', ')}]`
  throw new ConfigError(
    own
      ? `${at}.name (${quoted(name)}) is none of ${RULES.join(', ')}; a rule of your own says on which requests it decides, by one or more of ${kinds}.`
      : `${at}.on goes with rules of your own alone; ${name} has requests of its own.`
  )
}

/** What only some requests have, and the fact that such a request has as well. */
const OF_SOME: Readonly<Record<string, string>> = {
  'request.countryQuota': 'request.limitedCountry',
  'request.price.units': 'request.price.currency'
}

/**
 * Checks that a rule whose `max` or `cost` only some requests have counts no others. Accepts also what is no limit: the
 * plugin refuses that, with its path.
 */
function checkKnown({ key, optional, cost, limits }: Rule, at: string): void {
  const read = Object.entries(limits ?? {}).map(([i, limit]) => [`limits[${i}].max`, limit?.max] as const)
  for (const [member, value] of [['cost', cost] as const, ...read]) {
    const { value: path } = (value ?? {}) as { value?: unknown }
    const companion = typeof path === 'string' ? OF_SOME[path] : undefined
    if (companion === undefined || (optional && reads(key, companion))) continue
    const right = `let the rule be optional, and its key read ${companion}`
    throw new ConfigError(`${at}.${member} (${path}) is not known of every request; ${right}.`)
  }
}

import type { LimitDecorator, Rule } from '../plugin/index.js'
import { ConfigError, quoted } from './check.js'

/** The facts: what a rule of the policy may read of a request besides what the client has sent. */
export const FACTS = [
  'request.account.dailyQuota',
  'request.account.id',
  'request.account.timeZone',
  'request.caller',
  'request.captcha.channel',
  'request.captcha.identity',
  'request.captcha.purpose',
  'request.countryQuota',
  'request.endUserIp',
  'request.ip',
  'request.limitedCountry',
  'request.message.locale',
  'request.message.params',
  'request.message.template',
  'request.numberBlock',
  'request.numberRange',
  'request.price.currency',
  'request.price.units',
  'request.purpose',
  'request.recipient.channel',
  'request.recipient.identity'
]
const CALLER = ['account', 'caller', 'ip']
const NUMBER = ['countryQuota', 'limitedCountry', 'numberBlock', 'numberRange']
/** Which members of a request are known when rules decide on it, by the kind of request. */
const KNOWN = {
  attempt: ['ip'],
  code: [...CALLER, ...NUMBER, 'captcha', 'endUserIp', 'price', 'purpose', 'recipient'],
  message: [...CALLER, ...NUMBER, 'message', 'price', 'recipient'],
  try: [...CALLER, 'captcha', 'endUserIp']
}
export type Decided = keyof typeof KNOWN
/** The kinds of requests on which a rule of the operator's own may decide. */
export const KINDS = ['code', 'message', 'try'] as const
/** A rule of a policy. One of the operator's own says on which kinds of requests it decides. */
export type PolicyRule = Rule & { on?: readonly (typeof KINDS)[number][] }
/** Every rule that a policy has in any case, with the kinds of requests that it decides on unless it counts attempts. */
export const DECIDES: Readonly<Record<string, readonly Decided[]>> = {
  'ip-attempts': ['code'],
  ip: ['code'],
  'ip-site': ['code'],
  'ip-recipients': ['code'],
  recipient: ['code'],
  'recipient-network': ['code'],
  'number-range': ['code'],
  unverified: ['code'],
  'send-failures': ['code'],
  'in-flight': ['code'],
  account: ['code', 'message'],
  country: ['code', 'message'],
  service: ['code', 'message'],
  budget: ['code', 'message'],
  'api-attempts': ['message'],
  'same-content': ['message'],
  mobile: ['message'],
  mail: ['message'],
  'verify-attempts': ['try'],
  'verify-failures': ['try'],
  'verify-failures-recipient': ['try'],
  'admin-attempts': []
}
/** A parameter of a message. Each template has parameters of its own, so FACTS does not list them. */
const PARAMETER = /^request\.message\.params\./
/** Has one spelling already. Only when it is read by `value` does `pathsOf` see that a rule counts the recipient. */
const IDENTITY = /^request\.(recipient|captcha)\.identity$/
/** What the client sends. The plugin checks how that is written. */
const SENT = /^request\.(body|query|params|headers)\./

/** The names of the operator's own rules that decide on this kind of request. */
export function ownRules(rules: readonly PolicyRule[], kind: (typeof KINDS)[number]): string[] {
  return rules.filter(({ on }) => on?.includes(kind)).map(({ name }) => name)
}

/**
 * The facts that a rule may read: those known in any kind of request that it decides on; of the operator's own rules,
 * whose kinds the operator chooses, those known in every one.
 */
export function factsOf({ name, counts, on }: Pick<PolicyRule, 'name' | 'counts' | 'on'>): readonly string[] {
  const decided: readonly Decided[] = counts === 'attempts' ? ['attempt'] : (on ?? DECIDES[name] ?? [])
  const knowing = (fact: string) => decided.filter(kind => KNOWN[kind].includes(fact.split('.')[1] as string))
  return FACTS.filter(fact => knowing(fact).length >= (on === undefined ? 1 : decided.length))
}

/** The values of facts by their paths; null, undefined or left out when not known. */
export type FactValues = Readonly<Record<string, unknown>>

const STEPS = new Map(FACTS.map(path => [path, path.split('.').slice(1)]))

/** One fact of a request, or of an object that stands for one. */
export function factIn(request: object, path: string): unknown {
  const at = (value: unknown, name: string) => (value as Record<string, unknown> | null | undefined)?.[name]
  return STEPS.get(path)?.reduce(at, request as unknown)
}

/** All facts of a request. */
export function factsIn(request: object): FactValues {
  return Object.fromEntries(FACTS.map(path => [path, factIn(request, path)]))
}

/**
 * The key of a rule, as `fastify.limit` takes it, if it follows from facts alone.
 * @returns undefined when the rule reads anything that is not known
 */
export function keyFrom({ key, distinct }: Pick<Rule, 'key' | 'distinct'>, facts: FactValues): unknown {
  const paths = distinct === undefined ? pathsOf(key) : [...pathsOf(key), ...pathsOf(distinct)]
  const values = paths.map(path => facts[path] ?? null)
  if (values.includes(null)) return undefined
  return values.length === 1 ? values[0] : values
}

/** The keys of these rules, as `fastify.limit` takes them; none of a rule whose key does not follow from the facts. */
export function keysFrom(
  rules: LimitDecorator['rules'],
  names: readonly string[],
  facts: FactValues
): Record<string, unknown> {
  const keys = names.map(name => [name, keyFrom(rules[name] as Rule, facts)] as const)
  return Object.fromEntries(keys.filter(([, key]) => key !== undefined))
}

/** The paths of keys, which some requests ask for several times. */
const knownPaths = new WeakMap<object, readonly string[]>()

/** The path that each part of a key reads. Accepts also what is no key: the plugin refuses that, with its path. */
function pathsOf(key: unknown): readonly string[] {
  if (typeof key !== 'object' || key === null) return [pathOf(key)]
  let paths = knownPaths.get(key)
  if (paths === undefined) {
    paths = [key].flat().map(pathOf)
    knownPaths.set(key, paths)
  }
  return paths
}

/** The path that a part of a key reads; an empty text if it reads neither a `value` nor an `ip`. */
export function pathOf(part: unknown): string {
  if (part === 'ip') return 'request.ip'
  const { value, ip } = (part ?? {}) as { value?: unknown; ip?: unknown }
  const path = value ?? ip
  return typeof path === 'string' ? path : ''
}

/** Whether a key reads this path, alone or among others. */
export function reads(key: unknown, path: string): boolean {
  return pathsOf(key).includes(path)
}

/** Whether a key reads this path and nothing else. */
export function isAlone(key: unknown, path: string): boolean {
  const paths = pathsOf(key)
  return paths.length === 1 && paths[0] === path
}

/**
 * Checks all paths in a member of a rule. A path that leads nowhere has no value, so an optional rule would never
 * count.
 * @param facts the facts that the rule may read
 * @throws ConfigError for a path that starts at `request` and is none of the facts, and for a recipient's identity that
 * is read as `phone`, `email` or `ip`, since it has one spelling already
 */
export function checkPaths(value: unknown, at: string, facts: readonly string[]): void {
  if (typeof value === 'string') checkPath(value, at, facts)
  if (typeof value !== 'object' || value === null) return
  for (const [name, each] of Object.entries(value))
    checkPaths(each, Array.isArray(value) ? `${at}[${name}]` : `${at}.${name}`, facts)
}

function checkPath(path: string, at: string, facts: readonly string[]): void {
  if (IDENTITY.test(path) && /\.(phone|email|ip)$/.test(at))
    throw new ConfigError(
      `${at} names what is one spelling already; write { "value": ${JSON.stringify(path)} }.`
    )
  if (!path.startsWith('request.') || SENT.test(path) || facts.includes(path)) return
  if (PARAMETER.test(path) && facts.includes('request.message.params')) return
  const right = `is nothing that this rule can read; known: ${facts.join(', ') || 'nothing'}`
  throw new ConfigError(`${at} (${quoted(path)}) ${right}.`)
}

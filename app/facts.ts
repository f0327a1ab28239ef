import type { Rule } from '../plugin/index.js'
import { ConfigError } from './check.js'

/** What a rule of the policy may read of a request beside what the client has sent. */
export const FACTS = [
  'request.account.dailyQuota',
  'request.account.id',
  'request.account.timeZone',
  'request.caller',
  'request.captcha.channel',
  'request.captcha.identity',
  'request.captcha.purpose',
  'request.endUserIp',
  'request.ip',
  'request.message.locale',
  'request.message.params',
  'request.message.template',
  'request.numberRange',
  'request.purpose',
  'request.recipient.channel',
  'request.recipient.identity'
]
const CALLER = ['account', 'caller', 'ip']
/** What is known, and of what, where requests of one kind are decided on. */
const KNOWN = {
  attempt: ['ip'],
  code: [...CALLER, 'captcha', 'endUserIp', 'numberRange', 'purpose', 'recipient'],
  message: [...CALLER, 'message', 'numberRange', 'recipient'],
  try: [...CALLER, 'captcha', 'endUserIp']
}
export type Decided = keyof typeof KNOWN
/** On requests of which kinds each rule decides, unless it counts attempts. */
export const DECIDES: Readonly<Record<string, readonly Decided[]>> = {
  'ip-attempts': ['code'],
  ip: ['code'],
  'ip-site': ['code'],
  'ip-recipients': ['code'],
  recipient: ['code'],
  'recipient-network': ['code'],
  'number-range': ['code'],
  'in-flight': ['code'],
  account: ['code', 'message'],
  service: ['code', 'message'],
  'api-attempts': ['message'],
  'same-content': ['message'],
  mobile: ['message'],
  mail: ['message'],
  'verify-attempts': ['try'],
  'verify-failures': ['try'],
  'verify-failures-recipient': ['try'],
  'admin-attempts': []
}
/** Each template has parameters of its own. */
const PARAMETER = /^request\.message\.params\./
/** One spelling already. By `value` alone `pathsOf` sees that a rule counts the recipient. */
const IDENTITY = /^request\.(recipient|captcha)\.identity$/
/** How to write what the client sends, the plugin says. */
const SENT = /^request\.(body|query|params|headers)\./

/** What a rule may read, wherever it decides. */
export function factsOf({ name, counts }: Pick<Rule, 'name' | 'counts'>): readonly string[] {
  const decided = counts === 'attempts' ? ['attempt' as const] : (DECIDES[name] ?? [])
  const known = decided.flatMap(each => KNOWN[each])
  return FACTS.filter(fact => known.includes(fact.split('.')[1] as string))
}

/** What a request, or what stands for one, knows of them, by their paths. */
export function factsIn(request: object): Record<string, unknown> {
  const at = (value: unknown, name: string) => (value as Record<string, unknown> | null | undefined)?.[name]
  return Object.fromEntries(FACTS.map(path => [path, path.split('.').slice(1).reduce(at, request)]))
}

/**
 * Whom a rule counts, as `fastify.limit` takes it, where facts alone say it.
 * @param facts by their paths; null and undefined for what is not known
 * @returns undefined when the rule reads anything else
 */
export function keyFrom(
  { key, distinct }: Pick<Rule, 'key' | 'distinct'>,
  facts: Readonly<Record<string, unknown>>
): unknown {
  const paths = distinct === undefined ? pathsOf(key) : [...pathsOf(key), ...pathsOf(distinct)]
  const values = paths.map(path => facts[path] ?? null)
  if (values.includes(null)) return undefined
  return values.length === 1 ? values[0] : values
}

/**
 * What each part of a key reads of the request, an empty text where that is no value and no address. Of what is no key,
 * which the plugin refuses with its path, as well.
 */
function pathsOf(key: unknown): string[] {
  return [key].flat().map(part => {
    if (part === 'ip') return 'request.ip'
    const { value, ip } = (part ?? {}) as { value?: unknown; ip?: unknown }
    const path = value ?? ip
    return typeof path === 'string' ? path : ''
  })
}

/** Whether a key reads this, among other things or alone. */
export function reads(key: unknown, path: string): boolean {
  return pathsOf(key).includes(path)
}

/** Whether this is all that a key reads. */
export function isAlone(key: unknown, path: string): boolean {
  const paths = pathsOf(key)
  return paths.length === 1 && paths[0] === path
}

/**
 * Looks at all paths of a rule's member. One that leads nowhere has no value, so an optional rule would never count.
 * @param facts what the rule may read
 * @throws ConfigError for one that starts at `request` and is none of the facts, and for a recipient that is to be folded
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
  throw new ConfigError(`${at} (${JSON.stringify(path)}) ${right}.`)
}

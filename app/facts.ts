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
/** Each template has parameters of its own; of what the client sends the plugin says how to write it. */
const OTHERS = /^request\.(message\.params|body|query|params|headers)\./

/**
 * Looks at all paths of a rule's member. One that leads nowhere has no value, so an optional rule would never count.
 * @throws ConfigError for one that starts at `request` and is none of the facts
 */
export function checkPaths(value: unknown, at: string): void {
  if (typeof value === 'string') checkPath(value, at)
  if (typeof value !== 'object' || value === null) return
  for (const [name, each] of Object.entries(value))
    checkPaths(each, Array.isArray(value) ? `${at}[${name}]` : `${at}.${name}`)
}

function checkPath(path: string, at: string): void {
  if (!path.startsWith('request.') || OTHERS.test(path) || FACTS.includes(path)) return
  const right = `is nothing that a rule can read; known: ${FACTS.join(', ')}`
  throw new ConfigError(`${at} (${JSON.stringify(path)}) ${right}.`)
}

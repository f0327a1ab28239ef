import { isIP } from 'node:net'
import { isSupportedCountry } from 'libphonenumber-js/max'
import type { Static } from 'typebox'
import { Default } from 'typebox/value'
import { canonicalEmail, canonicalIp } from '../plugin/index.js'
import { ConfigError, check } from './check.js'
import { ConfigSchema } from './config-schema.js'
import { isUrl, redisUrls } from './urls.js'

export type Config = Static<typeof ConfigSchema>

const WEB = ['http:', 'https:']
/** What holds a URL, and its protocols. */
const URLS = {
  REDIS_URL: ['redis:', 'rediss:'],
  SMTP_URL: ['smtp:', 'smtps:'],
  WEBHOOK_URL: WEB,
  ALIYUN_ENDPOINT: WEB,
  TENCENT_ENDPOINT: WEB,
  TWILIO_ENDPOINT: WEB
} satisfies Partial<Record<keyof Config, string[]>>

/** Whether their clients take a path of a URL; all else but the host they would leave out, or ask elsewhere, without a word. */
const ENDPOINTS = {
  ALIYUN_ENDPOINT: false,
  TENCENT_ENDPOINT: false,
  TWILIO_ENDPOINT: true
} satisfies Partial<Record<keyof Config, boolean>>

/** The one key outside of production when API_KEYS is not set. */
export const DEVELOPMENT_KEY = 'development-key'

/**
 * Reads the configuration; an empty variable is one that is not set.
 * @throws ConfigError that names the variable and says what would be right
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const set = Object.keys(ConfigSchema.properties).filter(name => (env[name] ?? '') !== '')
  const given = Object.fromEntries(set.map(name => [name, read(name, env[name] as string)]))
  const config = check(ConfigSchema, Default(ConfigSchema, given), '')
  for (const [name, protocols] of Object.entries(URLS)) checkUrl(config, name as keyof typeof URLS, protocols)
  for (const name of Object.keys(ENDPOINTS)) checkEndpoint(config, name as keyof typeof ENDPOINTS)
  if (config.REDIS_URL !== undefined && config.LIMIT_SECRET === undefined) {
    throw new ConfigError(`LIMIT_SECRET is required with REDIS_URL. ${itIs('LIMIT_SECRET')}`)
  }
  const nodes = redisUrls(config.REDIS_URL ?? '')
  if (nodes.length > 1 && nodes.some(url => /[1-9]/.test(new URL(url).pathname))) {
    throw new ConfigError(
      `REDIS_URL names a database beside several nodes, and a cluster has none but 0. ${itIs('REDIS_URL')}`
    )
  }
  if (!isSupportedCountry(config.REGION)) {
    const right = 'is no country whose numbers are known'
    throw new ConfigError(`REGION (${JSON.stringify(config.REGION)}) ${right}. ${itIs('REGION')}`)
  }
  for (const range of config.TRUST_PROXY === 'false' ? [] : config.TRUST_PROXY.split(',')) {
    if (!isNetwork(range.trim())) {
      throw new ConfigError(`TRUST_PROXY (${JSON.stringify(range)}) is no network. ${itIs('TRUST_PROXY')}`)
    }
  }
  if (config.NODE_ENV !== 'production' && !/^(127(\.\d{1,3}){3}|localhost|::1)$/.test(config.HOST)) {
    throw new ConfigError(
      `HOST (${JSON.stringify(config.HOST)}) must be a loopback address outside of production, where codes and the key are shown to whoever reaches it. Set NODE_ENV=production.`
    )
  }
  if (config.NODE_ENV === 'production' && env.DEV_OUTBOX === 'on') {
    throw new ConfigError('DEV_OUTBOX must be off in production: it shows codes to whoever asks.')
  }
  const { username, password } = new URL(config.SMTP_URL ?? 'smtp://none')
  if (username !== '' && password === '') {
    throw new ConfigError(`SMTP_URL names a user and no password. ${itIs('SMTP_URL')}`)
  }
  if (config.SMTP_URL !== undefined && config.MAIL_FROM === undefined) {
    throw new ConfigError(`MAIL_FROM is required with SMTP_URL. ${itIs('MAIL_FROM')}`)
  }
  if (config.MAIL_FROM !== undefined && !isMailbox(config.MAIL_FROM)) {
    const right = 'must be one address, as in "Shop <shop@example.com>"'
    throw new ConfigError(`MAIL_FROM (${JSON.stringify(config.MAIL_FROM)}) ${right}. ${itIs('MAIL_FROM')}`)
  }
  // As a path it would be a file of that name, wherever the process stands.
  const { AUDIT_LOG: trail = 'off' } = config
  if (!['off', 'stdout'].includes(trail) && /^(off|stdout|stderr|none|true|false|)$/i.test(trail.trim())) {
    throw new ConfigError(`AUDIT_LOG (${JSON.stringify(trail)}) is no path. ${itIs('AUDIT_LOG')}`)
  }
  if (config.NODE_ENV === 'production' && config.AUDIT_LOG === undefined) {
    throw new ConfigError(`AUDIT_LOG is required in production. ${itIs('AUDIT_LOG')}`)
  }
  if (config.NODE_ENV === 'production' && (config.API_KEYS ?? config.ACCOUNTS_FILE) === undefined) {
    throw new ConfigError(`API_KEYS or ACCOUNTS_FILE is required in production. ${itIs('API_KEYS')}`)
  }
  return config
}

/**
 * So often one request may wait for Redis at most, one time after another: for its Idempotency-Key, limits, lists, codes and
 * the settlement. A resend that fails does.
 */
export const STORE_WAITS = 9

/** How long a request may take, in milliseconds. */
export function handlerTimeoutOf({ SEND_TIMEOUT, STORE_TIMEOUT }: Config): number {
  return SEND_TIMEOUT + STORE_WAITS * Math.max(STORE_TIMEOUT, 1_000)
}

function read(name: string, text: string): string | number {
  const { type } = ConfigSchema.properties[name as keyof Config] as { type?: string }
  return type === 'integer' && /^-?\d+$/.test(text) ? Number(text) : text
}

/** @throws ConfigError that shows nothing of the URL, which may hold a password */
function checkUrl(config: Config, name: keyof typeof URLS, protocols: readonly string[]): void {
  const { [name]: text } = config
  if (text === undefined) return
  const urls = name === 'REDIS_URL' ? redisUrls(text) : [text]
  if (urls.every(url => isUrl(url, protocols))) return
  const right = `must be a URL with a host, of ${protocols.join(' or ')}; write "#", "/", "?" and "%" in a password as %23, %2F, %3F and %25, and nothing behind a "?"`
  throw new ConfigError(`${name} ${right}. ${itIs(name)}`)
}

/** @throws ConfigError that shows nothing of the URL, as that of checkUrl */
function checkEndpoint(config: Config, name: keyof typeof ENDPOINTS): void {
  const { [name]: text } = config
  if (text === undefined) return
  const takesPath = ENDPOINTS[name]
  const { origin, pathname, href } = new URL(text)
  if (href === origin + (takesPath ? pathname : '/')) return
  const parts = `a protocol, a host and perhaps a port${takesPath ? ' and a path' : ''}`
  throw new ConfigError(`${name} must have ${parts} alone. ${itIs(name)}`)
}

/** What a variable is, as a sentence. */
function itIs(name: keyof Config): string {
  const { description } = ConfigSchema.properties[name] as { description?: string }
  return `It is ${description}.`
}

/** One address, with the name of its owner or without (RFC 5322, section 3.4). */
function isMailbox(text: string): boolean {
  const [, address = text] = /^(?:"[^"\\]*"\s*|[^"\\<>()[\]:;@,]*)<([^<>]*)>$/.exec(text) ?? []
  return !/\p{Cc}/u.test(text) && canonicalEmail(address) !== undefined
}

/** As Fastify's trustProxy takes it: an address, a CIDR range, or the name of some. */
function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  if (bits === undefined) return isIP(address) !== 0 || /^(loopback|linklocal|uniquelocal)$/.test(address)
  const [version, isIpv4] = [isIP(address), canonicalIp(address)?.includes('.')]
  // Without any bit of its own it would be everybody, as `true` is.
  const [least, most] = version === 4 ? [1, 32] : [isIpv4 ? 97 : 1, 128]
  return (
    version !== 0 &&
    more.length === 0 &&
    /^\d{1,3}$/.test(bits) &&
    Number(bits) >= least &&
    Number(bits) <= most
  )
}

import { isIP } from 'node:net'
import { isSupportedCountry } from 'libphonenumber-js/max'
import { canonicalEmail, canonicalIp } from '../plugin/index.js'
import { backendsOf } from './backends.js'
import { ConfigError, quoted } from './check.js'
import { type Config, ConfigSchema } from './config-schema.js'
import { tagMistake } from './locales/locale.js'
import { isUrl, redisUrls } from './urls.js'

const WEB = ['http:', 'https:']

/** The names of all variables with such an ending. */
type Ending<E extends string> = Extract<keyof Config, `${string}_${E}`>

/** The variables that hold a URL, with the protocols that each may have. */
const URLS: Record<Ending<'URL' | 'ENDPOINT'>, readonly string[]> = {
  REDIS_URL: ['redis:', 'rediss:'],
  SMTP_URL: ['smtp:', 'smtps:'],
  WEBHOOK_URL: WEB,
  CHALLENGE_URL: WEB,
  ALIYUN_ENDPOINT: WEB,
  TENCENT_ENDPOINT: WEB,
  TWILIO_ENDPOINT: WEB
}

/**
 * Whether the client of each endpoint takes a path. It would silently drop or misread anything else besides the host.
 */
const ENDPOINTS: Record<Ending<'ENDPOINT'>, boolean> = {
  ALIYUN_ENDPOINT: false,
  TENCENT_ENDPOINT: false,
  TWILIO_ENDPOINT: true
}

/**
 * Checks what the schema cannot.
 * @throws ConfigError that names the variable and says what would be right
 */
export function checkConfig(config: Config, env: NodeJS.ProcessEnv): void {
  for (const [name, protocols] of Object.entries(URLS)) checkUrl(config, name as keyof typeof URLS, protocols)
  for (const name of Object.keys(ENDPOINTS)) checkEndpoint(config, name as keyof typeof ENDPOINTS)
  checkRedis(config)
  if (!isSupportedCountry(config.REGION))
    throw mistake('REGION', 'is no country whose numbers are known', config.REGION)
  const spelling = tagMistake(config.LOCALE)
  if (spelling !== undefined) throw mistake('LOCALE', spelling, config.LOCALE)
  // With `true`, which believes everybody, or a number of hops, a client could choose its address.
  for (const range of config.TRUST_PROXY === 'false' ? [] : config.TRUST_PROXY.split(',')) {
    if (!(isNetwork(range.trim()) || NAMED.test(range.trim())))
      throw mistake('TRUST_PROXY', 'is no network', range)
  }
  for (const range of backendsOf(config)) {
    if (!isNetwork(range) || UNLISTED.test(range)) throw mistake('BACKENDS', 'is no network', range)
  }
  if (config.NODE_ENV !== 'production' && !/^(127(\.\d{1,3}){3}|localhost|::1)$/.test(config.HOST)) {
    throw new ConfigError(
      `HOST (${quoted(config.HOST)}) must be a loopback address outside of production, where codes and the key are shown to whoever reaches it. Set NODE_ENV=production, or let a proxy on this machine lead here.`
    )
  }
  if (config.NODE_ENV === 'production' && env.DEV_OUTBOX === 'on') {
    throw new ConfigError('DEV_OUTBOX must be off in production: it shows codes to whoever asks.')
  }
  checkMail(config)
  if (config.CHALLENGE_URL !== undefined && config.CHALLENGE_SECRET === undefined)
    throw mistake('CHALLENGE_SECRET', 'is required with CHALLENGE_URL')
  if (config.CHALLENGE_URL === undefined && config.CHALLENGE_SECRET !== undefined)
    throw mistake('CHALLENGE_SECRET', 'needs CHALLENGE_URL')
  // Taken as a path, such a word would be a file of that name in the working directory.
  const { AUDIT_LOG: trail = 'off' } = config
  if (
    !['off', 'stdout'].includes(trail) &&
    /^(on|off|yes|no|stdout|stderr|none|true|false|)$/i.test(trail.trim())
  )
    throw mistake('AUDIT_LOG', 'is no path', trail)
  if (config.NODE_ENV !== 'production') return
  if (config.AUDIT_LOG === undefined) throw mistake('AUDIT_LOG', 'is required in production')
  if ((config.API_KEYS ?? config.ACCOUNTS_FILE) === undefined)
    throw mistake('API_KEYS', 'or ACCOUNTS_FILE is required in production')
}

/** The URL may hold a password: nothing of it is shown. */
function checkUrl(config: Config, name: keyof typeof URLS, protocols: readonly string[]): void {
  const { [name]: text } = config
  if (text === undefined) return
  const urls = name === 'REDIS_URL' ? redisUrls(text) : [text]
  if (urls.every(url => isUrl(url, protocols))) return
  const escapes =
    'write "#", "/", "?" and "%" in a password as %23, %2F, %3F and %25, and nothing behind a "?"'
  throw mistake(name, `must be a URL with a host, of ${protocols.join(' or ')}; ${escapes}`)
}

/** Nothing of the URL is shown, as in `checkUrl`. */
function checkEndpoint(config: Config, name: keyof typeof ENDPOINTS): void {
  const { [name]: text } = config
  if (text === undefined) return
  const takesPath = ENDPOINTS[name]
  const { origin, pathname, href } = new URL(text)
  if (href === origin + (takesPath ? pathname : '/')) return
  const parts = `a protocol, a host and perhaps a port${takesPath ? ' and a path' : ''}`
  throw mistake(name, `must have ${parts} alone`)
}

function checkRedis({ REDIS_URL: text = '', REDIS_SHARDED, REDIS_SENTINEL, ...config }: Config): void {
  if (text !== '' && config.LIMIT_SECRET === undefined)
    throw mistake('LIMIT_SECRET', 'is required with REDIS_URL')
  if (text === '' && REDIS_SENTINEL !== undefined)
    throw mistake('REDIS_SENTINEL', 'needs REDIS_URL', REDIS_SENTINEL)
  if (REDIS_SENTINEL === undefined && config.REDIS_SENTINEL_PASSWORD !== undefined)
    throw mistake('REDIS_SENTINEL_PASSWORD', 'needs REDIS_SENTINEL')
  const urls = redisUrls(text)
  if (REDIS_SHARDED === 'on' && (urls.length > 1 || REDIS_SENTINEL !== undefined))
    throw mistake(
      'REDIS_SHARDED',
      'is for one address, and REDIS_URL names several nodes or sentinels',
      REDIS_SHARDED
    )
  if (
    REDIS_SENTINEL === undefined &&
    urls.length > 1 &&
    urls.some(url => /[1-9]/.test(new URL(url).pathname))
  )
    throw mistake('REDIS_URL', 'names a database beside several nodes, and a cluster has none but 0')
}

function checkMail({ SMTP_URL: url, MAIL_FROM: from }: Config): void {
  const { username, password } = new URL(url ?? 'smtp://none')
  if (username !== '' && password === '') throw mistake('SMTP_URL', 'names a user and no password')
  // nodemailer would drop the password, and not log in.
  if (username === '' && password !== '') throw mistake('SMTP_URL', 'names a password and no user')
  if (url !== undefined && from === undefined) throw mistake('MAIL_FROM', 'is required with SMTP_URL')
  if (from !== undefined && !isMailbox(from))
    throw mistake('MAIL_FROM', 'must be one address, as in "Shop <shop@example.com>"', from)
}

/** @param value the value as given; left out when it must not be shown */
function mistake(name: keyof Config, what: string, value?: string): ConfigError {
  const { description } = ConfigSchema.properties[name] as { description?: string }
  const given = value === undefined ? '' : ` (${quoted(value)})`
  return new ConfigError(`${name}${given} ${what}. It is ${description}.`)
}

/** Whether the text is one address, with or without the name of its owner (RFC 5322, section 3.4). */
function isMailbox(text: string): boolean {
  const [, address = text] = /^(?:"[^"\\]*"\s*|[^"\\<>()[\]:;@,]*)<([^<>]*)>$/.exec(text) ?? []
  return !/\p{Cc}/u.test(text) && canonicalEmail(address) !== undefined
}

/**
 * Networks that the lists of a rule do not take: with a zone, a prefix that begins with a zero, or IPv4 behind NAT64.
 */
const UNLISTED = /%|\/0|^0*64:ff9b:/i

/** The names of networks that Fastify's `trustProxy` knows. */
const NAMED = /^(loopback|linklocal|uniquelocal)$/

/** Whether the text is an address or a CIDR range. */
function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  if (bits === undefined) return isIP(address) !== 0
  const [version, isIpv4] = [isIP(address), canonicalIp(address)?.includes('.')]
  // A prefix without any bit would be everybody, as `true` is.
  const [least, most] = version === 4 ? [1, 32] : [isIpv4 ? 97 : 1, 128]
  return (
    version !== 0 &&
    more.length === 0 &&
    /^\d{1,3}$/.test(bits) &&
    Number(bits) >= least &&
    Number(bits) <= most
  )
}

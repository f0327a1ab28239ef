import { Default } from 'typebox/value'
import { CHALLENGE_MS } from './challenge.js'
import { check } from './check.js'
import { checkConfig } from './config-checks.js'
import { type Config, ConfigSchema } from './config-schema.js'

/** The one key outside of production when neither API_KEYS nor ACCOUNTS_FILE is set. */
export const DEVELOPMENT_KEY = 'development-key'

/**
 * Reads the configuration. An empty variable counts as not set.
 * @throws ConfigError that names the variable and says what would be right
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const set = Object.keys(ConfigSchema.properties).filter(name => (env[name] ?? '') !== '')
  const given = Object.fromEntries(set.map(name => [name, read(name, env[name] as string)]))
  const config = check(ConfigSchema, Default(ConfigSchema, given), '')
  checkConfig(config, env)
  return config
}

/**
 * The most waits for Redis that one request can have, one after another: for its Idempotency-Key, filters, limits, codes
 * and the settlement. A failed resend has them all. The two filters wait half as long as the others and count as one.
 */
export const STORE_WAITS = 9

/** How long a request may take, in milliseconds. */
export function handlerTimeoutOf({ SEND_TIMEOUT, STORE_TIMEOUT, CHALLENGE_URL }: Config): number {
  const challengeMs = CHALLENGE_URL === undefined ? 0 : CHALLENGE_MS
  return SEND_TIMEOUT + STORE_WAITS * Math.max(STORE_TIMEOUT, 1_000) + challengeMs
}

function read(name: string, text: string): string | number {
  const { type } = ConfigSchema.properties[name as keyof Config] as { type?: string }
  return type === 'integer' && /^-?\d+$/.test(text) ? Number(text) : text
}

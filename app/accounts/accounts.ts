import { compileIpList } from '../../plugin/index.js'
import { ConfigError } from '../check.js'
import { DEVELOPMENT_KEY } from '../config.js'
import type { Config } from '../config-schema.js'
import { sha256 } from '../sha256.js'
import { ACCOUNT_DEFAULTS, type Account } from './account.js'
import { readAccounts, wrong } from './file.js'

/** The account that a key names. */
interface Named {
  account: Account
  revoked: boolean
  /** Whether the key is accepted from a client's address. */
  isFrom(ip: string): boolean
}

export interface Accounts {
  /** The accounts of ACCOUNTS_FILE, in its order. */
  readonly listed: readonly Account[]
  /** Whether any account has this id, from ACCOUNTS_FILE or not. */
  has(id: string): boolean
  byKey(key: string): Named | undefined
  /** The account whose pages have this origin. */
  byOrigin(origin: string): Account | undefined
  /** The account of requests without key and origin: in development, unless accounts are configured; else null. */
  readonly anonymous: Account | null
}

/** A shorter key in clear could be found by trying. */
const MIN_KEY_LENGTH = 24
const EVERYBODYS = 'the key of development, which everybody knows'
const fromAnywhere = () => true
const HASH_OF_DEVELOPMENT = sha256(DEVELOPMENT_KEY)

/**
 * Opens the accounts that the configuration names. If it names none, which production does not allow, there is one for
 * development.
 * @throws ConfigError that names what is wrong, and shows no key
 */
export function openAccounts(config: Config): Accounts {
  const { ADMIN_KEY, API_KEYS, ACCOUNTS_FILE, NODE_ENV } = config
  /** By the hash of a key. The time of a look-up reveals nothing of the key, since nobody knows the seed of a `Map`. */
  const keys = new Map<string, Named>()
  const origins = new Map<string, Account>()
  const listed: Account[] = []
  const ids = new Set<string>()

  for (const [i, entry] of (ACCOUNTS_FILE === undefined ? [] : readAccounts(ACCOUNTS_FILE)).entries()) {
    const { keys: current, revoked = [], origins: pages = [], addresses, ...account } = entry
    const isFrom = addresses === undefined ? fromAnywhere : compileIpList(addresses)
    if (ids.has(account.id)) throw wrong(`[${i}].id`, `(${JSON.stringify(account.id)}) names another account`)
    ids.add(account.id)
    listed.push(account)
    for (const [list, hashes] of Object.entries({ keys: current, revoked })) {
      for (const [j, hash] of hashes.entries()) {
        if (NODE_ENV === 'production' && list === 'keys' && hash === HASH_OF_DEVELOPMENT)
          throw wrong(`[${i}].keys[${j}]`, `is the hash of ${EVERYBODYS}`)
        if (keys.has(hash)) throw wrong(`[${i}].${list}[${j}]`, 'is listed before')
        keys.set(hash, { account, revoked: list === 'revoked', isFrom })
      }
    }
    for (const [j, origin] of pages.entries()) {
      if (origins.has(origin))
        throw wrong(`[${i}].origins[${j}]`, `(${JSON.stringify(origin)}) is listed before`)
      origins.set(origin, account)
    }
  }

  // Never in production, where one of the two is required.
  const open = API_KEYS === undefined && ACCOUNTS_FILE === undefined
  const pairs = open ? `${DEVELOPMENT_KEY}:development` : API_KEYS
  const simple = new Map<string, Account>()
  for (const [i, pair] of (pairs?.split(',') ?? []).entries()) {
    const [key = '', id = ''] = pair.split(':')
    // Neither is shown: if they are written the wrong way round, the id is the key.
    const mistake = NODE_ENV === 'production' ? weaknessOf(key) : undefined
    if (mistake !== undefined) throw new ConfigError(`API_KEYS[${i}] holds ${mistake}.`)
    if (ids.has(id)) throw new ConfigError(`API_KEYS names the account ${id}, which is in ACCOUNTS_FILE.`)
    const account = simple.get(id) ?? { id, ...ACCOUNT_DEFAULTS }
    simple.set(id, account)
    const hash = sha256(key)
    if (keys.has(hash)) throw new ConfigError(`API_KEYS[${i}] holds a key that is listed before.`)
    keys.set(hash, { account, revoked: false, isFrom: fromAnywhere })
  }

  const own = ADMIN_KEY === undefined ? undefined : keys.get(sha256(ADMIN_KEY))
  if (own)
    throw new ConfigError(`ADMIN_KEY is a key of the account ${own.account.id}, too. Make another one.`)

  const anonymous = open ? (simple.get('development') ?? null) : null
  return {
    listed,
    has: id => ids.has(id) || simple.has(id),
    byKey: key => keys.get(sha256(key)),
    byOrigin: origin => origins.get(origin) ?? (isLoopback(origin) ? (anonymous ?? undefined) : undefined),
    anonymous
  }
}

function weaknessOf(key: string): string | undefined {
  if (key === DEVELOPMENT_KEY) return EVERYBODYS
  if (key.length >= MIN_KEY_LENGTH) return undefined
  return `a key of fewer than ${MIN_KEY_LENGTH} characters; write key:account, and make a key by: openssl rand -hex 24`
}

// For the pages of this server and a developer's own pages, on the same machine.
function isLoopback(origin: string): boolean {
  return /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(origin)
}

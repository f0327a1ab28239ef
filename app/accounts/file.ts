import { readFileSync } from 'node:fs'
import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { compileIpList, isTimeZone } from '../../plugin/index.js'
import { ConfigError, check, parseJson, quoted } from '../check.js'
import { checkCountry } from '../policy.js'
import { Country, type Policy } from '../policy-schema.js'
import { PURPOSE_PATTERN, strict, TEMPLATE_PATTERN } from '../schemas/common.js'
import { sha256 } from '../sha256.js'
import type { Templates } from '../templates/templates.js'
import { ACCOUNT_DEFAULTS, type Account } from './account.js'
import { isOrigin } from './origin.js'

const Names = (of: string, pattern: string) =>
  Type.Optional(Type.Array(Type.String({ pattern, description: of }), { uniqueItems: true, maxItems: 100 }))
const Texts = (of: string) => Type.Optional(Type.Array(Type.String({ description: of }), { maxItems: 100 }))
// Checked against HASH by code of its own: an error must not show the value, which may be a key in clear.
const Hashes = { maxItems: 100, writeOnly: true, description: 'a list of SHA-256 hashes of keys' }
const HASH = /^[0-9a-f]{64}$/
const HASH_OF_NOTHING = sha256('')

const AccountSchema = Type.Object(
  {
    id: Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,64}$',
      description: '1 to 64 letters, digits, "_", "." and "-"'
    }),
    keys: Type.Array(Type.Unknown(), { ...Hashes, minItems: 1 }),
    revoked: Type.Optional(Type.Array(Type.Unknown(), Hashes)),
    dailyQuota: Type.Integer({
      default: ACCOUNT_DEFAULTS.dailyQuota,
      minimum: 1,
      maximum: 10_000_000,
      description: 'the number of messages a day'
    }),
    timeZone: Type.String({
      default: ACCOUNT_DEFAULTS.timeZone,
      description: 'an IANA time zone such as "Asia/Shanghai"'
    }),
    purposes: Names('a purpose of the policy', PURPOSE_PATTERN),
    templates: Names('the name of a template', TEMPLATE_PATTERN),
    countries: Type.Optional(Type.Array(Country, { maxItems: 300 })),
    origins: Texts('an origin'),
    addresses: Texts('an IP address or a CIDR range')
  },
  strict
)
/** Compiled, since `check` takes thirty times as long, and there may be thousands of accounts. */
const isAccount = Compile(AccountSchema)
type AccountEntry = Omit<Static<typeof AccountSchema>, 'keys' | 'revoked'> & {
  keys: string[]
  revoked?: string[]
}

/**
 * Reads the accounts of a file: a JSON list.
 * @throws ConfigError with the path of the first mistake
 */
export function readAccounts(file: string): AccountEntry[] {
  const list = parse(file)
  if (!Array.isArray(list)) throw wrong('', 'must be a list of accounts')
  return list.map((each, i) => {
    if (typeof each !== 'object' || each === null) throw wrong(`[${i}]`, 'must be an account: an object')
    // In place: an object spread from defaults and entry takes longer to make, and then to check.
    for (const [name, value] of Object.entries(ACCOUNT_DEFAULTS)) if (!(name in each)) each[name] = value
    const entry = isAccount.Check(each) ? each : check(AccountSchema, each, `ACCOUNTS_FILE[${i}]`)
    checkHashes(entry.keys, `[${i}].keys`)
    checkHashes(entry.revoked ?? [], `[${i}].revoked`)
    if (!isTimeZone(entry.timeZone)) {
      throw wrong(`[${i}].timeZone`, `(${quoted(entry.timeZone)}) is no time zone that is known here`)
    }
    for (const [j, country] of (entry.countries ?? []).entries())
      checkCountry(country, `ACCOUNTS_FILE[${i}].countries[${j}] (${JSON.stringify(country)})`)
    for (const [j, origin] of (entry.origins ?? []).entries()) {
      if (isOrigin(origin)) continue
      const right = 'is no origin; write scheme, host and port alone, as in "https://shop.example"'
      throw wrong(`[${i}].origins[${j}]`, `(${quoted(origin)}) ${right}`)
    }
    for (const [j, address] of (entry.addresses ?? []).entries())
      checkAddress(address, `[${i}].addresses[${j}]`)
    return entry as AccountEntry
  })
}

/**
 * Checks that the purposes and templates that the accounts of the file list exist.
 * @throws ConfigError for the first one that does not, with its path
 */
export function checkNames(listed: readonly Account[], { purposes }: Policy, { offered }: Templates): void {
  const templates = [...Object.keys(offered('sms')), ...Object.keys(offered('mail'))]
  for (const [i, account] of listed.entries()) {
    checkList(account.purposes, `[${i}].purposes`, 'purpose of the policy', Object.keys(purposes))
    checkList(account.templates, `[${i}].templates`, 'template', [...new Set(templates)])
  }
}

function checkList(
  names: readonly string[] = [],
  path: string,
  kind: string,
  known: readonly string[]
): void {
  for (const [i, name] of names.entries()) {
    if (known.includes(name)) continue
    const right = `names no ${kind}; known: ${known.join(', ')}`
    throw wrong(`${path}[${i}]`, `(${JSON.stringify(name)}) ${right}`)
  }
}

/** @param path where in the file, such as `[0].id`; '' for the file as a whole */
export function wrong(path: string, what: string): ConfigError {
  return new ConfigError(`ACCOUNTS_FILE${path} ${what}.`)
}

function parse(file: string): unknown {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (error) {
    throw wrong('', `cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
  try {
    return parseJson(bytes)
  } catch (error) {
    if (error instanceof ConfigError) throw wrong('', `cannot be read: ${error.message}`)
    // The parser's own message would show a part of the file.
    throw wrong('', 'is no JSON')
  }
}

function checkHashes(hashes: readonly unknown[], path: string): void {
  for (const [i, hash] of hashes.entries()) {
    if (typeof hash !== 'string' || !HASH.test(hash)) {
      throw wrong(`${path}[${i}]`, 'must be the SHA-256 hash of a key, 64 hexadecimal digits in lower case')
    }
    if (hash === HASH_OF_NOTHING)
      throw wrong(`${path}[${i}]`, 'is the hash of an empty text, which is no key')
  }
}

function checkAddress(address: string, path: string): void {
  try {
    compileIpList([address])
  } catch (error) {
    // Its message begins with what was read.
    throw wrong(path, (error as Error).message)
  }
}

import { type Static, Type } from 'typebox'
import { SenderVariables } from './senders/variables.js'

// Keys are sent in headers: visible ASCII, without the comma and the colon that separate the list.
const ACCOUNTS = '[!-+\\--9;-~]+:[A-Za-z0-9_.-]{1,64}'

const Secret = () =>
  Type.String({
    minLength: 16,
    pattern: '^(\\s*\\S){16}',
    writeOnly: true,
    description:
      'a secret of 16 characters or more, blanks not counted, that nobody can guess and that all instances share'
  })

/** Every environment variable that the app reads. What is `writeOnly` is a secret and never shown. */
export const ConfigSchema = Type.Object({
  NODE_ENV: Type.Enum(['development', 'production', 'test'], {
    default: 'development',
    description:
      'production for real users; otherwise, by default, the outbox shows every code and one key is public'
  }),
  HOST: Type.String({ default: '127.0.0.1', minLength: 1, description: 'the address to listen on' }),
  PORT: Type.Integer({ default: 3000, minimum: 0, maximum: 65_535, description: 'the port to listen on' }),
  LOG_LEVEL: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info',
    description: 'the lowest level of the lines in the log'
  }),
  TRUST_PROXY: Type.String({
    default: 'false',
    description:
      'a list of the proxies that are believed about the address of a client: addresses or CIDR ranges, separated by commas, as in 10.0.0.0/8; false for none'
  }),
  PROXY_IDLE_TIMEOUT: Type.Integer({
    default: 60_000,
    minimum: 1_000,
    maximum: 3_600_000,
    description: 'how long the proxy keeps an idle connection to the API, in milliseconds'
  }),
  BACKENDS: Type.Optional(
    Type.String({
      description:
        'the addresses of your own servers, or CIDR ranges, as in 10.0.0.5,10.0.1.0/24; their attempts are not limited, except on the admin API'
    })
  ),
  REDIS_URL: Type.Optional(
    Type.String({
      writeOnly: true,
      description:
        'the address of Redis, as in redis://127.0.0.1:6379, with /1 at the end for database 1; for a cluster or sentinels, several addresses, separated by commas'
    })
  ),
  REDIS_SENTINEL: Type.Optional(
    Type.String({
      description: 'the name of the master that the sentinels watch, where REDIS_URL names sentinels'
    })
  ),
  REDIS_SENTINEL_PASSWORD: Type.Optional(
    Type.String({ writeOnly: true, description: 'the password of the sentinels, if they have one' })
  ),
  REDIS_SHARDED: Type.Enum(['on', 'off'], {
    default: 'off',
    description: 'on if REDIS_URL leads to a proxy that spreads keys over several Redis, and off otherwise'
  }),
  LIMIT_SECRET: Type.Optional(Secret()),
  RECIPIENT_SECRET: Type.Optional(Secret()),
  STORE_TIMEOUT: Type.Integer({
    default: 1_000,
    minimum: 100,
    maximum: 10_000,
    description: 'how long Redis may take to answer, in milliseconds'
  }),
  ON_STORE_ERROR: Type.Enum(['memory', 'deny', 'allow'], {
    default: 'memory',
    description:
      'what limits requests while Redis does not answer: memory for the memory of each process, deny to refuse all, allow for no limit'
  }),
  REGION: Type.String({
    default: 'CN',
    pattern: '^[A-Z]{2}$',
    description:
      'the country of phone numbers without a country code, two capital letters as in GB (ISO 3166-1)'
  }),
  LOCALE: Type.String({
    default: 'en',
    description: 'the language of messages for users whose own language is not there, a tag as in en'
  }),
  API_KEYS: Type.Optional(
    Type.String({
      pattern: `^${ACCOUNTS}(,${ACCOUNTS})*$`,
      writeOnly: true,
      description:
        'a list of keys with their accounts, as in key:account,key2:account2; a key consists of visible ASCII without commas and colons, as a header takes it'
    })
  ),
  POLICY_FILE: Type.Optional(
    Type.String({ description: 'the path of a policy, a JSON file, to use in place of app/policy.json' })
  ),
  TEMPLATES_DIR: Type.Optional(
    Type.String({
      description: 'the path of a folder with sms.json and mail.json, to use in place of app/templates'
    })
  ),
  ACCOUNTS_FILE: Type.Optional(Type.String({ description: 'the path of a JSON file that lists accounts' })),
  ADMIN_KEY: Type.Optional(
    Type.String({
      minLength: 24,
      pattern: '^[!-~]([ -~]*[!-~])?$',
      writeOnly: true,
      description:
        'the key of the admin API: 24 characters of ASCII or more, without blanks around them, as a header takes it'
    })
  ),
  CHALLENGE_URL: Type.Optional(
    Type.String({
      description:
        'the address that tells whether a challenge was solved, as in https://challenges.cloudflare.com/turnstile/v0/siteverify'
    })
  ),
  CHALLENGE_SECRET: Type.Optional(
    Type.String({
      pattern: '^[!-~]+$',
      writeOnly: true,
      description: 'the secret key by which challenges are checked, of visible ASCII'
    })
  ),
  AUDIT_LOG: Type.Optional(
    Type.String({ description: 'where the audit trail goes: the path of a file, stdout, or off' })
  ),
  ...SenderVariables
})
export type Config = Static<typeof ConfigSchema>

import t from 'tap'
import { accountsOf } from '../../app/accounts.js'
import { captchasOf, type Issued } from '../../app/captcha/captchas.js'
import { MemoryCodes } from '../../app/captcha/memory-codes.js'
import { check } from '../../app/check.js'
import { systemClock } from '../../app/clock.js'
import { readConfig } from '../../app/config.js'
import { loadPolicy, PolicySchema } from '../../app/policy.js'

t.test('defaults', async t => {
  t.match(readConfig({ PORT: '', UNKNOWN: 'x' }), { NODE_ENV: 'development', HOST: '127.0.0.1', PORT: 3000 })
  t.equal(readConfig({ PORT: '8080' }).PORT, 8080)
})

const redis = { REDIS_URL: 'redis://127.0.0.1' }
const wrong: [env: NodeJS.ProcessEnv, message: RegExp][] = [
  [{ PORT: 'abc' }, /^PORT \("abc"\) must be integer\. It is the port to listen on\.$/],
  [{ PORT: '70000' }, /^PORT \(70000\) must be <= 65535\./],
  [{ NODE_ENV: 'prod' }, /^NODE_ENV \("prod"\) must be one of development, production, test\.$/],
  [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL \("loud"\) must be one of fatal, /],
  [{ TRUST_PROXY: 'true' }, /^TRUST_PROXY \("true"\) .* addresses or CIDR ranges/],
  [{ TRUST_PROXY: '1' }, /^TRUST_PROXY \("1"\) /],
  [{ SEND_TIMEOUT: '60000' }, /^SEND_TIMEOUT \(60000\) must be <= 25000\. .* in milliseconds\.$/],
  [redis, /^LIMIT_SECRET is required with REDIS_URL\. It is a secret of 16 characters/],
  [{ ...redis, LIMIT_SECRET: 'topsecret' }, /^LIMIT_SECRET must not have fewer than 16 characters\./],
  [{ REDIS_URL: 'http://:topsecret@a' }, /^REDIS_URL must match .* as in redis:/],
  [{ API_KEYS: 'topsecret' }, /^API_KEYS must match .* as in key:account/],
  [{ API_KEYS: 'topsecret:' }, /^API_KEYS must match/],
  [{ SMTP_URL: 'topsecret' }, /^SMTP_URL must match/],
  [{ SMTP_URL: 'smtp://a' }, /^MAIL_FROM is required with SMTP_URL/]
]
for (const [env, message] of wrong) {
  t.test(JSON.stringify(env), async t => {
    const error = t.throws(() => readConfig(env), { name: 'ConfigError', message }) as Error
    t.notMatch(error.message, 'topsecret')
  })
}

t.test('the policy names what is wrong in it', async t => {
  const policy = loadPolicy()
  const code = { ...policy.code, tries: 0 }
  t.throws(() => check(PolicySchema, { ...policy, code }, 'policy.'), {
    message: /^policy\.code\.tries \(0\) must be >= 1/
  })
  t.throws(() => check(PolicySchema, { ...policy, rule: [] }, 'policy.'), { message: /^policy\.rule/ })
  t.throws(() => check(PolicySchema, { ...policy, purposes: {} }, 'policy.'), {
    message: /^policy\.purposes/
  })
})

t.test('a key names its account, and in production there is none by default', async t => {
  const accountOf = accountsOf(readConfig({ API_KEYS: 'key-one:first,key-two:second' }))
  t.same(
    ['key-one', 'key-two', 'key', '', 'development-key'].map(key => accountOf(key)?.id),
    ['first', 'second', undefined, undefined, undefined]
  )
  t.equal(accountsOf(readConfig({ NODE_ENV: 'production' }))('development-key'), undefined)
})

t.test('codes are uniform, zeros in front included, and no two ids are alike', async t => {
  const options = {
    digits: 6,
    lifetimeSeconds: 300,
    tries: 5,
    secret: 'a secret of these tests',
    clock: systemClock
  }
  const captchas = captchasOf({ ...options, codes: new MemoryCodes(systemClock) })
  const issued: Issued[] = []
  for (let i = 0; i < 5_000; i++) issued.push(await captchas.issue('+8613800138000', 'login'))
  t.ok(issued.every(({ code }) => /^\d{6}$/.test(code)))
  t.equal(new Set(issued.map(({ id }) => id.slice(0, 22))).size, 5_000)
  const first = Array.from(
    { length: 10 },
    (_, digit) => issued.filter(({ code }) => code[0] === String(digit)).length
  )
  // Each is 500 give or take 21; ten times that never happens by chance.
  t.ok(
    first.every(count => count > 290 && count < 710),
    first.join(' ')
  )
})

t.test('codes in memory are bounded: rather than forget a live one, no more are taken', async t => {
  let now = 0
  const codes = new MemoryCodes({ monotonic: () => now, wall: () => now }, 2)
  const keep = (slot: string) => codes.keep({ slot, nonce: 'n', digest: 'd' }, 1_000, 5)
  await keep('a')
  await keep('b')
  await keep('b')
  await t.rejects(keep('c'), { code: 'CODES_FULL' })
  t.same(await codes.check({ slot: 'a', nonce: 'n', digest: 'd' }), { verified: true })
  await keep('c')
  now = 1_000
  await keep('d')
  t.same(await codes.check({ slot: 'c', nonce: 'n', digest: 'd' }), { verified: false, attemptsLeft: 0 })
})

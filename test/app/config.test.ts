import t from 'tap'
import { check } from '../../app/check.js'
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
  [{ TRUST_PROXY: '10.0.0.0/8, proxy' }, /^TRUST_PROXY \(" proxy"\) is no network\. .* addresses or CIDR/],
  [{ TRUST_PROXY: '10.0.0.0/33' }, /^TRUST_PROXY \("10\.0\.0\.0\/33"\) is no network/],
  [{ TRUST_PROXY: '10.0.0.0/8,::/0' }, /^TRUST_PROXY \("::\/0"\) is no network/],
  [{ HOST: '0.0.0.0' }, /^HOST \("0\.0\.0\.0"\) must be a loopback address in development/],
  [{ SEND_TIMEOUT: '60000' }, /^SEND_TIMEOUT \(60000\) must be <= 25000\. .* in milliseconds\.$/],
  [redis, /^LIMIT_SECRET is required with REDIS_URL\. It is a secret of 16 characters/],
  [{ ...redis, LIMIT_SECRET: 'topsecret' }, /^LIMIT_SECRET must not have fewer than 16 characters\./],
  [{ REDIS_URL: 'http://:topsecret@a' }, /^REDIS_URL must match .* as in redis:/],
  [{ API_KEYS: 'topsecret' }, /^API_KEYS must match .* as in key:account/],
  [{ API_KEYS: 'topsecret:' }, /^API_KEYS must match/],
  [
    { ADMIN_KEY: 'topsecret' },
    /^ADMIN_KEY must not have fewer than 24 characters\. It is the key of the admin/
  ],
  [{ NODE_ENV: 'production' }, /^AUDIT_LOG is required in production\. It is where the audit trail goes/],
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

import t from 'tap'
import { build } from '../../app/app.js'
import { check } from '../../app/check.js'
import { readConfig } from '../../app/config.js'
import { loadPolicy, PolicySchema } from '../../app/policy.js'

t.test('defaults', async t => {
  t.match(readConfig({ PORT: '', UNKNOWN: 'x' }), { NODE_ENV: 'development', HOST: '127.0.0.1', PORT: 3000 })
  t.equal(readConfig({ PORT: '8080' }).PORT, 8080)
})

t.test('a request may take as long as its sender and Redis may, and its connection longer', async t => {
  for (const [env, handlerTimeout] of [
    [{}, 15_000],
    [{ STORE_TIMEOUT: '100' }, 15_000],
    [{ STORE_TIMEOUT: '10000', SEND_TIMEOUT: '25000' }, 75_000]
  ] as const) {
    const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent', ...env }))
    t.teardown(() => app.close())
    const { connectionTimeout = 0, ...rest } = app.initialConfig
    t.match(rest, { handlerTimeout })
    t.ok(connectionTimeout > handlerTimeout)
  }
})

t.test('mail comes from one address, with a name or without', async t => {
  const right = ['shop@example.com', 'Shop <shop@example.com>', '"Shop, Inc." <shop@example.com>']
  for (const MAIL_FROM of [...right, '<shop@example.com>', '商店 <shop@example.com>'])
    t.match(readConfig({ MAIL_FROM }), { MAIL_FROM })
})

const redis = { REDIS_URL: 'redis://127.0.0.1' }
const wrong: [env: NodeJS.ProcessEnv, message: RegExp][] = [
  [{ PORT: 'abc' }, /^PORT \("abc"\) must be integer\. It is the port to listen on\.$/],
  [{ PORT: '70000' }, /^PORT \(70000\) must be <= 65535\./],
  [{ PORT: 'true' }, /^PORT \("true"\) must be integer/],
  [{ NODE_ENV: 'prod' }, /^NODE_ENV \("prod"\) must be one of development, production, test\.$/],
  [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL \("loud"\) must be one of fatal, /],
  [{ TRUST_PROXY: 'true' }, /^TRUST_PROXY \("true"\) .* addresses or CIDR ranges/],
  [{ TRUST_PROXY: '1' }, /^TRUST_PROXY \("1"\) /],
  [{ TRUST_PROXY: '10.0.0.0/8, proxy' }, /^TRUST_PROXY \(" proxy"\) is no network\. .* addresses or CIDR/],
  [{ TRUST_PROXY: '10.0.0.0/33' }, /^TRUST_PROXY \("10\.0\.0\.0\/33"\) is no network/],
  [{ TRUST_PROXY: '10.0.0.0/8,::/0' }, /^TRUST_PROXY \("::\/0"\) is no network/],
  [{ HOST: '0.0.0.0' }, /^HOST \("0\.0\.0\.0"\) must be a loopback address outside of production/],
  [{ HOST: '0.0.0.0', NODE_ENV: 'test' }, /^HOST \("0\.0\.0\.0"\) must be a loopback address outside of/],
  [{ HOST: '127.evil' }, /^HOST \("127\.evil"\) must be a loopback address/],
  [{ SEND_TIMEOUT: '60000' }, /^SEND_TIMEOUT \(60000\) must be <= 25000\. .* in milliseconds\.$/],
  [{ REGION: 'UK' }, /^REGION \("UK"\) is no country whose numbers are known\. It is the country of phone/],
  [redis, /^LIMIT_SECRET is required with REDIS_URL\. It is a secret of 16 characters/],
  [{ ...redis, LIMIT_SECRET: 'topsecret' }, /^LIMIT_SECRET must not have fewer than 16 characters\./],
  [
    { REDIS_URL: 'http://:topsecret@a' },
    /^REDIS_URL must be a URL with a host, of redis: or rediss:.* as in redis:/
  ],
  [{ API_KEYS: 'topsecret' }, /^API_KEYS must match .* as in key:account/],
  [{ API_KEYS: 'topsecret:' }, /^API_KEYS must match/],
  [
    { ADMIN_KEY: 'topsecret' },
    /^ADMIN_KEY must not have fewer than 24 characters\. It is the key of the admin/
  ],
  [
    { ADMIN_KEY: 'topsecret, and no key for a header: ü' },
    /^ADMIN_KEY must match .* as a header takes it\.$/
  ],
  [{ ADMIN_KEY: 'topsecret, read from a file\n' }, /^ADMIN_KEY must match/],
  [{ ADMIN_KEY: ' topsecret, after a space' }, /^ADMIN_KEY must match/],
  [{ API_KEYS: 'topsecret-ü:shop' }, /^API_KEYS must match .* as a header takes it/],
  [{ NODE_ENV: 'production' }, /^AUDIT_LOG is required in production\. It is where the audit trail goes/],
  [{ SMTP_URL: 'topsecret' }, /^SMTP_URL must be a URL with a host, of smtp: or smtps:.* as in smtps:/],
  [{ SMTP_URL: 'smtp://a' }, /^MAIL_FROM is required with SMTP_URL/]
]
const urls = {
  REDIS_URL: [
    'redis://:topsecret#1@127.0.0.1',
    'redis://127.0.0.1,redis://:topsecret@a b',
    'redis://a,',
    'redis://a/topsecret'
  ],
  SMTP_URL: ['smtp://shop:topsecret#1@127.0.0.1:25', 'smtp://shop:topsecret%@a', 'smtp://shop:1#topsecret@a'],
  WEBHOOK_URL: ['htps://topsecret@a', 'https://', 'https://topsecret@a b'],
  ALIYUN_ENDPOINT: ['https://', 'dysmsapi.aliyuncs.com'],
  TENCENT_ENDPOINT: ['ftp://sms.tencentcloudapi.com'],
  TWILIO_ENDPOINT: ['https://a:b']
}
for (const [name, texts] of Object.entries(urls))
  for (const text of texts)
    wrong.push([
      { ...redis, LIMIT_SECRET: 'x'.repeat(16), [name]: text },
      new RegExp(`^${name} must be a URL`)
    ])

const addresses = ['not an address', 'Shop', 'a@b@c', 'Shop <shop@example.com>, Other <o@example.com>']
  .concat(
    'Shop <shop@example.com>\r\nBcc: x@y.example',
    'Shop, Inc <shop@example.com>',
    'a@b.example, c@d.example'
  )
  .concat('<shop@example.com> Shop', 'Shop <shop>')
for (const MAIL_FROM of addresses)
  wrong.push([{ MAIL_FROM }, /^MAIL_FROM \(".*"\) must be one address, as in /])

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

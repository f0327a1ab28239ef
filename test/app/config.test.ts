import t from 'tap'
import { check } from '../../app/check.js'
import { readConfig } from '../../app/config.js'
import { ConfigSchema } from '../../app/config-schema.js'
import { loadPolicy } from '../../app/policy.js'
import { PolicySchema } from '../../app/policy-schema.js'
import { buildApp } from './helper.js'

t.test('variables that are not set have their defaults', async t => {
  t.same(readConfig({ PORT: '', UNKNOWN: 'x' }), {
    NODE_ENV: 'development',
    HOST: '127.0.0.1',
    PORT: 3000,
    LOG_LEVEL: 'info',
    TRUST_PROXY: 'false',
    PROXY_IDLE_TIMEOUT: 60_000,
    REDIS_SHARDED: 'off',
    STORE_TIMEOUT: 1_000,
    ON_STORE_ERROR: 'memory',
    REGION: 'CN',
    LOCALE: 'en',
    SEND_TIMEOUT: 10_000,
    RESEND_ORDER: 'others-first',
    DEV_OUTBOX: 'on'
  })
  t.equal(readConfig({ PORT: '8080' }).PORT, 8080)
})

t.test('requests may take as long as a sender and Redis together, connections longer', async t => {
  for (const [env, handlerTimeout] of [
    [{}, 19_000],
    [{ STORE_TIMEOUT: '100' }, 19_000],
    [{ STORE_TIMEOUT: '10000', SEND_TIMEOUT: '25000' }, 115_000],
    [{ CHALLENGE_URL: 'https://challenge.example', CHALLENGE_SECRET: 'x' }, 22_000]
  ] as const) {
    const app = await buildApp(t, env)
    const { connectionTimeout = 0, ...rest } = app.initialConfig
    t.match(rest, { handlerTimeout })
    t.ok(connectionTimeout > handlerTimeout)
  }
})

t.test('MAIL_FROM is one address, with a name or without', async t => {
  const right = ['shop@example.com', 'Shop <shop@example.com>', '"Shop, Inc." <shop@example.com>']
  for (const MAIL_FROM of [...right, '<shop@example.com>', '商店 <shop@example.com>'])
    t.match(readConfig({ MAIL_FROM }), { MAIL_FROM })
})

t.test('right values are taken as they are', async t => {
  const LIMIT_SECRET = 'x'.repeat(16)
  for (const env of [
    { HOST: 'localhost' },
    { HOST: '::1' },
    { AUDIT_LOG: 'stdout' },
    { AUDIT_LOG: './OFF' },
    { HOST: '127.1.2.3' },
    {
      HOST: '0.0.0.0',
      NODE_ENV: 'production',
      AUDIT_LOG: 'off',
      API_KEYS: 'a-key-of-24-characters-or-more:shop'
    },
    { NODE_ENV: 'production', AUDIT_LOG: 'off', ACCOUNTS_FILE: '/accounts.json' },
    { TRUST_PROXY: 'loopback, 10.0.0.0/8, 192.0.2.1,2001:db8::/128, ::ffff:10.0.0.0/104' },
    { BACKENDS: '10.0.0.5, 10.0.1.0/24,2001:db8::/48' },
    { REDIS_URL: 'redis://a, rediss://shop:%23%2F@b/0', LIMIT_SECRET },
    { REDIS_URL: 'redis://a/1', LIMIT_SECRET },
    { TWILIO_ENDPOINT: 'https://proxy.example/twilio/' },
    { ALIYUN_ENDPOINT: 'http://127.0.0.1:8080', TENCENT_ENDPOINT: 'https://sms.tencentcloudapi.com/' },
    { API_KEYS: `key:${'a'.repeat(64)},key2:Shop_2.eu-1` },
    { LIMIT_SECRET: 'sixteen letters it has' },
    { LIMIT_SECRET, RECIPIENT_SECRET: 'y'.repeat(16) },
    { RECIPIENT_SECRET: 'y'.repeat(16) },
    { TWILIO_FROM: 'My Shop', ALIYUN_SIGN_NAME: '店' }
  ])
    t.match(readConfig(env), env)
})

const redis = { REDIS_URL: 'redis://127.0.0.1' }
const wrong: [env: NodeJS.ProcessEnv, message: RegExp][] = [
  [{ PORT: 'abc' }, /^PORT \("abc"\) must be integer\. It is the port to listen on\.$/],
  [{ PORT: '70000' }, /^PORT \(70000\) must be <= 65535\./],
  [{ PORT: '-1' }, /^PORT \(-1\) must be >= 0/],
  [{ PORT: 'true' }, /^PORT \("true"\) must be integer/],
  [
    { NODE_ENV: 'prod' },
    /^NODE_ENV \("prod"\) must be one of development, production, test\. It is production for real users;/
  ],
  [
    { LOG_LEVEL: 'loud' },
    /^LOG_LEVEL \("loud"\) must be one of fatal, .* It is the lowest level of the lines/
  ],
  [
    { ON_STORE_ERROR: 'open' },
    /^ON_STORE_ERROR \("open"\) must be one of memory, deny, allow\. It is what limits/
  ],
  [{ CHALLENGE_URL: 'https://challenge.example' }, /^CHALLENGE_SECRET is required with CHALLENGE_URL\./],
  [{ CHALLENGE_SECRET: 'topsecret' }, /^CHALLENGE_SECRET needs CHALLENGE_URL\. (?!.*topsecret)/],
  [
    { CHALLENGE_URL: 'https://challenge.example', CHALLENGE_SECRET: 'top secret' },
    /^CHALLENGE_SECRET (?!.*top secret)/
  ],
  [{ CHALLENGE_URL: 'challenge.example', CHALLENGE_SECRET: 'x' }, /^CHALLENGE_URL must be a URL with a host/],
  [{ RESEND_ORDER: 'next' }, /^RESEND_ORDER \("next"\) must be one of others-first, same\./],
  [{ DEV_OUTBOX: 'no' }, /^DEV_OUTBOX \("no"\) must be one of on, off\. It is on for an outbox/],
  [{ TRUST_PROXY: 'true' }, /^TRUST_PROXY \("true"\) .* addresses or CIDR ranges/],
  [{ TRUST_PROXY: '1' }, /^TRUST_PROXY \("1"\) /],
  [{ TRUST_PROXY: '10.0.0.0/8, proxy' }, /^TRUST_PROXY \(" proxy"\) is no network\. .* addresses or CIDR/],
  [{ TRUST_PROXY: '10.0.0.0/33' }, /^TRUST_PROXY \("10\.0\.0\.0\/33"\) is no network/],
  [{ TRUST_PROXY: '10.0.0.0/8,::/0' }, /^TRUST_PROXY \("::\/0"\) is no network/],
  [{ TRUST_PROXY: '0.0.0.0/0' }, /^TRUST_PROXY .* is no network/],
  [{ TRUST_PROXY: '::ffff:0:0/96' }, /^TRUST_PROXY .* is no network/],
  [{ TRUST_PROXY: '10.0.0.0/8/8' }, /^TRUST_PROXY .* is no network/],
  [{ TRUST_PROXY: '10.0.0.0/0x8' }, /^TRUST_PROXY .* is no network/],
  [{ TRUST_PROXY: 'proxy/8' }, /^TRUST_PROXY .* is no network/],
  [{ TRUST_PROXY: 'loopback-not' }, /^TRUST_PROXY .* is no network/],
  [
    { BACKENDS: '10.0.0.5, shop' },
    /^BACKENDS \("shop"\) is no network\. It is the addresses of your own servers/
  ],
  [{ BACKENDS: 'loopback' }, /^BACKENDS \("loopback"\) is no network/],
  ...['0.0.0.0/0', 'fe80::1%eth0', '10.0.0.0/08', '64:ff9b::192.0.2.1', '10.0.0.5,'].map(
    (BACKENDS): [NodeJS.ProcessEnv, RegExp] => [{ BACKENDS }, /^BACKENDS .* is no network/]
  ),
  [
    { HOST: '0.0.0.0' },
    /^HOST \("0\.0\.0\.0"\) must be a loopback address outside of production.* or let a proxy/
  ],
  [{ HOST: '0.0.0.0', NODE_ENV: 'test' }, /^HOST \("0\.0\.0\.0"\) must be a loopback address outside of/],
  [{ HOST: '127.evil' }, /^HOST \("127\.evil"\) must be a loopback address/],
  [{ HOST: 'localhost.example' }, /^HOST .* must be a loopback address/],
  [{ PROXY_IDLE_TIMEOUT: '60s' }, /^PROXY_IDLE_TIMEOUT \("60s"\) must be integer\. .* in milliseconds\.$/],
  [{ PROXY_IDLE_TIMEOUT: '999' }, /^PROXY_IDLE_TIMEOUT \(999\) must be >= 1000/],
  [{ STORE_TIMEOUT: '99' }, /^STORE_TIMEOUT \(99\) must be >= 100/],
  [{ STORE_TIMEOUT: '10001' }, /^STORE_TIMEOUT \(10001\) must be <= 10000/],
  [{ SEND_TIMEOUT: '99' }, /^SEND_TIMEOUT \(99\) must be >= 100/],
  [{ SEND_TIMEOUT: '60000' }, /^SEND_TIMEOUT \(60000\) must be <= 25000\. .* in milliseconds\.$/],
  [{ LOCALE: 'german' }, /^LOCALE \("german"\) is no language tag as in "de" or "pt-BR" \(BCP 47\)\. /],
  [{ LOCALE: 'x'.repeat(100) }, /^LOCALE \("x{79}…\) is no language tag as in /],
  [{ HOST: 'x'.repeat(100) }, /^HOST \("x{79}…\) must be a loopback address /],
  [{ LOCALE: 'zh-hans' }, /^LOCALE \("zh-hans"\) must be spelled "zh-Hans"\. /],
  [{ REGION: 'UK' }, /^REGION \("UK"\) is no country whose numbers are known\. It is the country of phone/],
  [redis, /^LIMIT_SECRET is required with REDIS_URL\. It is a secret of 16 characters/],
  [{ ...redis, LIMIT_SECRET: 'topsecret' }, /^LIMIT_SECRET must not have fewer than 16 characters\./],
  [
    { LIMIT_SECRET: ' '.repeat(24) },
    /^LIMIT_SECRET is wrong\. It is a secret of 16 characters or more, blanks not counted/
  ],
  [{ LIMIT_SECRET: `topsecret${' '.repeat(24)}\n` }, /^LIMIT_SECRET is wrong/],
  [
    { RECIPIENT_SECRET: 'topsecret' },
    /^RECIPIENT_SECRET must not have fewer than 16 characters\. It is a secret/
  ],
  [{ RECIPIENT_SECRET: ' '.repeat(24) }, /^RECIPIENT_SECRET is wrong\. It is a secret of 16 characters/],
  [{ ...redis, RECIPIENT_SECRET: 'x'.repeat(16) }, /^LIMIT_SECRET is required with REDIS_URL/],
  [
    { REDIS_URL: 'http://:topsecret@a' },
    /^REDIS_URL must be a URL with a host, of redis: or rediss:.* as in redis:/
  ],
  [
    { REDIS_URL: 'redis://a, redis://:topsecret@b/1', LIMIT_SECRET: 'x'.repeat(16) },
    /^REDIS_URL names a database beside several nodes, and a cluster has none but 0\. It is the address of Redis, as in redis:/
  ],
  [
    { REDIS_URL: 'redis://a, redis://b', REDIS_SHARDED: 'on', LIMIT_SECRET: 'x'.repeat(16) },
    /^REDIS_SHARDED \("on"\) is for one address, and REDIS_URL names several nodes or sentinels\. It is on if REDIS_URL leads to/
  ],
  [{ ...redis, LIMIT_SECRET: 'x'.repeat(16), REDIS_SENTINEL: 'main', REDIS_SHARDED: 'on' }, /^REDIS_SHARDED/],
  [{ REDIS_SENTINEL: 'main' }, /^REDIS_SENTINEL \("main"\) needs REDIS_URL\. It is the name of the master/],
  [
    { REDIS_SENTINEL_PASSWORD: 'topsecret' },
    /^REDIS_SENTINEL_PASSWORD needs REDIS_SENTINEL\. It is the password/
  ],
  [{ REDIS_SHARDED: 'yes' }, /^REDIS_SHARDED/],
  [{ API_KEYS: 'topsecret' }, /^API_KEYS is wrong\. .* as in key:account/],
  [{ API_KEYS: 'topsecret:' }, /^API_KEYS is wrong/],
  [{ API_KEYS: 'topsecret:and:shop' }, /^API_KEYS is wrong/],
  [{ API_KEYS: 'topsecret:shop,' }, /^API_KEYS is wrong/],
  [{ API_KEYS: ',topsecret:shop' }, /^API_KEYS is wrong/],
  [{ API_KEYS: `topsecret:${'a'.repeat(65)}` }, /^API_KEYS is wrong/],
  [
    { ADMIN_KEY: 'topsecret' },
    /^ADMIN_KEY must not have fewer than 24 characters\. It is the key of the admin/
  ],
  [
    { ADMIN_KEY: 'topsecret, and no key for a header: ü' },
    /^ADMIN_KEY is wrong\. .* as a header takes it\.$/
  ],
  [{ ADMIN_KEY: 'topsecret, read from a file\n' }, /^ADMIN_KEY is wrong/],
  [{ ADMIN_KEY: ' topsecret, after a space' }, /^ADMIN_KEY is wrong/],
  [{ API_KEYS: 'topsecret-ü:shop' }, /^API_KEYS is wrong\. .* as a header takes it/],
  [
    { NODE_ENV: 'production', AUDIT_LOG: 'off' },
    /^API_KEYS or ACCOUNTS_FILE is required in production\. It is/
  ],
  [{ NODE_ENV: 'production', DEV_OUTBOX: 'on' }, /^DEV_OUTBOX must be off in production/],
  [{ NODE_ENV: 'production' }, /^AUDIT_LOG is required in production\. It is where the audit trail goes/],
  ...['OFF', 'Stdout', 'stderr', 'none', 'false', 'on', 'yes', 'no', 'off ', ' '].map(
    (AUDIT_LOG): [NodeJS.ProcessEnv, RegExp] => [
      { AUDIT_LOG },
      new RegExp(`^AUDIT_LOG \\("${AUDIT_LOG}"\\) is no path\\. .* the path of a file, stdout, or off\\.$`)
    ]
  ),
  [{ SMTP_URL: 'topsecret' }, /^SMTP_URL must be a URL with a host, of smtp: or smtps:.* as in smtps:/],
  [
    { SMTP_URL: 'smtp://topsecret@a' },
    /^SMTP_URL names a user and no password\. It is the address of the mail server, as in smtps:/
  ],
  [
    { SMTP_URL: 'smtp://:topsecret@a' },
    /^SMTP_URL names a password and no user\. It is the address of the mail server, as in smtps:/
  ],
  [{ SMTP_URL: 'smtp://a' }, /^MAIL_FROM is required with SMTP_URL/],
  ...['ALIYUN_ACCESS_KEY_ID', 'ALIYUN_ACCESS_KEY_SECRET', 'TENCENT_SECRET_ID', 'TENCENT_SECRET_KEY']
    .concat('TWILIO_AUTH_TOKEN')
    .map((name): [NodeJS.ProcessEnv, RegExp] => [
      { [name]: 'topsecret\n' },
      new RegExp(`^${name} is wrong\\. .* of visible ASCII\\.$`)
    ]),
  ...['ALIYUN_SIGN_NAME', 'TENCENT_SIGN_NAME', 'TENCENT_SDK_APP_ID', 'TWILIO_FROM'].map(
    (name): [NodeJS.ProcessEnv, RegExp] => [
      { [name]: '店铺\n' },
      new RegExp(`^${name} .* is wrong\\. .* in one line`)
    ]
  ),
  ...['TWILIO_FROM', 'ALIYUN_SIGN_NAME'].flatMap(name =>
    [' ', ' Shop', 'Shop '].map((text): [NodeJS.ProcessEnv, RegExp] => [
      { [name]: text },
      new RegExp(`^${name} \\("${text}"\\) is wrong`)
    ])
  ),
  [{ TWILIO_ACCOUNT_SID: 'topsecret' }, /^TWILIO_ACCOUNT_SID is wrong\. .* AC at its beginning\.$/],
  [{ TENCENT_REGION: 'ap-北京' }, /^TENCENT_REGION \("ap-北京"\) is wrong\. .* the region of the API/],
  ...['https://a?topsecret', 'https://:topsecret@a/b'].map((url): [NodeJS.ProcessEnv, RegExp] => [
    { TWILIO_ENDPOINT: url },
    /^TWILIO_ENDPOINT must have a protocol, a host and perhaps a port and a path alone\. It is the address of/
  ]),
  ...['ALIYUN_ENDPOINT', 'TENCENT_ENDPOINT'].flatMap(name =>
    ['https://a/topsecret', 'https://a?topsecret', 'https://:topsecret@a'].map(
      (url): [NodeJS.ProcessEnv, RegExp] => [
        { [name]: url },
        new RegExp(`^${name} must have a protocol, a host and perhaps a port alone\\. It is the address of`)
      ]
    )
  )
]
const urls = {
  REDIS_URL: [
    'redis://:topsecret#1@127.0.0.1',
    'redis://127.0.0.1,redis://:topsecret@a b',
    'redis://a,',
    'redis://a/topsecret',
    'redis:///1',
    'redis://shop:?topsecret@a',
    'redis://shop:12?topsecret@a',
    'redis://a?stringNumbers=true',
    'redis://topsecret%:1@a',
    'redis://:topsecret%ff@a',
    'redis://a,redis://:topsecret%ff@b'
  ],
  SMTP_URL: [
    'smtp://shop:topsecret#1@127.0.0.1:25',
    'smtp://shop:topsecret%@a',
    'smtp://shop:/topsecret@a',
    'smtp://shop:12/topsecret@a',
    'smtp://shop:?topsecret@a',
    'smtp://a?logger=true',
    'smtp://shop:1#topsecret@a',
    'smtp://shop:topsecret%2g@a',
    'smtp://shop:topsecret%e4@a',
    'http://topsecret@a'
  ],
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
    '"Shop\r\nBcc: x@y.example" <shop@example.com>',
    'Shop, Inc <shop@example.com>',
    'a@b.example, c@d.example'
  )
  .concat('<shop@example.com> Shop', 'Shop <shop>')
for (const MAIL_FROM of addresses)
  wrong.push([{ MAIL_FROM }, /^MAIL_FROM \(".*"\) must be one address, as in /])

t.test('every variable has a description, which the sentence about a mistake ends with', async t => {
  for (const [name, schema] of Object.entries(ConfigSchema.properties))
    t.ok((schema as { description?: string }).description, name)
})

for (const [env, message] of wrong) {
  t.test(`the start is refused with ${JSON.stringify(env)}`, async t => {
    const error = t.throws(() => readConfig(env), { name: 'ConfigError', message }) as Error
    t.notMatch(error.message, 'topsecret')
  })
}

t.test('a mistake in the policy is named with its path', async t => {
  const policy = loadPolicy()
  for (const [name, least, most] of [
    ['digits', 4, 10],
    ['lifetimeSeconds', 30, 600],
    ['tries', 1, 10]
  ] as const) {
    const of = (value: number) =>
      check(PolicySchema, { ...policy, code: { ...policy.code, [name]: value } }, 'policy')
    t.equal(of(least).code[name], least)
    t.equal(of(most).code[name], most)
    const at = `^policy\\.code\\.${name} \\(${least - 1}\\) must be >= ${least}`
    t.throws(() => of(least - 1), { message: new RegExp(at) })
    t.throws(() => of(most + 1), { message: new RegExp(`must be <= ${most}`) })
  }
  const login = { action: { en: 'log in', zh: '登录' } }
  const wrong: [change: object, message: RegExp][] = [
    [{ rule: [] }, /^policy\.rule /],
    [{ purposes: {} }, /^policy\.purposes /],
    [
      { purposes: { Login: login } },
      /^policy\.purposes\.Login is not known here; known: at most 32 of a-z, .* as in "log-in"\.$/
    ],
    [{ purposes: { ['a'.repeat(33)]: login } }, /^policy\.purposes\.a{33} /],
    [{ purposes: { login: { ...login, concealed: true } } }, /^policy\.purposes\.login\.concealed /],
    [
      { purposes: { login: { ...login, code: { digits: 3 } } } },
      /^policy\.purposes\.login\.code\.digits \(3\) must be >= 4/
    ],
    [
      { purposes: { login: { ...login, code: { length: 8 } } } },
      /^policy\.purposes\.login\.code\.length is not known here; known: digits, lifetimeSeconds, tries, resend\.$/
    ],
    [{ purposes: { login: { action: { en: 1 } } } }, /^policy\.purposes\.login\.action\.en \(1\) /],
    [
      { code: { ...policy.code, resend: 'renew' } },
      /^policy\.code\.resend \("renew"\) must be one of rotate, reuse\.$/
    ],
    [{ code: { ...policy.code, attempts: 5 } }, /^policy\.code\.attempts /],
    [{ countries: [] }, /^policy\.countries \(\[\]\) /],
    [{ code: {} }, /^policy\.code\.digits is required\.$/],
    [
      { colour: 1 },
      /^policy\.colour is not known here; known: purposes, code, countries, countryQuotas, prices, rules\.$/
    ],
    // More unknown members than the checker lists, with another mistake behind them.
    [
      {
        ...Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`/~${i}`, 1])),
        code: { ...policy.code, tries: 99 }
      },
      /^policy\.\/~0 is not known here; known: purposes,/
    ],
    [{ countries: ['CHN'] }, /^policy\.countries\[0\] \("CHN"\) is wrong\. It is two capital letters/],
    [{ prices: { currency: 'CNYX' } }, /^policy\.prices\.currency \("CNYX"\) is wrong/],
    [{ prices: { currency: 'CNY', email: 1 } }, /^policy\.prices\.email /],
    [
      { prices: { currency: 'CNY', sms: { '+86': 1 } } },
      /^policy\.prices\.sms\.\+86 .* digits of a number without a plus/
    ],
    [
      { prices: { currency: 'CNY', sms: { default: 1e308 } } },
      /^policy\.prices\.sms\.default \(1e\+308\) must be <= 1000000\. It is a price in the currency, at most 1,000,000\.$/
    ],
    [
      { prices: { currency: 'CNY', mail: 1_000_001 } },
      /^policy\.prices\.mail \(1000001\) must be <= 1000000\./
    ],
    [{ code: ['topsecret'] }, /^policy\.code must be object\.$/],
    [{ purposes: 'a'.repeat(1_000) }, /^policy\.purposes \("a{79}…\) must be object\./]
  ]
  const refused = (value: unknown) => () => void check(PolicySchema, value, 'policy')
  t.throws(refused([{ id: 'topsecret' }]), { message: 'policy must be object.' })
  for (const [change, message] of wrong)
    t.throws(refused({ ...policy, ...change }), { message }, `${message}`)
})

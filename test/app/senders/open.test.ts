import t, { type Test } from 'tap'
import { ConfigSchema } from '../../../app/config-schema.js'
import { checkCodes, missingCodes, openSenders } from '../../../app/senders/open.js'
import { openProvider, type Provider } from '../../../app/senders/provider.js'
import { providers } from '../../../app/senders/providers.js'
import { clock, config, credentials, hook, mail, message, production, sent, smtp } from './servers.js'

async function open(t: Test, env: NodeJS.ProcessEnv) {
  const opened = await openSenders(config(env), clock, () => {})
  t.teardown(async () => {
    await opened.senders.sms.close?.()
    await opened.senders.mail.close?.()
  })
  return opened
}
const names: [env: NodeJS.ProcessEnv, sms: string, mail: string][] = [
  [{}, 'outbox', 'outbox'],
  [{ DEV_OUTBOX: 'off' }, 'none', 'none'],
  [production, 'none', 'none'],
  [{ ...production, ...smtp }, 'none', 'smtp'],
  [smtp, 'outbox', 'smtp'],
  [{ ...smtp, MAIL_SENDERS: 'none' }, 'outbox', 'none'],
  [
    { ...smtp, ...hook, SMS_SENDERS: 'webhook,outbox', MAIL_SENDERS: 'smtp:2|webhook' },
    'webhook,outbox',
    'smtp|webhook'
  ],
  [{ ...credentials, SMS_SENDERS: 'aliyun:3|tencent:1,twilio' }, 'aliyun|tencent,twilio', 'outbox']
]
for (const [env, sms, mail] of names) {
  t.test(`the senders are right for ${JSON.stringify(env)}`, async t => {
    const { senders } = await open(t, env)
    t.same([senders.sms.name, senders.mail.name], [sms, mail])
  })
}

const wrong: [env: NodeJS.ProcessEnv, message: RegExp][] = [
  [{ SMS_SENDERS: 'aliyun' }, /^ALIYUN_ACCESS_KEY_ID is required: SMS_SENDERS names aliyun\.$/],
  [{ ...credentials, SMS_SENDERS: 'aliyun', ALIYUN_TEMPLATES: '' }, /^ALIYUN_TEMPLATES is required/],
  [{ SMS_SENDERS: 'twilio' }, /^TWILIO_ACCOUNT_SID is required/],
  [{ SMS_SENDERS: 'tencent' }, /^TENCENT_SECRET_ID is required/],
  [{ MAIL_SENDERS: 'webhook' }, /^WEBHOOK_URL is required: MAIL_SENDERS names webhook\.$/],
  [{ MAIL_SENDERS: 'smtp' }, /^SMTP_URL is required/],
  [
    { SMS_SENDERS: 'smtp' },
    /^SMS_SENDERS names smtp; for sms there are aliyun, tencent, twilio, webhook, outbox, none\.$/
  ],
  [{ SMS_SENDERS: 'sms77' }, /^SMS_SENDERS names sms77; for sms there are /],
  [{ SMS_SENDERS: 'constructor' }, /^SMS_SENDERS names constructor; /],
  [
    { MAIL_SENDERS: 'aliyun' },
    /^MAIL_SENDERS names aliyun; for mail there are smtp, webhook, outbox, none\.$/
  ],
  [{ ...production, SMS_SENDERS: 'outbox' }, /^SMS_SENDERS names outbox; .* webhook, none\.$/],
  [{ ...hook, SMS_SENDERS: 'webhook,webhook' }, /^SMS_SENDERS names webhook twice\.$/],
  [{ SMS_SENDERS: 'webhook;none' }, /^SMS_SENDERS \("webhook;none"\) is wrong/],
  [{ SMS_SENDERS: 'webhook:0' }, /^SMS_SENDERS .* is wrong/],
  [{ SMS_SENDERS: 'webhook|none:0' }, /^SMS_SENDERS .* is wrong/],
  [{ ALIYUN_TEMPLATES: 'captcha=1' }, /^ALIYUN_TEMPLATES .* as in captcha\.zh=SMS_154950909:code\.$/],
  [{ ALIYUN_TEMPLATES: 'captcha.zh=1;captcha.en=2' }, /^ALIYUN_TEMPLATES .* is wrong/],
  [{ WEBHOOK_SECRET: 'topsecret' }, /^WEBHOOK_SECRET is wrong/],
  [{ WEBHOOK_SECRET: `whsec_topsecret${'A'.repeat(22)}` }, /^WEBHOOK_SECRET is wrong/],
  [{ WEBHOOK_SECRET: `whsec_topsecret${'A'.repeat(23)} #` }, /^WEBHOOK_SECRET is wrong/],
  // A character is missing, or the padding; 23 bytes, and 65.
  ...['A'.repeat(24), 'A'.repeat(25), `${'A'.repeat(22)}=`, `${'A'.repeat(78)}=`].map(
    (rest): [NodeJS.ProcessEnv, RegExp] => [
      { WEBHOOK_SECRET: `whsec_topsecret${rest}` },
      /^WEBHOOK_SECRET is wrong/
    ]
  ),
  [{ TWILIO_ACCOUNT_SID: 'AC' }, /^TWILIO_ACCOUNT_SID is wrong/],
  [{ TWILIO_ACCOUNT_SID: 'SK1' }, /^TWILIO_ACCOUNT_SID .* AC at its beginning\.$/]
]
for (const [env, message] of wrong) {
  t.test(`the start is refused with ${JSON.stringify(env)}`, async t => {
    const error = await open(t, env).then(
      () => new Error('opened'),
      (error: Error) => error
    )
    t.match(error, { name: 'ConfigError', message })
    t.notMatch(error.message, 'topsecret')
  })
}

t.test('a package that is not installed ends the start with what to install', async t => {
  const name = 'no-such-package-of-anybody'
  const missing: Provider = { channels: [], needs: [], packages: 'a b', open: () => import(name) }
  await t.rejects(openProvider(missing, 'SMS_SENDERS names a', config(), clock), {
    name: 'ConfigError',
    message: 'SMS_SENDERS names a: install it with npm install a b'
  })
  const text = 'data:text/javascript,throw Error("broken")'
  const broken: Provider = { ...missing, open: () => import(text) }
  await t.rejects(
    openProvider(broken, 'SMS_SENDERS names a', config(), clock),
    { message: 'broken' },
    'a package that is installed but broken fails by its own error'
  )
  for (const [name, { packages, needs }] of Object.entries(providers)) {
    for (const each of packages?.split(' ') ?? []) await t.resolves(import(each), `${name}: ${each}`)
    t.same(
      needs.filter(variable => !(variable in ConfigSchema.properties)),
      []
    )
  }
})

t.test('a sender has the name by which it was chosen', async t => {
  const all = config({ ...credentials, ...smtp })
  for (const [name, each] of Object.entries(providers)) {
    const sender = await openProvider(each, `\`credentials\` are for ${name}, too`, all, clock)
    t.equal(sender.name, name)
    await sender.close?.()
  }
})

t.test('a provider of both channels has one breaker', async t => {
  const { senders } = await open(t, { ...hook, SMS_SENDERS: 'webhook', MAIL_SENDERS: 'webhook' })
  for (let i = 0; i < 5; i++) t.match(await sent(t, senders.sms), { code: 'ECONNREFUSED' })
  t.match(await sent(t, senders.mail, mail()), { code: 'BREAKER_OPEN' })
})

t.test('templates without a code at a chosen provider are named', async t => {
  const env = { ...credentials, SMS_SENDERS: 'aliyun|tencent,twilio' }
  t.match(missingCodes(config(env), ['captcha.en', 'captcha.zh']), [
    /^ALIYUN_TEMPLATES has no code for captcha\.en: /,
    /^TENCENT_TEMPLATES has no code for captcha\.zh: /
  ])
  t.same(missingCodes(config(), ['captcha.en']), [])
})

t.test('the codes of chosen providers must fit the templates', async t => {
  const parameters = new Map([
    ['captcha.zh', ['code', 'minutes']],
    ['password-changed.zh', []],
    ['captcha-payment.zh', ['code', 'minutes', 'amount', 'payee']]
  ])
  const of = (TENCENT_TEMPLATES: string, SMS_SENDERS = 'twilio,tencent') =>
    config({ ...credentials, TENCENT_TEMPLATES, SMS_SENDERS })
  for (const right of [
    'captcha.zh=1',
    'captcha.zh=1:minutes:code,password-changed.zh=2',
    'captcha-payment.zh=1',
    'captcha-payment.zh=1:code:payee:amount'
  ])
    t.doesNotThrow(() => checkCodes(of(right), parameters))
  t.doesNotThrow(() => checkCodes(of('captcha.zn=1', 'twilio'), parameters), 'the provider is not chosen')
  for (const [wrong, message] of [
    [
      'captcha.zn=1',
      /^TENCENT_TEMPLATES names captcha\.zn, which is no template and language .* captcha\.zh, password-changed\.zh, captcha-payment\.zh\.$/
    ],
    [
      'captcha.zh=1:cod',
      /^TENCENT_TEMPLATES names the parameter cod of captcha\.zh; it takes code, minutes\.$/
    ],
    ['password-changed.zh=1:code', /the parameter code of password-changed\.zh; it takes none\.$/],
    [
      'captcha-payment.zh=1:code:amount',
      /^TENCENT_TEMPLATES leaves out payee of captcha-payment\.zh, which the message must show\.$/
    ],
    ['captcha.zh=1,captcha.zh=2', /^TENCENT_TEMPLATES names a template twice\.$/]
  ] as const)
    t.throws(() => checkCodes(of(wrong), parameters), { name: 'ConfigError', message }, wrong)
})

t.test('the outbox keeps the last hundred messages as they were written', async t => {
  const lines: string[] = []
  const { senders, outbox } = await openSenders(config(), clock, line => lines.push(line))
  await sent(t, senders.sms)
  await sent(t, senders.mail, mail())
  t.same(outbox?.messages, [
    {
      at: '2026-03-01T03:00:00.000Z',
      channel: 'mail',
      to: 'jane@example.com',
      subject: 'Your code',
      text: '042137 is your code'
    },
    { at: '2026-03-01T03:00:00.000Z', channel: 'sms', to: '+8613800138000', text: '042137 is your code' }
  ])
  t.same(lines[0], 'sms to +8613800138000: 042137 is your code')
  for (let i = 0; i < 150; i++) await sent(t, senders.sms, message({ text: `${i}` }))
  t.equal(outbox?.messages.length, 100)
  t.equal(outbox?.messages[0]?.text, '149')
})

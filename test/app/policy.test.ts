import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import { loadTemplates } from '../../app/templates/templates.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { logStream } from '../helper/log-stream.js'
import { ask, E164, resend, status, verify } from './captcha.js'
import { ADMIN_KEY, lastCode, places, post, putOnList, reload, withRules } from './helper.js'
import { provider } from './provider.js'

function policyFile(t: Test) {
  const file = join(folderOf(t), 'policy.json')
  const write = (change: (policy: Policy) => object) => {
    writeFileSync(file, JSON.stringify(change(structuredClone(loadPolicy()))))
  }
  write(policy => policy)
  return { file, write }
}

/** The policy with another limit on recipients. */
const withRecipient = (limits: unknown) => (policy: Policy) => withRules({ recipient: { limits } }, policy)

t.test('a policy may serve numbers that belong to no country', async t => {
  const { file, write } = policyFile(t)
  write(policy => ({ ...policy, countries: ['CN', '001'] }))
  t.same(loadPolicy(file).countries, ['CN', '001'])
})

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a new policy is in force without a restart, and what was counted stays', async t => {
      const { file, write } = policyFile(t)
      const place = await open(t)
      const app = await place.start({ POLICY_FILE: file, ADMIN_KEY })
      t.equal((await ask(app)).status, 202)
      write(withRecipient([{ max: 2, window: '120s' }]))
      t.equal((await ask(app)).status, 429, 'the new policy is not in force before it is read')
      t.match(await reload(app), { status: 200, body: { rules: loadPolicy().rules.length, purposes: 3 } })
      t.equal((await ask(app)).status, 202)
      t.match(await ask(app), { status: 429, body: { 'violated-policies': ['recipient'] } })
      place.advance(60_000)
      t.equal((await ask(app)).status, 429)
      place.advance(60_001)
      t.equal((await ask(app)).status, 202)
      await putOnList(app, 'allowed', '+8613800138000')
      for (let i = 0; i < 2; i++) t.equal((await ask(app)).status, 202, 'the allow list still applies')
    })

    await t.test(
      'an allowed recipient still counts towards the limits of an address, and gets one message at a time',
      async t => {
        const told = provider()
        const app = await (await open(t)).start({}, { senders: { sms: told } })
        await putOnList(app, 'allowed', E164)
        const { held, letGo } = told.hold()
        const first = ask(app)
        await held
        t.match(await ask(app), { status: 409, body: { code: 'FST_SEND_LIMIT_IN_FLIGHT' } })
        letGo()
        t.equal((await first).status, 202)
        told.work()
        for (let i = 0; i < 4; i++) t.equal((await ask(app)).status, 202)
        t.match(await ask(app), { status: 429, body: { 'violated-policies': [/^ip/] } })
        t.equal(told.messages.length, 5)
      }
    )

    await t.test('a rule with its own allow list does not let pass whom the operator allows', async t => {
      const { file, write } = policyFile(t)
      write(policy => ({
        ...policy,
        rules: policy.rules.map(rule => (rule.name === 'recipient' ? { ...rule, allow: [E164] } : rule))
      }))
      const place = await open(t)
      const app = await place.start({ POLICY_FILE: file, ADMIN_KEY })
      const phone = '13900139000'
      await putOnList(app, 'allowed', '+8613900139000')
      for (let i = 0; i < 2; i++) t.equal((await ask(app)).status, 202)
      place.advance(1)
      t.equal((await ask(app, { phone })).status, 202)
      t.match(await ask(app, { phone }), { status: 429, body: { 'violated-policies': ['recipient-60s'] } })
      const headers = { 'x-admin-key': ADMIN_KEY }
      const found = await post(app, '/v1/admin/recipients/lookup', { phone }, { headers })
      t.match(found, { body: { standing: { standing: 'allowed' }, retryAfterMs: 60_000 } })
    })

    await t.test('a rule reads phone numbers without a country code as numbers of REGION', async t => {
      const { rules, ...own } = loadPolicy()
      const key = { phone: 'body.phone' }
      const limits = [{ max: 1, window: '60s' }]
      const changed = rules.map(rule => (rule.name === 'mobile' ? { name: rule.name, key, limits } : rule))
      const app = await (await open(t)).start(
        { REGION: 'GB', ADMIN_KEY },
        { policy: { ...own, rules: changed } }
      )
      const send = (phone: string) => post(app, '/v1/sms', { phone, template: 'password-changed' })
      t.equal((await send('07911 123456')).status, 202)
      t.match(await send('+44 7911 123456'), { status: 429, body: { 'violated-policies': ['mobile'] } })
      const phone = '07911 123456'
      const { id } = (await ask(app, { phone })).body
      const code = lastCode(app, '+447911123456')
      t.equal((await verify(app, id, code, { phone })).status, 200, 'verifying reads the number alike')
      const lookup = '/v1/admin/recipients/lookup'
      const found = await post(app, lookup, { phone }, { headers: { 'x-admin-key': ADMIN_KEY } })
      t.match(found.body, { recipient: /^\+44/ }, 'the admin API reads the number alike')
    })

    await t.test('the audit trail says who reloaded the policy, and with what outcome', async t => {
      const { file, write } = policyFile(t)
      const app = await (await open(t)).start({ POLICY_FILE: file, ADMIN_KEY })
      const told = heardOn(t, 'verification-api:audit')
      await reload(app)
      write(withRecipient([]))
      await reload(app)
      t.throws(() => app.reload(), /limits/)
      const operator = { actor: createHash('sha256').update(ADMIN_KEY).digest('hex').slice(0, 8) }
      t.match(told, [
        { event: 'reload', outcome: 'replaced', requestId: String, network: String, ...operator },
        { event: 'admin', action: 'reload', outcome: 'done', ...operator },
        {
          event: 'reload',
          outcome: 'refused',
          requestId: String,
          network: String,
          ...operator,
          detail: /limits/
        },
        { event: 'admin', action: 'reload', outcome: 'failed', ...operator },
        { event: 'reload', outcome: 'refused', actor: 'signal' }
      ])
    })

    await t.test('a policy with a mistake is refused with its path, and changes nothing', async t => {
      const { file, write } = policyFile(t)
      const place = await open(t)
      const app = await place.start({ POLICY_FILE: file, ADMIN_KEY })
      const wrong: [string, (policy: Policy) => object, RegExp][] = [
        ['a limit', withRecipient([{ max: 0, window: '60s' }]), / policy\.rules\[\d+\]\.limits\[0\]\.max: /],
        [
          'no rule',
          p => ({ ...p, rules: p.rules.with(3, null as never) }),
          /policy\.rules\[3\] \(null\) must be object\./
        ],
        [
          'no name',
          p => ({ ...p, rules: p.rules.with(3, {} as never) }),
          /policy\.rules\[3\]\.name is required/
        ],
        [
          'no key',
          p => ({ ...p, rules: p.rules.with(6, { ...p.rules[6], key: null } as never) }),
          /rules\[6\]\.key/
        ],
        ...loadPolicy().rules.map(({ name }): [string, (policy: Policy) => object, RegExp] => [
          `without the rule ${name}`,
          p => ({ ...p, rules: p.rules.filter(rule => rule.name !== name) }),
          new RegExp(` policy\\.rules lacks "${name}",`)
        ]),
        [
          'a rule that no endpoint counts by',
          p => ({ ...p, rules: [...p.rules, { ...p.rules[0], name: 'recipients' }] }),
          /policy\.rules\[\d+\].name \("recipients"\) .*recipient,/
        ],
        ...(
          [
            [
              'ip',
              { key: { ip: 'request.endUserIP' } },
              /\.key\.ip \("request\.endUserIP"\) .* request\.endUserIp,/
            ],
            ['ip-recipients', { distinct: { value: 'request.recipient' } }, /\.distinct\.value /],
            ['mobile', { key: { phone: 'request.body.phone' } }, /Write it as "body\.phone"/],
            [
              'mobile',
              { key: { phone: 'request.recipient.identity' } },
              /\.key\.phone names .*; write \{ "value": "request\.recipient\.identity" \}\./
            ],
            [
              'verify-failures-recipient',
              { key: [{ value: 'request.captcha.purpose' }, { email: 'request.captcha.identity' }] },
              /\.key\[1\]\.email names /
            ],
            ['mail', { key: { ip: 'request.recipient.identity' } }, /\.key\.ip names /],
            [
              'same-content',
              { key: { digest: ['request.recipient.identity', 'request.message.param.code'] } },
              /\.key\.digest\[1\] /
            ],
            [
              'account',
              {
                limits: [{ max: { value: 'request.account.quota' }, ceiling: 9, per: 'day', timeZone: 'UTC' }]
              },
              /\.limits\[0\]\.max\.value /
            ],
            // Paths that exist, but not yet where the rule decides.
            [
              'api-attempts',
              { key: { value: 'request.account.id' } },
              /\.key\.value .* known: request\.ip\./
            ],
            [
              'admin-attempts',
              { key: { value: 'request.account.id' }, counts: 'sends' },
              /\.key\.value .* known: nothing\./
            ],
            [
              'ip',
              { key: { value: `request.${'x'.repeat(1_000)}` } },
              /\.key\.value \("request\.x{71}…\) is/
            ],
            ['mobile', { key: { ip: 'request.endUserIp' } }, /\.key\.ip .* known: (?!.*endUserIp)/],
            ['ip', { key: { value: 'request.message.template' } }, /\.key\.value .* known: (?!.*message)/],
            ['ip', { key: { value: 'request.message.params.x' } }, /\.key\.value .* known: (?!.*message)/],
            [
              'verify-failures',
              { key: { value: 'request.purpose' } },
              /\.key\.value .* known: (?!.*request\.purpose)/
            ]
          ] as const
        ).map(([rule, members, says]): [string, (policy: Policy) => object, RegExp] => [
          `a path of ${rule} that leads nowhere`,
          policy => withRules({ [rule]: members }, policy),
          says
        ]),
        ['the length of codes', p => ({ ...p, code: { ...p.code, digits: 3 } }), /policy\.code\.digits/],
        ...(
          [
            ['log in to shop.example', 'must not contain a link'],
            ['log in {code', 'has a brace'],
            ['log in code}', 'has a brace'],
            ['  ', 'must not be empty'],
            ['log\nin', 'must not contain line breaks'],
            ['x'.repeat(81), 'must have 80 characters or fewer'],
            ['😀'.repeat(80), 'fits into no SMS of a code']
          ] as const
        ).map(([en, says]): [string, (policy: Policy) => object, RegExp] => [
          `words that no message can hold: ${en}`,
          p => ({ ...p, purposes: { login: { action: { en, zh: '登录' } } } }),
          new RegExp(`policy\\.purposes\\.login\\.action\\.en \\(".{0,80}["…]\\) ${says}`)
        ]),
        [
          'a country',
          p => ({ ...p, countries: ['CN', 'XX'] }),
          /policy\.countries\[1\] \("XX"\) is no country/
        ],
        [
          'a country that does not exist, with a quota',
          p => ({ ...p, countryQuotas: { CN: 5, default: 1, XX: 5 } }),
          /policy\.countryQuotas\.XX is no country/
        ],
        [
          'a quota of something else',
          p => ({ ...p, countryQuotas: { china: 5 } }),
          /policy\.countryQuotas\.china is not known here; known: .*or "default" for each of the others/
        ],
        [
          'a quota of nothing',
          p => ({ ...p, countryQuotas: { CN: 0 } }),
          /policy\.countryQuotas\.CN \(0\) must be >= 1/
        ],
        ...[{ optional: false }, { key: { value: 'request.recipient.identity' } }].map(
          (members): [string, (policy: Policy) => object, RegExp] => [
            `a rule that takes the quota of a country, and counts others: ${Object.keys(members)}`,
            policy => withRules({ country: members }, policy),
            /policy\.rules\[\d+\]\.limits\[0\]\.max \(request\.countryQuota\) is not known of every request/
          ]
        ),
        ...[{ optional: false }, { key: 'all' }].map(
          (members): [string, (policy: Policy) => object, RegExp] => [
            `a rule that takes a price as its cost, and counts what has none: ${Object.keys(members)}`,
            policy => withRules({ budget: members }, policy),
            /policy\.rules\[\d+\]\.cost \(request\.price\.units\) is not known of every request; let the rule be optional, and its key read request\.price\.currency\./
          ]
        ),
        [
          'a cost that is none',
          policy => withRules({ budget: { cost: 5 } }, policy),
          /policy\.rules\[\d+\]\.cost: 5 is wrong\. Write a function or/
        ],
        [
          'a cost by what leads nowhere',
          policy => withRules({ budget: { cost: { value: 'request.price.amount' } } }, policy),
          /policy\.rules\[\d+\]\.cost\.value \("request\.price\.amount"\) is nothing that this rule can read/
        ],
        ...(
          [
            [null, 'limits: null'],
            [{ max: 1, window: '60s' }, 'limits: '],
            [[null], 'limits\\[0\\]: null'],
            [[{ max: null, window: '60s' }], 'limits\\[0\\]\\.max: null']
          ] as const
        ).map(([limits, at]): [string, (policy: Policy) => object, RegExp] => [
          `limits that are none: ${JSON.stringify(limits)}`,
          withRecipient(limits),
          new RegExp(` policy\\.rules\\[\\d+\\]\\.${at}.* is wrong\\. `)
        ]),
        [
          'a purpose that nobody can ask for',
          p => ({ ...p, purposes: { ...p.purposes, ['__proto__']: p.purposes.login } }),
          /policy\.purposes\.__proto__ /
        ],
        ['a member', p => ({ ...p, colour: 'red' }), /policy\.colour/]
      ]
      for (const [what, change, says] of wrong) {
        // An operator may try 60 times a minute.
        place.advance(2_000)
        write(change)
        const { status, body } = await reload(app)
        t.match({ status, code: body.code }, { status: 422, code: 'RELOAD_REFUSED' }, what)
        t.match(body.detail, says)
      }
      write(policy => ({
        ...withRecipient([{ max: 0, window: '60s' }])(policy),
        code: { ...policy.code, digits: 8 },
        purposes: { pay: { action: { en: 'pay', zh: '付款' } } }
      }))
      t.equal((await reload(app)).status, 422)
      t.same(app.policy, loadPolicy(), 'no other part of a policy with a wrong rule is in force')
      writeFileSync(file, '{')
      t.equal((await reload(app)).status, 422)
      t.equal((await ask(app)).status, 202)
      t.match(await ask(app), { status: 429, body: { 'violated-policies': ['recipient-60s'] } })
      write(policy => ({ ...policy, code: { ...policy.code, digits: 8 } }))
      t.equal((await reload(app)).status, 200)
    })

    await t.test(
      'codes that were sent before a reload stay valid; new codes and purposes follow the new policy',
      async t => {
        const { file, write } = policyFile(t)
        const place = await open(t)
        const app = await place.start({ POLICY_FILE: file, ADMIN_KEY })
        const { id } = (await ask(app)).body
        const code = lastCode(app, '+8613800138000')
        t.match(await ask(app, { purpose: 'pay' }), { status: 422, body: { code: 'PURPOSE_UNKNOWN' } })
        write(policy => ({
          ...policy,
          code: { ...policy.code, digits: 8 },
          purposes: { ...policy.purposes, pay: { action: { en: 'pay', zh: '付款' } } }
        }))
        t.equal((await reload(app)).status, 200)
        place.advance(60_000)
        t.equal((await verify(app, id, code)).status, 200)
        t.equal((await ask(app, { purpose: 'pay' })).status, 202)
        t.match(app.outbox?.messages[0]?.text, /(?<!\d)\d{8}(?!\d).* pay/)
      }
    )

    await t.test('a purpose may have its own settings of codes, all or some of them', async t => {
      const policy = loadPolicy()
      const action = { en: 'pay', zh: '付款' }
      const pay = { action, code: { digits: 8, lifetimeSeconds: 120, tries: 2, resend: 'reuse' as const } }
      const withdraw = { action, code: { tries: 1 } }
      const place = await open(t)
      const app = await place.start({}, { policy: { ...policy, purposes: { pay, withdraw } } })
      const text = () => app.outbox?.messages[0]?.text ?? ''
      const left = ({ expiresAt, resendAt }: { expiresAt: string; resendAt: string }) =>
        Date.parse(expiresAt) - Date.parse(resendAt)

      const { body } = await ask(app, { purpose: 'pay' })
      const [first = ''] = /\d{8}/.exec(text()) ?? []
      t.match(text(), '2 min')
      t.equal(left(body), 60_000)
      place.advance(60_000)
      t.match(await resend(app, body.id), { status: 202, body: { expiresAt: body.expiresAt } })
      t.match(text(), first, 'the same code')
      t.match(await verify(app, body.id, '0000'), { status: 422, body: { triesLeft: 1 } })
      t.match(await verify(app, body.id, '0000'), { status: 422, body: { triesLeft: 0 } })
      t.equal((await verify(app, body.id, first)).status, 422)

      place.advance(60_000)
      const other = await ask(app, { purpose: 'withdraw' })
      t.match(text(), /(?<!\d)\d{6}(?!\d)/)
      t.equal(left(other.body), 240_000)
      t.match(await verify(app, other.body.id, '0000'), { status: 422, body: { triesLeft: 0 } })
    })

    await t.test('codes of a purpose that was removed still verify, but are not resent', async t => {
      const { file, write } = policyFile(t)
      const place = await open(t)
      const app = await place.start({ POLICY_FILE: file, ADMIN_KEY })
      const { id } = (await ask(app, { purpose: 'login' })).body
      const code = lastCode(app, '+8613800138000')
      const { login: _, ...purposes } = loadPolicy().purposes
      write(policy => ({ ...policy, purposes }))
      t.equal((await reload(app)).status, 200)
      place.advance(60_000)
      const refused = await resend(app, id)
      t.match(refused, { status: 422, body: { code: 'PURPOSE_UNKNOWN', known: Object.keys(purposes) } })
      t.notOk(refused.body.errors, 'a resend has no purpose in its body that an error could point to')
      for (const purpose of ['login', 'constructor']) {
        const unknown = { status: 422, body: { code: 'PURPOSE_UNKNOWN', errors: [{ pointer: '#/purpose' }] } }
        t.match(await ask(app, { purpose }), unknown, purpose)
      }
      t.match(await status(app, id), { status: 200, body: { purpose: 'login', delivery: 'accepted' } })
      t.equal((await verify(app, id, code, { purpose: 'login' })).status, 200)
    })
  })
}

t.test('an action that does not fit into the mail of a code is refused', t => {
  const templates = loadTemplates()
  const render = ((channel, ...rest) => {
    if (channel === 'mail') throw new Error('too long')
    return templates.render(channel, ...rest)
  }) as typeof templates.render
  t.throws(() => loadPolicy(undefined, { ...templates, render }), {
    message: /^policy\.purposes\.register\.action\.en .* no mail/
  })
  t.end()
})

t.test('actions are tried in the messages of their language, with the longest code and lifetime', t => {
  const { file, write } = policyFile(t)
  write(({ code, purposes: { register, login }, ...policy }) => ({
    ...policy,
    code: { ...code, digits: 10, lifetimeSeconds: 600 },
    purposes: { register, login: { ...login, code: { digits: 4, lifetimeSeconds: 60 } } }
  }))
  const templates = loadTemplates()
  const seen: unknown[] = []
  const render = ((channel, name, locale, given, own) => {
    seen.push([channel, locale, own])
    return templates.render(channel, name, locale, given, own)
  }) as typeof templates.render
  loadPolicy(file, { ...templates, render })
  for (const channel of ['sms', 'mail'])
    for (const [locale, action] of [
      ['en', 'register'],
      ['zh', '注册']
    ])
      t.match(seen.shift(), [channel, locale, { code: '0'.repeat(10), action, minutes: 10 }])
  t.match(
    seen.shift(),
    ['sms', 'en', { code: '0000', action: 'log in', minutes: 1 }],
    'a purpose with a code of its own is tried with that'
  )
  t.end()
})

t.test('a wrong rule ends the start with its place in the policy', async t => {
  const policy = withRecipient([{ max: 0, window: '60s' }])(loadPolicy()) as Policy
  await t.rejects((await places.memory(t)).start({}, { policy }), {
    name: 'ConfigError',
    message: /^policy\.rules\[\d+\]\.limits\[0\]\.max: /
  })
})

t.test('rules that only observe refuse nothing, and the log says which', async t => {
  const { file, write } = policyFile(t)
  const { lines, stream } = logStream()
  const env = { POLICY_FILE: file, ADMIN_KEY, LOG_LEVEL: 'warn' }
  const app = await (await places.memory(t)).start(env, { logStream: stream })
  t.notMatch(lines.join(''), 'observe')
  write(policy => ({ ...policy, rules: policy.rules.map(rule => ({ ...rule, mode: 'observe' })) }))
  t.equal((await reload(app)).status, 200)
  t.match(lines.join(''), /policy\.rules: ip-attempts, .*, mail only observe, and refuse nothing/)
  for (let i = 0; i < 100; i++) t.equal((await ask(app)).status, 202)
})

t.test('a byte order mark at the start of the policy file is ignored', t => {
  const { file } = policyFile(t)
  writeFileSync(file, `\ufeff${JSON.stringify(loadPolicy())}`)
  t.same(loadPolicy(file), loadPolicy())
  t.end()
})

t.test('a policy file that is missing is named', async t => {
  const message = /^POLICY_FILE cannot be read: ENOENT/
  t.throws(() => loadPolicy('/nowhere/policy.json'), { name: 'ConfigError', message })
})

t.test('a policy file with a member twice is refused: only one of the two would be in force', t => {
  const { file } = policyFile(t)
  const own = JSON.stringify(loadPolicy())
  t.match(own, '"rules":[{"name":')
  for (const [text, path] of [
    [own.replace('"rules":[{', '"rules":[{"name":"ip",'), 'rules[0].name'],
    [
      own.replace('"purposes":{', '"purposes":{"a":{},"b":[{"x":1},{"x":":"},"x"],"\\u0061":{},'),
      'purposes.a'
    ],
    [own.replace('"code":{', '"code":{"digits": 6 , '), 'code.digits']
  ] as const) {
    t.not(text, own)
    writeFileSync(file, text)
    const message = `POLICY_FILE cannot be read: it has a member twice: ${path}`
    t.throws(() => loadPolicy(file), { name: 'ConfigError', message })
  }
  t.end()
})

t.test('a policy file that is not UTF-8 is refused, rather than sent with other characters', t => {
  const { file, write } = policyFile(t)
  const action = { en: 'caf\u00e9', zh: '\u767b\u5f55' }
  write(policy => ({ ...policy, purposes: { login: { action } } }))
  t.match(loadPolicy(file).purposes.login, { action })
  writeFileSync(file, readFileSync(file, 'utf8').replace('\u767b\u5f55', 'x'), 'latin1')
  t.throws(() => loadPolicy(file), { name: 'ConfigError', message: /^POLICY_FILE cannot be read: .*utf-8/ })
  t.end()
})

t.test('a reload refuses a policy file that is a pipe, and does not wait for it', async t => {
  const { file } = policyFile(t)
  const app = await (await places.memory(t)).start({ POLICY_FILE: file, ADMIN_KEY })
  rmSync(file)
  spawnSync('mkfifo', [file])
  t.match(await reload(app), { status: 422, body: { code: 'RELOAD_REFUSED', reason: /a pipe/ } })
  t.equal((await ask(app)).status, 202)
})

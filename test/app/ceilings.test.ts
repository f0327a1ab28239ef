import t from 'tap'
import { WRONG_CODES } from '../../app/captcha/wrong-codes.js'
import { check } from '../../app/check.js'
import { loadPolicy } from '../../app/policy.js'
import { PolicySchema } from '../../app/policy-schema.js'
import { SendError } from '../../app/senders/sender.js'
import { gate } from '../helper/gate.js'
import { ask, askMail, cancel, E164, resend, status, verify, wrong } from './captcha.js'
import { operationsOf } from './fuzz/operations.js'
import { type App, inject, lastCode, places, post, putOnList, withRules } from './helper.js'
import { provider } from './provider.js'

const DAY_MINUTES = 1_440

/** Guesses at a code until it has ended, or guessing is refused. @returns how many guesses there were */
async function guess(app: App, id: string, remoteAddress: string): Promise<number> {
  for (let guesses = 0; ; guesses++) {
    const { status, body } = await verify(app, id, wrong(lastCode(app, E164)), {}, { remoteAddress })
    if (status !== 422) return guesses
    if (body.triesLeft === 0) return guesses + 1
  }
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('fifty guesses a day are made at one recipient, from however many networks', async t => {
      const place = await open(t)
      const app = await place.start()
      let guesses = 0
      for (let minute = 0; minute < DAY_MINUTES; minute += 20) {
        const remoteAddress = `198.51.100.${minute / 20}`
        const { status, body } = await ask(app, {}, { remoteAddress })
        if (status === 202) guesses += await guess(app, body.id, remoteAddress)
        place.advance(20 * 60_000)
      }
      t.equal(guesses, 50)
    })

    await t.test(
      'guesses at many recipients are limited by the codes alone, and counted as wrong',
      async t => {
        const app = await (await open(t)).start()
        for (let i = 10; i < 20; i++) {
          const from = { remoteAddress: `198.51.100.${i}` }
          const phone = `138${i}138000`
          const { id } = (await ask(app, { phone }, from)).body
          const bad = wrong(lastCode(app, `+86${phone}`))
          for (let tries = 0; tries < 5; tries++)
            t.match(await verify(app, id, bad, {}, from), { status: 422, body: { triesLeft: 4 - tries } })
        }
        const metrics = (await app.inject('/metrics')).payload
        t.match(metrics, /^verifications_total\{.*outcome="wrong"\} 50$/m)
        t.notMatch(metrics, /^limit_refusals_total\{/m)
      }
    )

    await t.test('codes that a provider refuses or limits are limited by whose they are', async t => {
      for (const [outcome, answer] of [
        ['refused', 422],
        ['limited', 429]
      ] as const) {
        const sms = provider()
        const place = await open(t)
        const app = await place.start({ BACKENDS: '192.0.2.1' }, { senders: { sms } })
        let asked = 0
        const next = (endUserIp: string) =>
          ask(
            app,
            { phone: `138001${String(asked++ * 450).padStart(5, '0')}` },
            { headers: { 'x-end-user-ip': endUserIp } }
          )
        for (let i = 0; i < 3; i++) t.equal((await next('2001:db8::1')).status, 202)
        sms.fail(outcome)
        for (let i = 0; i < 20; i++) t.equal((await next(`2001:db8::${i}`)).status, answer)
        sms.work()
        t.match(await next('2001:db8::1'), {
          status: 429,
          body: { 'violated-policies': ['send-failures-1h'] }
        })
        t.equal(sms.messages.length, 23)
        t.equal((await next('2001:db8:0:1::1')).status, 202)
        place.advance(3_600_001)
        t.equal((await next('2001:db8::1')).status, 202)
      }
    })

    await t.test(
      'codes that fail otherwise, or whose purpose is concealed, are no such refusals',
      async t => {
        const sms = provider()
        const app = await (await open(t)).start({ BACKENDS: '192.0.2.1' }, { senders: { sms } })
        const next = (i: number, purpose = 'register') =>
          ask(
            app,
            { phone: `138001${10_000 + i * 450}`, purpose },
            { headers: { 'x-end-user-ip': '198.51.100.1' } }
          )
        sms.fail('failed')
        for (let i = 0; i < 30; i++) t.equal((await next(i)).status, 502)
        sms.fail('refused')
        for (let i = 30; i < 35; i++) t.equal((await next(i, 'reset-password')).status, 202)
        t.match(await next(35, 'reset-password'), { status: 429, body: { 'violated-policies': ['ip'] } })
      }
    )

    await t.test('a policy limits an IPv4 /24, and blocks networks', async t => {
      const key = { ip: 'request.endUserIp', ipv6Prefix: 48, ipv4Prefix: 24 }
      const policy = withRules({
        'ip-site': { key, limits: [{ max: 2, window: '1h' }] },
        ip: { block: ['203.0.113.0/24', '2001:db8::/32'] }
      })
      const app = await (await open(t)).start({}, { policy })
      const from = (remoteAddress: string, phone: string) => ask(app, { phone }, { remoteAddress })
      t.equal((await from('198.51.100.1', '13800138000')).status, 202)
      t.equal((await from('198.51.100.2', '13700137000')).status, 202)
      t.match(await from('198.51.100.3', '13600136000'), {
        status: 429,
        body: { 'violated-policies': ['ip-site'] }
      })
      t.equal((await from('198.51.101.3', '13600136000')).status, 202)
      for (const blocked of ['203.0.113.9', '2001:db8:1::1'])
        t.match(await from(blocked, '13500135000'), { status: 403, body: { 'violated-policies': ['ip'] } })
    })

    await t.test('if codes are not limited a hundred guesses are made, then no code verifies', async t => {
      const place = await open(t)
      const app = await place.start()
      await putOnList(app, 'allowed', E164)
      let guesses = 0
      for (let network = 1; network < 20; network++) {
        const remoteAddress = `198.51.100.${network}`
        const { id } = (await ask(app, {}, { remoteAddress })).body
        guesses += await guess(app, id, remoteAddress)
        place.advance(60_000)
      }
      const right = (await ask(app)).body
      const code = lastCode(app, E164)
      const last = { remoteAddress: '198.51.100.20' }
      guesses += await guess(app, (await ask(app, {}, last)).body.id, last.remoteAddress)
      t.equal(guesses, 100)
      t.match(await verify(app, right.id, code), {
        status: 429,
        body: { 'violated-policies': ['verify-failures-recipient'] }
      })
      t.match(await ask(app), { status: 429, body: { 'violated-policies': ['wrong-codes'] } })
      place.advance(DAY_MINUTES * 60_000)
      const next = (await ask(app)).body.id
      t.equal((await verify(app, next, lastCode(app, E164))).status, 200)
    })

    await t.test('one address uses up a quarter of a number range in an hour, all of it in ten', async t => {
      const place = await open(t)
      const app = await place.start()
      for (let minute = 0; minute < 600; minute += 10) {
        const i = minute / 10
        const { status } = await ask(app, { phone: `139000000${String(i).padStart(2, '0')}` })
        t.equal(status, i % 6 < 5 ? 202 : 429)
        place.advance(10 * 60_000)
      }
      const other = { remoteAddress: '198.51.100.1' }
      t.match(await ask(app, { phone: '13900000999' }, other), {
        status: 429,
        body: { 'violated-policies': ['number-range-24h'] }
      })
      t.equal((await ask(app, { phone: '13900001000' }, other)).status, 202, 'a number of the next range')
    })

    await t.test('a hundred guesses are made if resends fail while codes are guessed at', async t => {
      const place = await open(t)
      const sms = provider()
      const app = await place.start({}, { senders: { sms } })
      const { id } = (await ask(app, {}, { remoteAddress: '203.0.113.0' })).body
      place.advance(60_000)
      let guesses = 0
      for (let round = 1; round <= 30; round++) {
        const [begun, guessed] = [gate(), gate()]
        sms.does(async () => {
          begun.open()
          await guessed.opened
          throw new SendError('limited')
        })
        const resent = resend(app, id, { remoteAddress: `203.0.113.${round}` })
        await Promise.race([begun.opened, resent])
        for (let i = 0; i < 4; i++) {
          const remoteAddress = `198.18.${round}.${i}`
          const { status } = await verify(app, id, wrong(sms.lastCode()), {}, { remoteAddress })
          if (status === 422) guesses++
        }
        guessed.open()
        t.equal((await resent).status, 429)
      }
      t.equal(guesses, 100)
    })
  })
}

const headers = { 'x-admin-key': 'the key of the operator of these tests' }
const operate = (app: App, action: string) =>
  post(app, `/v1/admin/recipients/${action}`, { phone: '13900139000' }, { headers })
const params = { order: 'A-17' }
const endpoints = {
  send: (app: App) => ask(app, { phone: '13700137000' }),
  resend,
  status,
  cancel,
  verify: (app: App, id: string) => verify(app, id, '000000'),
  sms: (app: App) => post(app, '/v1/sms', { phone: E164, template: 'order-shipped', params }),
  mail: (app: App) => post(app, '/v1/mail', { to: 'jane@example.com', template: 'order-shipped', params }),
  lookup: (app: App) => operate(app, 'lookup'),
  block: (app: App) => operate(app, 'block'),
  allow: (app: App) => operate(app, 'allow'),
  unblock: (app: App) => operate(app, 'unblock'),
  list: (app: App) => inject(app, { url: '/v1/admin/recipients', headers }),
  quota: (app: App) => inject(app, { url: '/v1/quota' }),
  reload: (app: App) => inject(app, { method: 'POST', url: '/v1/admin/reload', headers })
}

/** Which endpoints each rule of the policy limits. */
const holds: Record<string, (keyof typeof endpoints)[]> = {
  'ip-attempts': ['send', 'resend', 'status', 'cancel'],
  'verify-attempts': ['verify'],
  'api-attempts': ['sms', 'mail', 'quota'],
  'admin-attempts': ['lookup', 'block', 'allow', 'unblock', 'list', 'reload'],
  ip: ['send', 'resend'],
  'ip-site': ['send', 'resend'],
  'ip-recipients': ['send', 'resend'],
  recipient: ['send', 'resend'],
  'recipient-network': ['send', 'resend'],
  'number-range': ['send', 'resend'],
  unverified: ['send', 'resend'],
  'send-failures': ['send', 'resend'],
  account: ['send', 'resend', 'sms', 'mail'],
  country: ['send', 'resend', 'sms'],
  service: ['send', 'resend', 'sms', 'mail'],
  budget: ['send', 'resend', 'sms', 'mail'],
  'verify-failures': ['send', 'resend', 'verify'],
  'verify-failures-recipient': ['send', 'resend', 'verify'],
  'same-content': ['sms', 'mail'],
  mobile: ['sms'],
  mail: ['mail']
}

t.test('each rule of the policy limits these endpoints and no others', async t => {
  let used = ''
  const policy = loadPolicy()
  const rules = policy.rules.map(rule => {
    const max = () => (used === rule.name ? 0 : ceiling)
    const ceiling = rule.distinct ? 100 : 1_000
    const limits = [{ max, ceiling, window: '60s' }]
    return rule.lock !== undefined ? rule : { ...rule, cost: undefined, limits }
  })
  const env = { ADMIN_KEY: headers['x-admin-key'] }
  const countryQuotas = { default: 100 }
  const app = await (await places.memory(t)).start(env, { policy: { ...policy, countryQuotas, rules } })
  const counting = policy.rules.flatMap(({ name, lock }) => (lock ? [] : name))
  t.same(Object.keys(holds).sort(), counting.sort(), '`holds` has every rule but locks')
  const { operations } = operationsOf(app)
  const all = operations.filter(({ path }) => path.startsWith('/v1/') && path !== '/v1/dev/outbox')
  t.equal(Object.keys(endpoints).length, all.length, '`endpoints` has every operation under /v1')
  for (const [rule, held] of Object.entries(holds)) {
    // A code of its own for each rule, since a resend of one that was cancelled is not counted.
    used = ''
    const { id } = (await ask(app)).body
    used = rule
    const refused = []
    for (const [name, call] of Object.entries(endpoints)) {
      // It would read the policy file, in which no limit is used up.
      if (name === 'reload' && rule !== 'admin-attempts') continue
      const { status, body } = await call(app, id)
      // A filter answers 403 where waiting does not help.
      if (status === 429 || status === 403) refused.push([name, body['violated-policies']])
    }
    const named = (name: string) => (WRONG_CODES.includes(rule) && name !== 'verify' ? 'wrong-codes' : rule)
    t.same(
      refused,
      held.map(name => [name, [named(name)]]),
      `what \`holds\` says of ${rule}, the config.limit of these endpoints says`
    )
  }
})

t.test('a blocked recipient is sent nothing by any endpoint', async t => {
  const app = await (await places.memory(t)).start()
  const [{ body: sms }, { body: mail }] = [await ask(app), await askMail(app, 'jane@example.com')]
  for (const identity of [E164, 'jane@example.com']) {
    await putOnList(app, 'blocked', identity)
  }
  const { length } = app.outbox?.messages ?? []
  const calls = [ask(app), askMail(app, 'jane@example.com'), resend(app, sms.id), resend(app, mail.id)]
  for (const answer of await Promise.all([...calls, endpoints.sms(app), endpoints.mail(app)])) {
    t.match(answer, { status: 403, body: { 'violated-policies': ['block-list'] } })
  }
  t.equal(app.outbox?.messages.length, length)
})

t.test('no policy lets a code live longer than ten minutes, or be tried more than ten times', async t => {
  const policy = loadPolicy()
  const withCode = (code: object) =>
    check(PolicySchema, { ...policy, code: { ...policy.code, ...code } }, 'policy')
  t.doesNotThrow(() => withCode({ lifetimeSeconds: 600, tries: 10 }))
  t.throws(() => withCode({ lifetimeSeconds: 601 }), {
    message: /^policy\.code\.lifetimeSeconds \(601\) must be <= 600/
  })
  t.throws(() => withCode({ tries: 11 }), { message: /^policy\.code\.tries \(11\) must be <= 10/ })
  const pay = (code: object) => () =>
    check(PolicySchema, { ...policy, purposes: { pay: { action: { en: 'pay' }, code } } }, 'policy')
  t.doesNotThrow(pay({ tries: 10 }))
  t.throws(pay({ tries: 11 }), { message: /^policy\.purposes\.pay\.code\.tries \(11\) must be <= 10/ })
  t.throws(pay({ lifetimeSeconds: 601 }), {
    message: /^policy\.purposes\.pay\.code\.lifetimeSeconds \(601\)/
  })
  t.throws(pay({ length: 8 }), { message: /^policy\.purposes\.pay\.code\.length is not known here/ })
})

t.test('by the policy as shipped a code has six digits, five minutes and five tries', async t => {
  t.match(loadPolicy().code, { digits: 6, lifetimeSeconds: 300, tries: 5 })
})

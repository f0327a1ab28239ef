import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import { logStream } from '../helper/log-stream.js'
import { ask, askMail, cancel, resend, verify, wrong } from './captcha.js'
import { ADMIN_KEY, type App, type Place, places, post, putOnList, withRules } from './helper.js'
import { provider } from './provider.js'

/** The policy as shipped, but with two codes that may be unverified in a block of numbers. */
function policyOf(changed: Partial<Policy['code']> = {}): Policy {
  const policy = withRules({ unverified: { limits: [{ max: 2, window: '1h' }] } })
  return { ...policy, code: { ...policy.code, ...changed } }
}

/** An app whose messages the test controls. `next` asks for a code for a number of the block not asked for before. */
async function start(place: Place, policy = policyOf()) {
  const sms = provider()
  const app = await place.start({ ADMIN_KEY }, { senders: { sms }, policy })
  let asked = 0
  const next = (purpose = 'register') => {
    const i = asked++
    // From one end of the block to the other, so that no range is used up; from as many addresses.
    const phone = `139000${String(i * 450).padStart(5, '0')}`
    return ask(app, { phone, purpose }, { remoteAddress: `198.51.100.${i}` })
  }
  return { app, sms, next }
}

/** The code in the message at this place, counted from the end if it is negative. */
const codeAt = ({ messages }: ReturnType<typeof provider>, at: number) =>
  /\d{6}/.exec(messages.at(at)?.text ?? '')?.[0] ?? ''

/** Verifies the code, and waits until it is given back. */
async function verified(app: App, id: string, code: string) {
  const { status } = await verify(app, id, code)
  await app.unfinished()
  return status
}

const REFUSED = { status: 429, body: { 'violated-policies': [/^unverified/] } }

t.test(
  'as shipped, of a hundred thousand numbers in a row two hundred codes an hour may stay unverified',
  async t => {
    const { app, sms, next } = await start(await places.memory(t), loadPolicy())
    for (let i = 0; i < 3; i++) {
      const { body } = await next()
      t.equal(await verified(app, body.id, sms.lastCode()), 200)
    }
    const answers = []
    for (let i = 0; i < 200; i++) answers.push(await next())
    t.same(new Set(answers.map(({ status }) => status)), new Set([202]))
    t.match(await next(), { status: 429, body: { 'violated-policies': ['unverified-1h'] } })
    t.equal((await ask(app, { phone: '13901000000' })).status, 202, 'a number of another block')
    t.equal((await askMail(app)).status, 202, 'mail addresses are in no block')
    t.equal(await verified(app, answers.at(-1)?.body.id, codeAt(sms, -2)), 200)
    t.equal((await next()).status, 202, 'a code was verified')
    t.match(await next(), REFUSED)
  }
)

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a code that is verified is given back with its resends, however it is resent', async t => {
      for (const how of ['rotate', 'reuse'] as const) {
        const place = await open(t)
        const { app, sms, next } = await start(place, policyOf({ resend: how }))
        const { id } = (await next()).body
        place.advance(60_000)
        t.equal((await resend(app, id)).status, 202)
        t.match(await next(), REFUSED, 'each message counts')
        const code = sms.lastCode()
        t.equal(await verified(app, id, wrong(code)), 422)
        t.match(await next(), REFUSED)
        t.equal(await verified(app, id, code), 200)
        t.equal(await verified(app, id, code), 422, 'a code is verified once')
        t.same([(await next()).status, (await next()).status], [202, 202])
        t.match(await next(), REFUSED)
      }
    })

    await t.test('a code whose message may have gone out counts until it is verified', async t => {
      const { app, sms, next } = await start(await open(t))
      sms.fail('failed')
      for (let i = 0; i < 3; i++)
        t.equal((await next()).status, 502, 'a code that was not sent does not count')
      sms.fail('unknown')
      const [{ body }, other] = [await next(), await next()]
      t.equal(other.status, 504)
      t.match(await next(), REFUSED)
      sms.work()
      const code = codeAt(sms, -2)
      t.equal(await verified(app, body.id, code), 200)
      t.equal((await next()).status, 202)
    })

    await t.test('a code of a concealed purpose counts alike', async t => {
      const { app, sms, next } = await start(await open(t))
      const { id } = (await next('reset-password')).body
      await app.unfinished()
      await next('reset-password')
      t.match(await next('reset-password'), REFUSED)
      t.equal(await verified(app, id, codeAt(sms, 0)), 200)
      t.equal((await next('reset-password')).status, 202)
    })

    await t.test('a message of a concealed purpose that is not sent is given back alike', async t => {
      for (const how of ['rotate', 'reuse'] as const) {
        const place = await open(t)
        const { app, sms, next } = await start(place, policyOf({ resend: how }))
        sms.fail('limited')
        const { id } = (await next('reset-password')).body
        await app.unfinished()
        sms.work()
        place.advance(60_000)
        t.equal((await resend(app, id)).status, 202)
        await app.unfinished()
        t.match(await next(), REFUSED, 'both count')
        t.equal(await verified(app, id, sms.lastCode()), 200)
        t.same([(await next()).status, (await next()).status], [202, 202])
      }
    })

    await t.test('a code that is verified before the provider has answered is given back', async t => {
      const { app, sms, next } = await start(await open(t))
      const { held, letGo } = sms.hold()
      const { id } = (await next('reset-password')).body
      await held
      t.equal((await verify(app, id, codeAt(sms, 0))).status, 200)
      letGo()
      await app.unfinished()
      sms.work()
      t.same([(await next()).status, (await next()).status], [202, 202])
      t.match(await next(), REFUSED)
    })

    await t.test(
      'a code that is cancelled stays counted, and so does one of which nothing is sent',
      async t => {
        const { app, sms, next } = await start(await open(t))
        t.equal((await cancel(app, (await next()).body.id)).status, 204)
        await app.unfinished()
        const asked = { phone: '13900000001', purpose: 'reset-password', send: false }
        t.equal((await ask(app, asked)).status, 202)
        await app.unfinished()
        t.match(await next(), REFUSED)
        t.equal(sms.messages.length, 1)
      }
    )

    await t.test('a look-up shows what is used of a block, and an unblock clears nothing of it', async t => {
      const { app, sms, next } = await start(await open(t))
      const asking = async (act: string) => {
        const headers = { 'x-admin-key': ADMIN_KEY }
        const answer = await post(app, `/v1/admin/recipients/${act}`, { phone: '13900099999' }, { headers })
        return answer.body
      }
      const shown = async () =>
        (await asking('lookup')).rules.filter(({ rule }: { rule: string }) => rule === 'unverified')
      const { id } = (await next()).body
      await next()
      await asking('unblock')
      t.match(await shown(), [{ max: 2, used: 2, remaining: 0, windowMs: 3_600_000, refuses: true }])
      t.match(await next(), REFUSED)
      t.equal(await verified(app, id, codeAt(sms, 0)), 200)
      t.match(await shown(), [{ used: 1, refuses: false }])
    })

    await t.test(
      'whom the operator allows does not pass a rule that counts by more than the block',
      async t => {
        const key = [{ value: 'request.numberBlock' }, { value: 'request.purpose' }]
        const policy = withRules({ unverified: { key } }, policyOf())
        const { app, next } = await start(await open(t), policy)
        t.same([(await next()).status, (await next()).status], [202, 202])
        t.match(await next(), REFUSED)
        t.equal((await next('login')).status, 202, 'another purpose has its own count')
        await putOnList(app, 'allowed', '+8613900000001')
        t.match(await ask(app, { phone: '13900000001' }), REFUSED)
      }
    )

    await t.test('keyed by the country, the rule counts all of its numbers that nobody verifies', async t => {
      const key = { value: 'request.limitedCountry' }
      const policy = { ...withRules({ unverified: { key } }, policyOf()), countryQuotas: { CN: 1_000 } }
      const { app, sms } = await start(await open(t), policy)
      const { id } = (await ask(app, { phone: '13900000001' })).body
      t.equal((await ask(app, { phone: '13700000001' })).status, 202)
      t.match(await ask(app, { phone: '13800000001' }), REFUSED)
      t.equal((await ask(app, { phone: '+6581234567' })).status, 202, 'of a country without a quota')
      t.equal(await verified(app, id, codeAt(sms, 0)), 200)
      t.equal((await ask(app, { phone: '13800000001' })).status, 202)
    })

    await t.test('numbers in a row are blocked by the policy', async t => {
      const policy = withRules({
        unverified: { block: ['+86139000'] },
        'number-range': { block: ['+8613700001'] }
      })
      const { app, sms } = await start(await open(t), policy)
      for (const [phone, rule] of [
        ['13900099999', 'unverified'],
        ['13700001999', 'number-range']
      ] as const)
        t.match(await ask(app, { phone }), { status: 403, body: { 'violated-policies': [rule] } })
      t.same(sms.messages, [])
      for (const phone of ['13900100000', '13700002000'])
        t.equal((await ask(app, { phone })).status, 202, 'the next in the row')
    })

    await t.test('a number that the operator allows is not counted', async t => {
      const { app, next } = await start(await open(t))
      await putOnList(app, 'allowed', '+8613900000001')
      t.equal((await ask(app, { phone: '13900000001' })).status, 202)
      t.same([(await next()).status, (await next()).status], [202, 202])
      t.match(await next(), REFUSED)
    })

    await t.test(
      'if it cannot be given back, the code is verified all the same, and the log says so',
      async t => {
        const { lines, stream } = logStream()
        const place = await open(t)
        const sms = provider()
        const app = await place.start({ LOG_LEVEL: 'warn' }, { senders: { sms }, logStream: stream })
        const { body } = await ask(app)
        app.limit.refund = async () => {
          throw new Error('no store')
        }
        t.equal(await verified(app, body.id, sms.lastCode()), 200)
        t.match(
          lines.map(line => JSON.parse(line)),
          [{ msg: 'a verified code still counts as unverified', err: { message: 'no store' } }]
        )
      }
    )
  })
}

import type { ServerResponse } from 'node:http'
import t from 'tap'
import type { AuditEvent } from '../../app/audit/event.js'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import { SendError } from '../../app/senders/sender.js'
import { heardOn } from '../helper/channel.js'
import { until } from '../helper/until.js'
import { ask, askMail, E164, PHONE, resend, status, verify } from './captcha.js'
import { type App, places, putOnList, withRules } from './helper.js'
import { provider } from './provider.js'

const purpose = 'reset-password'
const BLOCKED = '13900139000'
const ALLOWED = '+8613700137000'
const block = (app: App) => putOnList(app, 'blocked', '+8613900139000')

/** The policy with this way to resend a code, and with `max` codes a minute for one recipient. */
function policyOf(mode: 'rotate' | 'reuse', max: number): Policy {
  const policy = withRules({ recipient: { limits: [{ max, window: '60s' }] } })
  return { ...policy, code: { ...policy.code, resend: mode } }
}

/** Has the messages from now on wait, and then fail. @returns lets them fail */
function failsLater(sms: ReturnType<typeof provider>): () => void {
  let fail = () => {}
  const failing = new Promise<void>((_, reject) => (fail = () => reject(new SendError('failed'))))
  sms.does(() => failing)
  return () => fail()
}

/** What an answer tells, without what differs in each answer. */
function shapeOf({ status, body, headers }: Awaited<ReturnType<typeof ask>>) {
  const { id: _, recipient: __, instance: ___, ...told } = body
  const { date: ____, ...rest } = headers
  return { status, told, headers: rest }
}

/** How often each command was called in Redis since `before`; nothing without Redis. */
async function commands(app: App, before: Record<string, number> = {}): Promise<Record<string, number>> {
  if (!app.hasDecorator('redis')) return {}
  const calls = [...(await app.redis.info('commandstats')).matchAll(/cmdstat_(\S+?):calls=(\d+)/g)]
  return Object.fromEntries(
    calls
      .filter(([, name]) => name !== 'info')
      .map(([, name = '', n]) => [name, Number(n) - (before[name] ?? 0)])
  )
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    const start = async () => {
      const place = await open(t)
      const sms = provider()
      const app = await place.start({}, { senders: { sms } })
      await block(app)
      return { place, sms, app }
    }

    await t.test('a code stays concealed when its purpose is removed or conceals no more', async t => {
      const { place, app } = await start()
      const answers = [await ask(app, { purpose, phone: PHONE }), await ask(app, { purpose, phone: BLOCKED })]
      await app.unfinished()
      const { purposes, ...policy } = app.policy
      const { [purpose]: own, ...others } = purposes
      const open = { ...own, conceal: false } as NonNullable<typeof own>
      for (const now of [others, { ...others, [purpose]: open }]) {
        app.replacePolicy({ ...policy, purposes: now })
        for (const { body } of answers) t.match((await status(app, body.id)).body, { delivery: 'accepted' })
      }
      place.advance(60_001)
      for (const { body } of answers) t.equal((await resend(app, body.id)).status, 202)
    })

    await t.test('a resend is concealed if its purpose conceals by then', async t => {
      const { place, sms, app } = await start()
      const { policy } = app
      const open = { ...policy.purposes[purpose], conceal: false } as NonNullable<Policy['purposes'][string]>
      const unconcealed = { ...policy, purposes: { ...policy.purposes, [purpose]: open } }
      app.replacePolicy(unconcealed)
      const { id } = (await ask(app, { purpose })).body
      app.replacePolicy(policy)
      await putOnList(app, 'blocked', E164)
      place.advance(60_001)
      t.equal((await resend(app, id)).status, 202)
      await app.unfinished()
      t.equal(sms.messages.length, 1)
      t.match((await status(app, id)).body, { delivery: 'accepted' }, 'the status does not show it either')
      app.replacePolicy(unconcealed)
      t.match((await status(app, id)).body, { delivery: 'unknown' }, 'only as long as the purpose conceals')
    })

    await t.test('a blocked recipient is answered like any other, and nothing is sent', async t => {
      /** @returns what all answers about a code tell, how many messages went out, and what the store was asked */
      const walk = async (phone: string, send?: boolean) => {
        const { app, sms, place } = await start()
        const before = await commands(app)
        const asked = { purpose, phone, ...(send !== undefined && { send }) }
        const first = await ask(app, asked)
        const { id } = first.body
        const answers = [first, await ask(app, asked), await status(app, id)]
        answers.push(await verify(app, id, '000000'))
        place.advance(60_000)
        answers.push(await resend(app, id), await resend(app, id), await status(app, id))
        await app.unfinished()
        return {
          sent: sms.messages.length,
          answers: answers.map(shapeOf),
          asked: await commands(app, before)
        }
      }
      const known = await walk(PHONE)
      const suppressed = await walk(BLOCKED)
      t.same(suppressed.answers, known.answers)
      t.match(known.answers.at(-1), { told: { delivery: 'accepted' } })
      t.same(suppressed.asked, known.asked)
      t.same(
        known.answers.map(each => each.status),
        [202, 429, 200, 422, 202, 429, 200]
      )
      t.same([known.sent, suppressed.sent], [2, 0])
      const [withheld, told] = [await walk(PHONE, false), await walk(PHONE, true)]
      t.same([withheld.sent, told.sent], [0, 2])
      for (const each of [withheld, told]) t.same([each.answers, each.asked], [known.answers, known.asked])
    })

    await t.test('too many wrong codes hold up the next one alike, whoever the recipient is', async t => {
      const walk = async (phone: string, send = true) => {
        const { app, sms, place } = await start()
        await putOnList(app, 'allowed', ALLOWED)
        let id = ''
        for (let i = 0; i < 2; i++) {
          id = (await ask(app, { purpose, phone, send })).body.id
          for (let j = 0; j < 5; j++) await verify(app, id, '000000')
          place.advance(60_000)
        }
        const held = [await verify(app, id, '000000'), await ask(app, { purpose, phone, send })]
        held.push(await resend(app, id), await status(app, id))
        place.advance(3_600_000)
        const answers = [...held, await ask(app, { purpose, phone, send })]
        await app.unfinished()
        return { sent: sms.messages.length, answers: answers.map(shapeOf) }
      }
      const known = await walk(PHONE)
      t.same(
        known.answers.map(each => [each.status, each.told['violated-policies']]),
        [
          [429, ['verify-failures-1h']],
          [429, ['wrong-codes']],
          [429, ['wrong-codes']],
          [200, undefined],
          [202, undefined]
        ]
      )
      t.equal(known.sent, 3)
      for (const [other, sent] of [
        [await walk(PHONE, false), 0],
        [await walk(BLOCKED), 0],
        [await walk(ALLOWED), 3]
      ] as const)
        t.same(other, { ...known, sent })
    })

    await t.test('the audit trail tells why nothing was sent', async t => {
      const told = heardOn<AuditEvent>(t, 'verification-api:audit')
      const { app } = await start()
      for (const asked of [{ phone: BLOCKED }, { phone: PHONE, send: false }])
        await ask(app, { purpose, ...asked })
      await app.unfinished()
      const sends = told.filter(({ event }) => event === 'send')
      t.match(sends, [{ outcome: 'suppressed' }, { outcome: 'suppressed', code: 'WITHHELD' }])
      t.notOk('code' in (sends[0] ?? {}))
    })

    await t.test('send: false needs a key and a purpose that conceals', async t => {
      const { app, sms } = await start()
      const refused = { status: 422, body: { code: 'SEND_REQUIRED', errors: [{ pointer: '#/send' }] } }
      t.match(await ask(app, { purpose: 'login', send: false }), refused)
      const page = { 'x-api-key': '', origin: 'http://localhost:5173' }
      t.match(await ask(app, { purpose, send: false }, { headers: page }), refused)
      t.equal((await ask(app, { purpose: 'login', send: true })).status, 202)
      t.equal(sms.messages.length, 1)
    })

    await t.test('a blocked recipient is refused for a purpose that does not conceal', async t => {
      const { app, sms } = await start()
      t.match(await ask(app, { phone: BLOCKED }), {
        status: 403,
        body: { 'violated-policies': ['block-list'] }
      })
      t.same(sms.messages, [])
    })

    await t.test('for a concealed purpose it does not show that a recipient is allowed', async t => {
      const { app } = await start()
      await putOnList(app, 'allowed', '+8613800138000')
      t.equal((await ask(app, { purpose })).status, 202)
      t.equal((await ask(app, { purpose })).status, 429)
      t.equal((await ask(app)).status, 202, 'for another purpose the recipient is allowed')
    })

    await t.test('the answer does not wait for the message, and the lock is released', async t => {
      const { app, sms } = await start()
      const { letGo } = sms.hold()
      t.equal((await ask(app, { purpose })).status, 202)
      const second = await ask(app, { purpose })
      t.equal(second.status, 429)
      t.same(second.body['violated-policies'], ['recipient-60s'])
      t.equal(sms.messages.length, 1)
      letGo()
    })

    await t.test('refusals of the provider do not tell whether a message is being sent', async t => {
      const { app, sms } = await start()
      const next = (i: number, more: object) =>
        ask(app, { phone: `138001${10_000 + i * 450}`, ...more }, { remoteAddress: `2001:db8::${i}` })
      sms.fail('refused')
      for (let i = 1; i < 20; i++) t.equal((await next(i, {})).status, 422)
      const { held, letGo } = sms.hold()
      t.equal((await next(20, { purpose })).status, 202)
      await held
      t.equal((await next(21, { purpose, phone: BLOCKED })).status, 202, 'no slot of send-failures is held')
      letGo()
      await app.unfinished()
      sms.fail('unknown')
      t.equal((await next(22, { purpose })).status, 202)
      await app.unfinished()
      t.equal((await next(23, { purpose })).status, 202, 'nor kept')
      await app.unfinished()
    })

    await t.test('the message is sent once the answer has left', async t => {
      const { app, sms } = await start()
      let answer: ServerResponse | undefined
      app.server.on('request', (_request, response: ServerResponse) => {
        answer = response
        const { end } = response
        // The answer takes its time to leave.
        response.end = ((...args: Parameters<typeof end>) =>
          setImmediate(() => end.apply(response, args))) as never
      })
      const left: unknown[] = []
      sms.does(async () => void left.push(answer?.writableFinished))
      const url = await app.listen()
      const body = JSON.stringify({ phone: PHONE, purpose })
      const headers = { 'content-type': 'application/json' }
      t.equal((await fetch(`${url}/v1/captcha`, { method: 'POST', body, headers })).status, 202)
      await app.unfinished()
      t.same(left, [true])
    })

    await t.test('the message is sent although the client has hung up', async t => {
      const { app, sms } = await start()
      app.server.on('request', (_request, response: ServerResponse) => {
        response.end = (() => response.destroy()) as never
      })
      const url = await app.listen()
      const body = JSON.stringify({ phone: PHONE, purpose })
      const headers = { 'content-type': 'application/json' }
      await t.rejects(fetch(`${url}/v1/captcha`, { method: 'POST', body, headers }))
      await app.unfinished()
      t.equal(sms.messages.length, 1)
    })

    await t.test(
      'a request whose key or lock was lost while the machine stood still is 503: nothing is sent, and no code stays',
      async t => {
        const DAY = 86_400_000
        const told = heardOn<AuditEvent>(t, 'verification-api:audit')
        const { now } = Date
        t.teardown(() => {
          Date.now = now
        })
        for (const phone of [PHONE, BLOCKED])
          for (const [code, headers] of [
            ['IDEMPOTENCY_KEY_LOST', { 'idempotency-key': 'a-key' }],
            ['LOCK_LOST', {}]
          ] as const) {
            const { app, sms, place } = await start()
            let takenBack = 0
            const issue = app.captchas.start
            app.captchas.start = async asked => {
              const issued = await issue(asked)
              place.advance(DAY)
              Date.now = () => now() + DAY
              const undo = () => {
                takenBack++
                return issued.undo()
              }
              return { ...issued, undo }
            }
            t.match(await ask(app, { purpose, phone }, { headers }), { status: 503, body: { code } })
            Date.now = now
            await app.unfinished()
            t.same(sms.messages, [])
            t.equal(takenBack, 1)
            const sends = told.splice(0).filter(({ event }) => event === 'send')
            t.match(sends, [{ outcome: 'failed', code }])
            const counted = await app.metrics.registry.getSingleMetric('sends_total')?.get()
            const labels = { channel: 'sms', sender: 'none', outcome: 'failed' }
            t.same(counted?.values, [{ labels, value: 1 }], 'the metrics agree with the audit trail')
          }
      }
    )

    await t.test('the app closes once the messages under way are sent', async t => {
      const { app, sms } = await start()
      const order: string[] = []
      sms.does(() => new Promise(resolve => setImmediate(() => resolve(void order.push('sent')))))
      t.equal((await ask(app, { purpose })).status, 202)
      await app.close()
      t.same([...order, 'closed'], ['sent', 'closed'])
    })

    await t.test('a message that fails because of itself counts, as for a blocked recipient', async t => {
      const { app, sms } = await start()
      for (const [phone, outcome, details] of [
        [PHONE, 'failed', { code: 'TEMPLATE_UNKNOWN', ofMessage: true }],
        ['13700137000', 'refused', {}],
        ['13600136000', 'limited', {}],
        [BLOCKED, 'failed', {}]
      ] as const) {
        sms.fail(outcome, details)
        const { status: answered, body } = await ask(app, { purpose, phone })
        t.equal(answered, 202)
        await app.unfinished()
        t.equal((await ask(app, { purpose, phone })).status, 429, phone)
        t.equal((await status(app, body.id)).status, 200, phone)
      }
    })

    await t.test('a channel without a sender does not tell blocked recipients apart', async t => {
      const app = await (await open(t)).start({ MAIL_SENDERS: 'none' })
      await putOnList(app, 'blocked', 'blocked@example.com')
      for (const email of ['jane@example.com', 'blocked@example.com']) {
        t.equal((await askMail(app, email, purpose)).status, 202)
        await app.unfinished()
        t.equal((await askMail(app, email, purpose)).status, 429, email)
      }
    })

    for (const mode of ['rotate', 'reuse'] as const)
      await t.test(`${mode}: a code that was resent stays valid when its first message fails`, async t => {
        const sms = provider()
        const app = await (await open(t)).start({}, { policy: policyOf(mode, 2), senders: { sms } })
        const fail = failsLater(sms)
        const { id } = (await ask(app, { purpose })).body
        await until(() => sms.messages.length === 1, 'the first message')
        sms.work()
        t.equal((await resend(app, id)).status, 202)
        await until(() => sms.messages.length === 2, 'the second one')
        fail()
        await app.unfinished()
        t.equal((await verify(app, id, sms.lastCode())).status, 200)
      })

    await t.test(
      'a code that was resent unchanged stays valid when the resend that made it fails',
      async t => {
        const sms = provider()
        const app = await (await open(t)).start({}, { policy: policyOf('rotate', 3), senders: { sms } })
        const { id } = (await ask(app, { purpose })).body
        await app.unfinished()
        const fail = failsLater(sms)
        t.equal((await resend(app, id)).status, 202)
        await until(() => sms.messages.length === 2, 'the resend that makes the next code')
        app.replacePolicy(policyOf('reuse', 3))
        sms.work()
        t.equal((await resend(app, id)).status, 202)
        await until(() => sms.messages.length === 3, 'the resend of that code')
        fail()
        await app.unfinished()
        t.equal((await verify(app, id, sms.lastCode())).status, 200)
      }
    )

    await t.test('reuse: after a resend with unknown outcome no sender is named for the code', async t => {
      const told = heardOn<AuditEvent>(t, 'verification-api:audit')
      const place = await open(t)
      const { code, ...rest } = loadPolicy()
      const sms = provider()
      const policy = { ...rest, code: { ...code, resend: 'reuse' as const } }
      const app = await place.start({}, { policy, senders: { sms } })
      const { id } = (await ask(app, { purpose })).body
      await app.unfinished()
      place.advance(60_001)
      sms.fail('unknown')
      t.equal((await resend(app, id)).status, 202)
      await app.unfinished()
      t.equal((await verify(app, id, sms.lastCode())).status, 200)
      t.match(told.at(-1), { event: 'verification', outcome: 'verified' })
      t.notOk('sender' in (told.at(-1) ?? {}))
    })

    await t.test('a failed message is refunded and its code taken back, an unknown one not', async t => {
      const { app, sms, place } = await start()
      const asked = async (which: () => ReturnType<typeof ask>) => {
        const { status, body } = await which()
        t.equal(status, 202)
        await app.unfinished()
        return body.id
      }
      sms.fail('failed')
      const headers = { 'idempotency-key': 'one' }
      const gone = await asked(() => ask(app, { purpose }, { headers }))
      t.equal((await status(app, gone)).status, 404)
      t.equal(
        await asked(() => ask(app, { purpose }, { headers })),
        gone,
        'a repetition gets the first answer'
      )
      sms.fail('unknown')
      const id = await asked(() => ask(app, { purpose }))
      t.equal((await status(app, id)).status, 200)
      const code = sms.lastCode()
      t.equal((await ask(app, { purpose })).status, 429)
      // The clock stood still, so the second stamp is a tick later than the first.
      place.advance(60_001)
      sms.fail('failed')
      await asked(() => resend(app, id))
      t.equal((await verify(app, id, code)).status, 200, 'the code before the failed resend is valid')
    })
  })
}

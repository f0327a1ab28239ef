import t from 'tap'
import { Check } from 'typebox/value'
import { type AuditEvent, AuditEventSchema } from '../../app/audit/event.js'
import { heardOn } from '../helper/channel.js'
import { ask, E164, PHONE } from './captcha.js'
import { ADMIN_KEY, type App, inject, places, post } from './helper.js'

const headers = { 'x-admin-key': ADMIN_KEY }
const act = (app: App, what: string, payload: object) =>
  post(app, `/v1/admin/recipients/${what}`, payload, { headers })
const list = async (app: App) => (await inject(app, { url: '/v1/admin/recipients', headers })).body.recipients
const masked = '+86*******8000'
const since = '2026-03-01T00:00:00.000Z'

for (const [name, open] of Object.entries(places)) {
  t.test(`a recipient is blocked, looked up and unblocked by the hash of the trail (${name})`, async t => {
    const app = await (await open(t)).start({ ADMIN_KEY })
    const events = heardOn(t, 'verification-api:audit') as AuditEvent[]
    t.equal((await ask(app)).status, 202)
    const { recipientHash = '' } = events.find(({ event }) => event === 'send') ?? {}

    const reason = 'complaint'
    const until = '2026-03-02T00:00:00.000Z'
    const blocked = { standing: 'blocked', reason, since, until }
    const { status, body } = await act(app, 'block', { recipientHash, duration: '24h', reason })
    t.same([status, body], [200, { recipientHash, ...blocked }], 'the number is not known')
    t.match(await ask(app), { status: 403, body: { 'violated-policies': ['block-list'] } })
    t.same((await act(app, 'lookup', { recipientHash })).body, { recipientHash, standing: blocked })
    t.match((await act(app, 'lookup', { phone: PHONE })).body, { recipient: masked, standing: blocked })
    t.same(await list(app), [{ recipientHash, ...blocked }])

    const unblocked = { recipientHash, standing: null, countsCleared: false }
    t.same((await act(app, 'unblock', { recipientHash })).body, unblocked)
    t.equal((await ask(app)).status, 429, 'what was counted stays')
    t.match((await act(app, 'unblock', { phone: PHONE })).body, { recipientHash, countsCleared: true })
    t.equal((await ask(app)).status, 202)

    t.equal((await act(app, 'allow', { recipientHash })).status, 200)
    t.equal((await ask(app)).status, 202)
    t.same(await list(app), [{ recipientHash, standing: 'allowed', since }])
  })

  t.test(`an entry that was made by number keeps its masked number (${name})`, async t => {
    const app = await (await open(t)).start({ ADMIN_KEY })
    const { recipientHash } = (await act(app, 'block', { phone: PHONE })).body
    t.equal(recipientHash, app.recipientHash({ identity: E164 }))
    const allowed = { recipient: masked, recipientHash, standing: 'allowed', since }
    t.same((await act(app, 'allow', { recipientHash })).body, allowed)
    t.match((await act(app, 'lookup', { recipientHash })).body, { recipient: masked })
    t.same(await list(app), [allowed])
  })
}

t.test('the audit trail names the recipient by the hash that the operator gave', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const { recipientHash } = (await act(app, 'block', { phone: PHONE })).body
  const events = heardOn(t, 'verification-api:audit') as AuditEvent[]
  for (const what of ['lookup', 'allow', 'unblock']) await act(app, what, { recipientHash })
  await act(app, 'block', { recipientHash, duration: '1m', reason: 'abuse' })
  await act(app, 'block', { recipientHash, duration: '367d', reason: 'abuse' })
  t.match(
    events,
    [
      { action: 'lookup', outcome: 'done' },
      { action: 'allow', outcome: 'done' },
      { action: 'unblock', outcome: 'done' },
      { action: 'block', outcome: 'done', reason: 'abuse', until: '2026-03-01T00:01:00.000Z' },
      { action: 'block', outcome: 'failed', reason: 'abuse' }
    ].map(each => ({ event: 'admin', recipientHash, ...each }))
  )
  for (const event of events) {
    t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
    t.notOk('recipient' in event || 'channel' in event)
  }
})

t.test('no recipient, two of them, or a malformed hash is refused', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const recipientHash = app.recipientHash({ identity: E164 })
  const members = ['phone', 'email', 'recipientHash']
  for (const what of ['lookup', 'block', 'allow', 'unblock']) {
    for (const payload of [{}, { phone: PHONE, recipientHash }, { email: 'jane@example.com', recipientHash }])
      t.match(
        (await act(app, what, payload)).body,
        {
          status: 422,
          code: 'RECIPIENT_MISSING',
          detail: 'Name one recipient, by one of phone, email, recipientHash.',
          members
        },
        what
      )
    const longer = `${recipientHash}A`
    const other = `${recipientHash.slice(0, -1)}B`
    for (const wrong of ['', recipientHash.slice(1), longer, other, `${recipientHash.slice(0, -2)}+A`, E164])
      t.match(
        (await act(app, what, { recipientHash: wrong })).body,
        { status: 422, code: /^INVALID$/, errors: [{ pointer: '#/recipientHash', code: 'PATTERN' }] },
        `${what} ${wrong}`
      )
    const number = (await act(app, what, { recipientHash: 7 })).body
    t.match(number, { status: 422, errors: [{ pointer: '#/recipientHash', code: 'NOT_STRING' }] })
  }
  for (const what of ['lookup', 'unblock'])
    t.match((await act(app, what, { recipientHash, endUserIp: '192.0.2.1', purpose: 'login' })).body, {
      status: 422,
      code: /^INVALID$/,
      errors: [
        { pointer: '#/endUserIp', code: 'UNEXPECTED' },
        { pointer: '#/purpose', code: 'UNEXPECTED' }
      ]
    })
  t.same(await list(app), [])
})

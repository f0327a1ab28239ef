import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import { Check } from 'typebox/value'
import { openAccounts } from '../../app/accounts/accounts.js'
import { costOf, type Prices, PricesSchema } from '../../app/audit/cost.js'
import { type AuditEvent, AuditEventSchema, type AuditFact } from '../../app/audit/event.js'
import { refusalOf } from '../../app/audit/refusal.js'
import { readConfig } from '../../app/config.js'
import { recipientOf } from '../../app/recipient.js'
import { LookupAnswer } from '../../app/schemas/admin.js'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { blocksOf, read } from '../docs/blocks.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { ask as askFor, cancel, PHONE, verify, wrong } from './captcha.js'
import { ADMIN_KEY, KEY, places, post, sha256 } from './helper.js'
import { ask, linesOf, open, REGION } from './operating.js'
import { provider } from './provider.js'

const START = Date.UTC(2026, 2, 1)
const clock = { monotonic: () => 0, wall: () => START }
const someone = recipientOf({ email: 'Some.One@gmail.com' }, REGION)
const number = recipientOf({ phone: '13800138000' }, REGION)
const prices: Prices = {
  currency: 'CNY',
  sms: { default: 0.5, '86': 0.045, '1': 0.06, '1876': 0.1, '3706123': 0.2 },
  mail: 0.001
}
const sent: AuditFact = { event: 'send', sender: 'outbox', outcome: 'sent', segments: 2, latencyMs: 5 }

const examples = blocksOf('docs/operation.md')
const blockOf = (use: string) =>
  examples.find(block => block.use === use || block.needs.includes(use))?.text ?? ''

t.test('docs/operation.md shows an example of each event, as the schema has it', async t => {
  const lines = blockOf('audit').trim().split('\n')
  const events = lines.map(line => JSON.parse(line) as AuditEvent)
  for (const [i, event] of events.entries()) {
    t.ok(Check(AuditEventSchema, event), String(lines[i]))
    t.notOk(Check(AuditEventSchema, { ...event, phone: '1' }), 'no other member is allowed')
    t.ok(lines[i]?.startsWith('{"audit":1,'))
  }
  const kinds = AuditEventSchema.anyOf.map(each => each.properties.event.const)
  t.same([...new Set(events.map(({ event }) => event))].sort(), kinds.sort())
  t.ok(Check(PricesSchema, JSON.parse(blockOf('prices'))))
  // The validator checks formats; the schema has strings there.
  t.ok(Check(LookupAnswer, JSON.parse(blockOf('lookup'))))
})

t.test('events are written with the members of the examples', async t => {
  const told = heardOn<AuditEvent>(t, 'verification-api:audit')
  const file = join(folderOf(t), 'accounts.json')
  writeFileSync(file, JSON.stringify([{ id: 'shop', keys: [sha256(KEY)], dailyQuota: 1 }]))
  const sms = provider()
  const app = await (await places.memory(t)).start({ ADMIN_KEY, ACCOUNTS_FILE: file }, { senders: { sms } })
  const { id } = (await askFor(app)).body
  await askFor(app)
  await verify(app, id, wrong(sms.lastCode()))
  await cancel(app, id)
  const blocking = { phone: PHONE, reason: 'complaint', duration: '24h' }
  for (const key of [ADMIN_KEY, 'another'])
    await post(app, '/v1/admin/recipients/block', blocking, { headers: { 'x-admin-key': key } })
  writeFileSync(file, '[')
  t.throws(() => app.reload())
  for (const line of blockOf('audit').trim().split('\n')) {
    const example = JSON.parse(line) as AuditEvent
    const written = told.find(({ event }) => event === example.event)
    t.same(Object.keys(example).sort(), Object.keys(written ?? {}).sort(), example.event)
  }
})

t.test('docs/operation.md names every member', async t => {
  const [, table = ''] = read('docs/operation.md').split('### Members')
  const rows = [...table.matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)]
  const named = new Set(rows.flatMap(([, names = '']) => [...names.matchAll(/\w+/g)].map(([name]) => name)))
  const members = new Set(AuditEventSchema.anyOf.flatMap(each => Object.keys(each.properties)))
  t.same([...named].sort(), [...members].sort())
})

t.test('the accounts in docs/operation.md can be read', async t => {
  const file = join(folderOf(t), 'accounts.json')
  writeFileSync(file, blockOf('accounts'))
  const accounts = openAccounts(readConfig({ ACCOUNTS_FILE: file }))
  t.match(accounts.listed, [{ id: 'shop', dailyQuota: 5_000 }])
  t.ok(accounts.byOrigin('https://shop.example'))
})

t.test('an event is filled in with time, account, recipient, network and cost', async t => {
  const { app, events, file } = await open(t, {
    clock,
    prices,
    env: { API_KEYS: 'key-of-shop:shop' },
    routes: app =>
      app.post('/send', { preParsing: app.authenticate }, async request => {
        request.recipient = number
        app.audit({ ...sent, purpose: 'login' }, request)
        app.audit({ ...sent, outcome: 'unknown' }, request)
        app.audit({ ...sent, outcome: 'failed', code: 'EAUTH' }, request)
        app.audit({ ...sent, outcome: 'sent', segments: 1 }, request, someone)
        app.audit({ event: 'reload', outcome: 'replaced', actor: 'signal' })
        return {}
      })
  })
  const headers = { 'x-api-key': 'key-of-shop' }
  await ask(app, 'POST', '/send', { headers })
  const told = events()
  for (const event of told) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
  const { network, requestId } = told[0] as AuditEvent
  t.match(network, /^[\w-]{22}$/)
  t.type(requestId, 'string')
  t.match(told[0], {
    audit: 1,
    time: '2026-03-01T00:00:00.000Z',
    account: 'shop',
    channel: 'sms',
    country: 'CN',
    recipient: '+86*******8000',
    purpose: 'login',
    cost: { amount: 0.09, currency: 'CNY' }
  })
  t.match(told[1], { cost: { amount: 0.09 }, network, requestId })
  t.notOk('cost' in (told[2] as AuditEvent), 'a message that was not sent costs nothing')
  t.match(told[3], { channel: 'mail', recipient: 'S***@gmail.com', cost: { amount: 0.001 } })
  t.notOk('country' in (told[3] as AuditEvent), 'a mail has no country')
  t.not(told[3]?.recipientHash, told[0]?.recipientHash)
  t.same(Object.keys(told[4] as object).sort(), ['actor', 'audit', 'event', 'outcome', 'time'])
  t.notMatch(linesOf(file).join('\n'), /13800138000|some\.?one|192\.0\.2|key-of-shop/i)
  t.equal(statSync(file).mode & 0o777, 0o600)

  app.audit(sent, null, recipientOf({ email: 'someone+tag@gmail.com' }, REGION))
  t.equal(events()[5]?.recipientHash, told[3]?.recipientHash, 'the same recipient has the same hash')
  app.audit({ event: 'send', sender: 'outbox', outcome: 'sent' }, null, someone)
  t.match(events()[6], { cost: { amount: 0.001 } }, 'a mail counts as one, without segments')
})

t.test('the network is the end user’s: one hash for each IPv4 address, and for each /64 of IPv6', async t => {
  const told = heardOn<AuditEvent>(t, 'verification-api:audit')
  const app = await (await places.memory(t)).start()
  const networkOf = async (remoteAddress: string, headers = {}) => {
    await askFor(app, {}, { remoteAddress, headers })
    return told.at(-1)?.network
  }
  const ipv6 = await networkOf('2001:db8:0:7::1')
  t.equal(await networkOf('2001:DB8:0:7:8::9'), ipv6)
  t.equal(await networkOf('192.0.2.1', { 'x-end-user-ip': '2001:db8:0:7::2' }), ipv6)
  t.not(await networkOf('2001:db8:0:8::1'), ipv6)
  t.equal(await networkOf('::ffff:192.0.2.1'), await networkOf('192.0.2.1'))
  t.not(await networkOf('192.0.2.2'), await networkOf('192.0.2.1'))
})

const rule: Rule = { name: 'ip', key: 'ip', limits: [{ max: 1, window: '60s' }] }
const early: Rule = { name: 'early', key: 'ip', counts: 'attempts', limits: [{ max: 3, window: '60s' }] }

t.test('each refusal is in the audit trail, with stage, rules and outcome', async t => {
  const { app, events } = await open(t, {
    clock,
    rules: [rule, early],
    routes: (app: FastifyInstance) =>
      app.post(
        '/send',
        {
          config: { limit: ['early', 'ip'] },
          preHandler: async request => {
            request.purpose = 'login'
            request.endUserIp = '198.51.100.7'
          }
        },
        async () => ({})
      )
  })
  for (let i = 0; i < 4; i++) await ask(app, 'POST', '/send')
  const refused = { event: 'refusal', outcome: 'exceeded', retryAfterMs: 60_000, network: /./ }
  t.match(events(), [
    { ...refused, stage: 'sends', rules: ['ip'], purpose: 'login' },
    { ...refused, stage: 'sends', rules: ['ip'] },
    { ...refused, stage: 'attempts', rules: ['early'] }
  ])
  t.equal(events().length, 3, 'a request that is admitted is no event by itself')
  for (const event of events()) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
  t.equal((await app.limit.reserve({ ip: '192.0.2.1' })).allowed, false)
  t.notOk('requestId' in (events()[3] as AuditEvent), 'a refusal without a request has no requestId')
})

t.test('the cost is by the longest prefix of a number, else by default, for each segment', async t => {
  const cost = (to: string, segments = 1) => costOf('sms', to, segments, prices)?.amount
  t.equal(cost('+8613800138000'), 0.045)
  t.equal(cost('+8613800138000', 3), 0.135, 'without the noise of floating point')
  t.equal(cost('+12125550100'), 0.06)
  t.equal(cost('+18765550100'), 0.1, 'the longest prefix')
  t.equal(cost('+37061234567'), 0.2, 'of seven digits at most')
  t.equal(cost('+4915112345678', 2), 1, 'else the default')
  t.equal(costOf('mail', 'constructor@example.com', 1, prices)?.amount, 0.001)
  t.equal(costOf('sms', '+491', 1, { currency: 'EUR', sms: { '86': 1 } }), undefined)
  t.equal(costOf('mail', 'a@b.example', 1, { currency: 'EUR' }), undefined)
  t.equal(costOf('sms', '+861', 1, undefined), undefined)
  t.equal(costOf('sms', '+861', 1, { currency: 'EUR', mail: 1 }), undefined)
  t.equal(costOf('sms', '+861', 1, { currency: 'EUR', sms: { default: 1, '86': 0 } })?.amount, 0)
  t.ok(Check(PricesSchema, prices))
  t.equal(costOf('sms', '+861', 3, { currency: 'EUR', sms: { '86': 0.0000005 } })?.amount, 0.0000015)
  for (const wrong of [
    {},
    { currency: 'yuan' },
    { currency: 'CNY', sms: { '+86': 1 } },
    { currency: 'CNY', sms: { '086': 1 } },
    { currency: 'CNY', sms: { '12345678': 1 } },
    { currency: 'CNY', mail: -1 }
  ])
    t.notOk(Check(PricesSchema, wrong), JSON.stringify(wrong))
})

t.test('a refusal says which kind it is, each rule once, and what was to be sent', async t => {
  const violated = [{ rule: 'a' }, { rule: 'a' }, { rule: 'b' }]
  const event = { stage: 'sends', refusal: 'in-flight', retryAfterMs: 5, violated }
  const told = (request: object) =>
    refusalOf(event as unknown as DecisionEvent, request as unknown as FastifyRequest)
  t.same(told({ purpose: null, message: { template: 'welcome' } }), {
    event: 'refusal',
    stage: 'sends',
    outcome: 'in-flight',
    rules: ['a', 'b'],
    retryAfterMs: 5,
    template: 'welcome'
  })
  t.match(told({ purpose: null, captcha: { purpose: 'login' } }), { purpose: 'login' })
  t.match(told({ purpose: 'register', captcha: null }), { purpose: 'register' })
})

t.test('an event that cannot be written is logged, and breaks nothing', async t => {
  const log: string[] = []
  let wall = START
  const { app, events } = await open(t, { clock: { ...clock, wall: () => wall }, log })
  wall = Number.NaN
  t.doesNotThrow(() => app.audit(sent))
  t.match(log.join(''), 'the audit trail cannot be written')
  t.same(events(), [])
})

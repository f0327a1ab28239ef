import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import type { Teardown } from '../helper/teardown.js'
import { places } from './settlement/places.js'

const WINDOW = 3_600_000
const recipients: Rule = {
  name: 'ip-recipients',
  key: 'ip',
  distinct: { phone: 'body.phone' },
  limits: [{ max: 5, window: '1h' }]
}
const phones = Array.from({ length: 50 }, (_, i) => `138001380${String(i).padStart(2, '0')}`)
const [first = '', second = '', third = '', fourth = '', fifth = '', sixth = ''] = phones

for (const place of await places(t)) {
  /** An app under these rules whose handler answers what the body asks for. */
  const open = async (t: Teardown, ...rules: Rule[]) => {
    const { app } = await place.open(t, rules)
    app.post<{ Body: { status?: number } }>(
      '/send',
      { config: { limit: rules.map(rule => rule.name) } },
      async (request, reply) => reply.code(request.body.status ?? 202).send({})
    )
    await app.ready()
    const send = async (phone: unknown, status?: number, remoteAddress = '192.0.2.1') =>
      app.inject({ method: 'POST', url: '/send', remoteAddress, payload: { phone, status } })
    const statuses = async (...all: string[]) => {
      const found: number[] = []
      for (const phone of all) found.push((await send(phone)).statusCode)
      return found
    }
    return { app, send, statuses }
  }

  t.test(
    `${place.store}: one address sends to five recipients an hour, and again to those it has sent to`,
    async t => {
      const { send, statuses } = await open(t, recipients)
      t.same(await statuses(first, second, third, fourth, fifth), [202, 202, 202, 202, 202])
      const refused = await send(sixth)
      t.equal(refused.statusCode, 429)
      t.match(refused.json(), { 'violated-policies': ['ip-recipients'] })
      t.equal(refused.headers['ratelimit-policy'], '"ip-recipients";q=5;w=3600')
      t.match(refused.headers.ratelimit, /^"ip-recipients";r=0;t=3600$/)
      const { retryAfterMs } = refused.json<{ retryAfterMs: number }>()
      const again = await send(third)
      t.equal(again.statusCode, 202, 'a recipient that was sent to may be sent to again')
      t.match(again.headers.ratelimit, /^"ip-recipients";r=0;t=3600$/)
      t.equal((await send(sixth, undefined, '192.0.2.2')).statusCode, 202, 'another address')
      place.advance(retryAfterMs - 1)
      t.same(await statuses(sixth), [429])
      place.advance(1)
      t.same(await statuses(sixth), [202])
    }
  )

  t.test(`${place.store}: every spelling of a number is one recipient`, async t => {
    const { send, statuses } = await open(t, { ...recipients, limits: [{ max: 1, window: '1h' }] })
    t.same(
      await statuses(first, '+86 138-0013-8000', 'tel:+8613800138000', '１３８００１３８０００'),
      [202, 202, 202, 202]
    )
    t.equal((await send(first, undefined, '::ffff:192.0.2.1')).statusCode, 202)
    t.same(await statuses(second), [429])
  })

  t.test(
    `${place.store}: a failed send is refunded, and leaves the recipient's earlier send counted`,
    async t => {
      const { send, statuses } = await open(t, { ...recipients, limits: [{ max: 2, window: '1h' }] })
      for (const phone of phones.slice(0, 20)) t.equal((await send(phone, 502)).statusCode, 502)
      t.same(await statuses(first, second), [202, 202])
      place.advance(1_000)
      t.equal((await send(first, 502)).statusCode, 502)
      t.same(await statuses(third), [429], 'the first recipient still counts from its earlier send')
      place.advance(WINDOW - 1_000)
      place.advance(1)
      t.same(await statuses(third), [202])
    }
  )

  t.test(`${place.store}: of fifty numbers at once five are admitted`, async t => {
    const { app, send } = await open(t, recipients)
    for (const round of [0, 1]) {
      const answers = await Promise.all(phones.map(phone => send(phone)))
      t.equal(answers.filter(({ statusCode }) => statusCode === 202).length, 5, `round ${round}`)
      t.equal(answers.filter(({ statusCode }) => statusCode === 429).length, 45)
    }
    const { rules } = await app.limit.peek({ 'ip-recipients': ['192.0.2.1', '+8613900000000'] })
    t.same(rules[0]?.limits[0]?.remaining, 0)
    const one = await Promise.all(phones.map(() => send(first, undefined, '192.0.2.3')))
    t.ok(
      one.every(({ statusCode }) => statusCode === 202),
      'fifty to one number are one recipient'
    )
  })

  t.test(`${place.store}: retryAfterMs of an admitted send waits for no recipient`, async t => {
    const each: Rule = { name: 'each', key: { phone: 'body.phone' }, limits: [{ max: 1, window: '60s' }] }
    const { app } = await open(t, { ...recipients, limits: [{ max: 1, window: '1h' }] }, each)
    const keys = { 'ip-recipients': ['192.0.2.1', first], each: first }
    const decision = await app.limit.reserve(keys)
    t.match(decision, { allowed: true, retryAfterMs: 60_000 })
    t.match(await app.limit.reserve(keys), { allowed: false, retryAfterMs: 60_000 }, 'the same number')
    const other = { 'ip-recipients': ['192.0.2.1', second], each: second }
    t.match(await app.limit.reserve(other), { violated: [{ rule: 'ip-recipients' }], refusal: 'exceeded' })
  })

  t.test(`${place.store}: in calls outside of routes the value comes after the key`, async t => {
    const pair: Rule = {
      name: 'pair',
      key: [{ value: 'body.account' }, 'ip'],
      distinct: [{ email: 'body.to' }, { value: 'body.purpose' }],
      limits: [{ max: 1, window: '1h' }]
    }
    const { app } = await open(t, recipients, pair)
    const reserve = async (keys: Record<string, unknown>) => (await app.limit.reserve(keys)).allowed
    t.equal(await reserve({ pair: ['a1', '192.0.2.1', 'a@example.com', 'login'] }), true)
    t.equal(await reserve({ pair: ['a1', '192.0.2.1', 'A@example.com', 'login'] }), true)
    t.equal(await reserve({ pair: ['a1', '192.0.2.1', 'a@example.com', 'reset'] }), false)
    t.equal((await app.limit.peek({ pair: ['a1', '192.0.2.1', 'b@example.com', 'login'] })).allowed, false)
    await app.limit.clear({ pair: ['a1', '192.0.2.1'] })
    t.equal(await reserve({ pair: ['a1', '192.0.2.1', 'a@example.com', 'reset'] }), true)

    await app.limit.block({ 'ip-recipients': '192.0.2.1' })
    t.equal((await app.limit.reserve({ 'ip-recipients': ['192.0.2.1', first] })).refusal, 'blocked')
    await app.limit.unblock({ 'ip-recipients': ['192.0.2.1', second] })
    t.equal(await reserve({ 'ip-recipients': ['192.0.2.1', first] }), true)
    await t.rejects(app.limit.reserve({ 'ip-recipients': '192.0.2.1' }), {
      code: 'FST_SEND_LIMIT_KEY_MISSING',
      message: /body\.phone/
    })
  })

  t.test(
    `${place.store}: a missing value is 400, an invalid one 422, and an optional rule skips a missing one`,
    async t => {
      const { send } = await open(t, recipients)
      const missing = await send(undefined)
      t.match([missing.statusCode, missing.json()], [400, { code: 'FST_SEND_LIMIT_KEY_MISSING' }])
      const called = await open(t, { ...recipients, distinct: () => undefined })
      const detail = 'the distinct value of ip-recipients is missing or not a scalar value'
      t.match((await called.send(first)).json(), { detail })
      const invalid = await send('110')
      t.match([invalid.statusCode, invalid.json()], [422, { code: 'FST_SEND_LIMIT_KEY_INVALID' }])
      const optional = await open(t, { ...recipients, optional: true, limits: [{ max: 1, window: '1h' }] })
      t.equal((await optional.send(first, undefined, '192.0.2.9')).statusCode, 202)
      t.equal(
        (await optional.send(undefined, undefined, '192.0.2.9')).statusCode,
        202,
        'the rule does not apply'
      )
      t.equal((await optional.send('110', undefined, '192.0.2.9')).statusCode, 422)
      t.equal((await optional.send(second, undefined, '192.0.2.9')).statusCode, 429)
    }
  )

  t.test(`${place.store}: block and allow lists hold whatever the value`, async t => {
    const rule: Rule = { ...recipients, block: ['192.0.2.66'], allow: ['192.0.2.67'] }
    for (const optional of [false, true]) {
      const { app, send } = await open(t, { ...rule, optional })
      for (const phone of [first, undefined, '110']) {
        t.equal((await send(phone, undefined, '192.0.2.66')).statusCode, 403, 'blocked')
        t.equal((await send(phone, undefined, '192.0.2.67')).statusCode, 202, 'allowed')
      }
      t.equal((await app.limit.peek({ 'ip-recipients': '192.0.2.66' })).refusal, 'blocked')
      t.equal((await app.limit.peek({ 'ip-recipients': '192.0.2.67' })).allowed, true)
    }
  })

  t.test(
    `${place.store}: in calls outside of routes content of several parts is a list within the list`,
    async t => {
      const { app } = await place.open(t, [
        {
          name: 'content',
          key: { digest: ['body.template', 'body.params'] },
          distinct: { phone: 'body.phone' },
          limits: [{ max: 1, window: '1h' }]
        }
      ])
      await app.ready()
      const content = ['welcome', { name: 'Bo' }]
      const invalid = { code: 'FST_SEND_LIMIT_KEY_INVALID' }
      await t.rejects(app.limit.block({ content }), invalid, 'it would block another content')
      await app.limit.block({ content: [content] })
      t.equal((await app.limit.reserve({ content: [content, first] })).refusal, 'blocked')
    }
  )

  t.test(`${place.store}: rules on failures and on attempts count different values as well`, async t => {
    const limits = [{ max: 1, window: '1h' }]
    const { app } = await place.open(t, [
      { name: 'wrong', key: 'ip', distinct: { value: 'body.id' }, counts: 'failures', limits },
      { name: 'agents', key: 'ip', distinct: { value: 'query.agent' }, counts: 'attempts', limits }
    ])
    app.post<{ Body: { status: number } }>(
      '/verify',
      { config: { limit: 'wrong' } },
      async (request, reply) => reply.code(request.body.status).send({})
    )
    app.get('/', { config: { limit: 'agents' } }, async () => 'seen')
    const verify = async (id: string, status: number) =>
      (await app.inject({ method: 'POST', url: '/verify', payload: { id, status } })).statusCode
    t.same(
      [await verify('a', 200), await verify('b', 422), await verify('b', 422), await verify('c', 200)],
      [200, 422, 422, 429]
    )
    const get = async (agent: string) => (await app.inject(`/?agent=${agent}`)).statusCode
    t.same([await get('a'), await get('a'), await get('b')], [200, 200, 429])
  })

  t.test(`${place.store}: an observed rule refuses no value, and reports those it would refuse`, async t => {
    const { app } = await open(t, { ...recipients, mode: 'observe', limits: [{ max: 1, window: '1h' }] })
    const reserve = async (phone: string) => app.limit.reserve({ 'ip-recipients': ['192.0.2.7', phone] })
    for (const [phone, observed] of [
      [first, []],
      [second, [{ rule: 'ip-recipients', windowMs: WINDOW }]],
      [first, []]
    ] as const) {
      const decision = await reserve(phone)
      t.same([decision.allowed, decision.observed], [true, observed])
    }
  })
}

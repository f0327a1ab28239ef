import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Check } from 'typebox/value'
import { AuditEventSchema } from '../../app/audit/event.js'
import { RedisRecords } from '../../app/captcha/redis-records.js'
import { loadPolicy } from '../../app/policy.js'
import { problem } from '../../app/problem.js'
import type { Rule } from '../../plugin/index.js'
import { folderOf } from '../helper/folder.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { ask, cancel, E164, PHONE, status, verify, wrong } from './captcha.js'
import { lastCode, places, post, putOnList, startApp } from './helper.js'
import { provider } from './provider.js'

const eventsOf = (file: string) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('each try of a code is in the audit trail', async t => {
      const file = join(folderOf(t), 'audit.log')
      const place = await open(t)
      const app = await place.start({ AUDIT_LOG: file })
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      await verify(app, id, wrong(code))
      await verify(app, id, code, { purpose: 'login' })
      await verify(app, id, code)
      await verify(app, id, code)
      await verify(app, 'A'.repeat(22), code)
      place.advance(60_000)
      const last = (await ask(app)).body.id
      for (let i = 0; i < 2; i++) await cancel(app, last)

      const events = eventsOf(file)
      const told = events.map(({ event, outcome, triesLeft }) => ({ event, outcome, triesLeft }))
      t.same(told, [
        { event: 'send', outcome: 'sent', triesLeft: undefined },
        { event: 'verification', outcome: 'wrong', triesLeft: 4 },
        { event: 'verification', outcome: 'wrong', triesLeft: 3 },
        { event: 'verification', outcome: 'verified', triesLeft: 3 },
        { event: 'verification', outcome: 'ended', triesLeft: 0 },
        { event: 'verification', outcome: 'ended', triesLeft: 0 },
        { event: 'send', outcome: 'sent', triesLeft: undefined },
        { event: 'cancel', outcome: 'cancelled', triesLeft: undefined },
        { event: 'cancel', outcome: 'ended', triesLeft: undefined }
      ])
      const own = { purpose: 'register', channel: 'sms', recipient: '+86*******8000' }
      for (const event of events.slice(0, 5)) t.match(event, own)
      t.notOk('recipient' in events[5], 'of an unknown id no recipient is known')
    })

    await t.test('a refused try names the recipient of the code, whoever is named beside it', async t => {
      const file = join(folderOf(t), 'audit.log')
      const { rules, ...policy } = loadPolicy()
      const limits = [{ max: 1, window: '1h' as const }]
      const once = rules.map(rule =>
        rule.name === 'verify-failures'
          ? { name: rule.name, key: rule.key, counts: 'failures' as const, optional: true, limits }
          : rule
      )
      const app = await (await open(t)).start({ AUDIT_LOG: file }, { policy: { ...policy, rules: once } })
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      for (const more of [{}, {}, { phone: '13900139000', purpose: 'login' }])
        await verify(app, id, wrong(code), more)
      const [{ recipientHash }, ...tries] = eventsOf(file)
      const own = { purpose: 'register', recipient: '+86*******8000', recipientHash }
      t.match(tries, [
        { event: 'verification', ...own },
        { event: 'refusal', rules: ['verify-failures'], ...own },
        { event: 'refusal', rules: ['verify-failures'], ...own }
      ])
    })

    await t.test('a code is sent if the counts of wrong ones cannot be looked at', async t => {
      const policy = loadPolicy()
      const lost = () => {
        throw new Error('the quota is out of reach')
      }
      const limits = [{ max: lost, ceiling: 10, window: '1h' }]
      const rules = policy.rules.map(rule =>
        rule.name === 'verify-failures' ? ({ ...rule, limits } as Rule) : rule
      )
      const { lines, stream } = logStream()
      const options = { policy: { ...policy, rules }, logStream: stream }
      const app = await (await open(t)).start({ LOG_LEVEL: 'debug' }, options)
      t.equal((await ask(app)).status, 202)
      const [line = '{}'] = lines.filter(line => line.includes('passed without a look at wrong codes'))
      t.match(
        JSON.parse(line),
        { level: 20, err: {} },
        'at debug, as every request of an outage would log it'
      )
    })

    await t.test('a code is sent if the counts of wrong ones are not told in time', async t => {
      const app = await (await open(t)).start({ STORE_TIMEOUT: '2000' })
      app.limit.peek = () => new Promise(() => {})
      t.match(await ask(app), { status: 202 })
    })

    await t.test(
      'if one rule on wrong codes counts by what clients send, the other still holds codes up',
      async t => {
        const { rules, ...policy } = loadPolicy()
        const changes: Record<string, Partial<Rule>> = {
          'verify-failures': { key: { value: 'headers.x-tenant' }, optional: false },
          'verify-failures-recipient': { limits: [{ max: 2, window: '1h' }] }
        }
        const changed = rules.map(rule => ({ ...rule, ...changes[rule.name] }) as Rule)
        const place = await open(t)
        const app = await place.start({}, { policy: { ...policy, rules: changed } })
        const { id } = (await ask(app)).body
        const resendAt = async () => Date.parse((await status(app, id)).body.resendAt) - app.clock.wall()
        t.equal(await resendAt(), 60_000)
        place.advance(1)
        const headers = { 'x-tenant': 'one' }
        for (let i = 0; i < 2; i++) await verify(app, id, wrong(lastCode(app, E164)), {}, { headers })
        place.advance(60_000)
        t.equal(await resendAt(), 3_540_000)
        t.match(await ask(app), { status: 429, body: { 'violated-policies': ['wrong-codes'] } })
      }
    )

    await t.test('sends, refusals, suppressed messages and quotas are in the audit trail', async t => {
      const file = join(folderOf(t), 'audit.log')
      const limits = [{ max: 5, per: 'day', timeZone: 'UTC' } as const]
      const { rules, ...policy } = loadPolicy()
      const own = rules.map(rule =>
        rule.name === 'account' ? { name: rule.name, key: rule.key, limits } : rule
      )
      const app = await (await open(t)).start({ AUDIT_LOG: file }, { policy: { ...policy, rules: own } })
      const from = (address: string) => ({ headers: { 'x-end-user-ip': address } })
      await ask(app, {}, from('2001:db8::1'))
      await ask(app, {}, from('2001:db8::2'))
      const conceals = { phone: '13900139000', purpose: 'reset-password' }
      await putOnList(app, 'blocked', '+8613900139000')
      await ask(app, conceals, from('2001:db8:0:1::1'))
      await app.unfinished()
      const shipped = { phone: PHONE, template: 'order-shipped', params: { order: 'A-17' } }
      const ids: string[] = []
      for (let i = 0; i < 3; i++) ids.push((await post(app, '/v1/sms', shipped)).body.id)

      await until(() => eventsOf(file).some(({ event }) => event === 'quota'), 'the report of the quota')
      const all = eventsOf(file)
      const [first, second, third, ...more] = all.filter(({ event }) => event !== 'quota')
      const cost = { amount: 0.0071, currency: 'USD' }
      t.match(first, { event: 'send', outcome: 'sent', purpose: 'register', account: 'development', cost })
      t.match(second, { event: 'refusal', outcome: 'exceeded', rules: ['recipient'], network: first.network })
      t.match(third, { event: 'send', outcome: 'suppressed', sender: 'none', purpose: 'reset-password' })
      t.match(third, { recipient: '+86*******9000', requestId: String })
      t.not(third.network, first.network)
      t.match(more, [
        { event: 'send', outcome: 'sent', template: 'order-shipped' },
        { event: 'send', outcome: 'sent', template: 'order-shipped' },
        { event: 'refusal', rules: ['same-content'], template: 'order-shipped' }
      ])
      t.same(
        more.slice(0, 2).map(({ requestId }) => requestId),
        ids.slice(0, 2)
      )
      const marks = all.filter(({ event }) => event === 'quota')
      t.match(marks, [{ outcome: 'soft-mark', used: 4, max: 5 }])
      t.equal(marks[0].requestId, ids[1])
    })

    await t.test('a check or cancel without an answer is unknown in the audit trail', async t => {
      const file = join(folderOf(t), 'audit.log')
      const app = await (await open(t)).start({ AUDIT_LOG: file })
      const { id } = (await ask(app)).body
      const late = async () => {
        throw problem(503, 'CODES_UNAVAILABLE', 'Codes can be neither stored nor checked now.')
      }
      Object.assign(app.captchas, { check: late, cancel: late })
      t.equal((await verify(app, id, lastCode(app, E164))).status, 503)
      t.equal((await cancel(app, id)).status, 503)
      const own = { outcome: 'unknown', purpose: 'register', recipient: '+86*******8000' }
      const events = eventsOf(file)
      t.match(events.slice(1), [
        { event: 'verification', ...own },
        { event: 'cancel', ...own }
      ])
      t.equal(events.length, 3)
      for (const event of events) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
    })
  })
}

t.test('recipients have other hashes in the audit trail under another secret', async t => {
  const file = join(folderOf(t), 'audit.log')
  for (const which of ['one', 'another']) {
    const env = { AUDIT_LOG: file, LIMIT_SECRET: `${which} secret of these tests` }
    await ask(await (await places.memory(t)).start(env))
  }
  const [one, other] = eventsOf(file)
  t.not(one.recipientHash, other.recipientHash)
  t.not(one.network, other.network)
})

t.test('if Redis hangs while a code is verified it can be verified again, once', async t => {
  const server = await startRedis(t)
  const sms = provider()
  const env = { REDIS_URL: server.url, LIMIT_SECRET: 'a secret of these tests', STORE_TIMEOUT: '1000' }
  const app = await startApp(t, env, { senders: { sms } })
  const { id } = (await ask(app)).body
  const { check } = app.captchas
  app.captchas.check = (...args) => {
    process.kill(server.pid, 'SIGSTOP')
    return check(...args)
  }
  t.match(await verify(app, id, sms.lastCode()), { status: 503, body: { code: 'CODES_UNAVAILABLE' } })
  process.kill(server.pid, 'SIGCONT')
  app.captchas.check = check
  await until(async () => (await server.client.ping()) === 'PONG', 'an answer')
  await until(async () => (await status(app, id)).status === 200, 'its standing')
  const answers = await Promise.all(Array.from({ length: 9 }, () => verify(app, id, sms.lastCode())))
  t.same(answers.map(each => each.status).sort(), [200, ...Array(8).fill(422)])
})

t.test('a try without an answer does not free a code that another try has used up', async t => {
  const { client, pid } = await startRedis(t)
  const records = new RedisRecords(client)
  await records.put('a', 'sealed', { lifeMs: 300_000, tries: 3 })
  process.kill(pid, 'SIGSTOP')
  const told = records.check('a', 1)
  await t.rejects(new RedisRecords(client, 100).check('a', 1), { code: 'CODES_UNAVAILABLE' })
  process.kill(pid, 'SIGCONT')
  t.match(await told, { verified: true })
  t.match(await records.check('a', 1), { verified: false, tried: false })
})

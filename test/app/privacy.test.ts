import { channel } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fastify from 'fastify'
import type { Redis } from 'ioredis'
import t from 'tap'
import { build } from '../../app/app.js'
import { handlerTimeoutOf, readConfig } from '../../app/config.js'
import { loggerOptions } from '../../app/logger.js'
import { recipientOf } from '../../app/recipient.js'
import { folderOf } from '../helper/folder.js'
import { gate } from '../helper/gate.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { operator, PAYMENT } from './bound.js'
import { ask, E164, resend, status, verify, wrong } from './captcha.js'
import { inject, lastCode, post } from './helper.js'
import { startMail } from './smtp.js'

/** Everything that Redis holds: names and values, whatever their type. */
async function contentOf(redis: Redis): Promise<string> {
  const keys = await redis.keys('*')
  const values = await Promise.all(
    keys.map(async (key): Promise<unknown> => {
      const type = await redis.type(key)
      if (type === 'string') return redis.getBuffer(key)
      if (type === 'hash') return Object.entries(await redis.hgetall(key))
      if (type === 'zset') return redis.zrange(key, '0', '-1')
      throw new Error(`a ${type} that this test does not read`)
    })
  )
  return [
    ...keys,
    ...values.map(value => (Buffer.isBuffer(value) ? value.toString('latin1') : `${value}`))
  ].join('\n')
}

t.test(
  'no recipient, address, code or key in logs, events, errors, metrics and Redis after a busy run',
  async t => {
    const folder = folderOf(t)
    const { lines, stream } = logStream()
    let events = ''
    for (const name of ['fastify-send-limit:decision', 'verification-api:audit']) {
      const hear = (event: unknown) => void (events += `${JSON.stringify(event)}\n`)
      channel(name).subscribe(hear)
      t.teardown(() => channel(name).unsubscribe(hear))
    }
    const redis = await startRedis(t)
    const mailbox = await startMail(t)
    const config = readConfig({
      NODE_ENV: 'test',
      LOG_LEVEL: 'trace',
      REDIS_URL: redis.url,
      LIMIT_SECRET: 'a secret of these tests',
      API_KEYS: 'secret-key-one:first',
      ...operator(t).env,
      ADMIN_KEY: 'secret-key-of-the-operator',
      AUDIT_LOG: join(folder, 'audit.log'),
      SMTP_URL: mailbox.url,
      MAIL_FROM: 'shop@example.com'
    })
    const app = await build(config, { logStream: stream })
    t.teardown(() => app.close())
    let errors = ''
    const headers = { 'x-api-key': 'secret-key-one', 'x-admin-key': 'secret-key-of-the-operator' }
    const keep = async <A extends { status: number; body: unknown }>(answer: Promise<A>): Promise<A> => {
      const got = await answer
      if (got.status >= 400) errors += `${JSON.stringify(got.body)}\n`
      return got
    }

    const { body } = await keep(
      ask(app, { purpose: 'login' }, { headers: { ...headers, 'idempotency-key': 'a' } })
    )
    await keep(ask(app, { purpose: 'login' }, { headers: { ...headers, 'idempotency-key': 'a' } }))
    const code = lastCode(app, E164)
    await keep(ask(app, { phone: '138 0013 8000' }, { headers }))
    await keep(ask(app, { phone: '13800138000x' }, { headers }))
    await keep(ask(app, { phone: '13800138000', purpose: 'p13800138000' }, { headers }))
    await keep(verify(app, body.id, wrong(code), {}, { headers }))
    const payment = { phone: '13912345678', purpose: 'payment', params: PAYMENT }
    for (const payee of ['Zoë\n', PAYMENT.payee]) {
      const paid = { ...payment, params: { ...PAYMENT, payee } }
      const { id } = (await keep(post(app, '/v1/captcha', paid, { headers }))).body
      if (id)
        await keep(verify(app, id, wrong(lastCode(app, '+8613912345678')), { params: PAYMENT }, { headers }))
    }
    await keep(resend(app, body.id, { headers }))
    await keep(status(app, body.id, { headers }))
    for (let i = 0; i < 6; i++) {
      const payload = { phone: '13800138000', template: 'order-shipped', params: { order: 'ORDER-7788' } }
      await keep(post(app, '/v1/sms', payload, { headers }))
    }
    await keep(
      inject(app, { method: 'POST', url: '/v1/captcha', headers, payload: { email: 'jane.doe@example.com' } })
    )
    const mail = { to: 'jane.doe@example.com', template: 'welcome', params: { name: 'Jane' } }
    await keep(post(app, '/v1/mail', { ...mail, to: 'jane.doe@exa mple.com' }, { headers }))
    for (const mode of ['refuse', 'defer', 'accept'] as const) {
      mailbox.mode = mode
      await keep(post(app, '/v1/mail', mail, { headers }))
    }
    for (const action of ['lookup', 'block', 'lookup', 'unblock']) {
      const url = `/v1/admin/recipients/${action}`
      t.equal((await keep(post(app, url, { phone: '13800138000' }, { headers }))).status, 200, action)
    }
    await keep(post(app, '/v1/admin/recipients/block', { email: 'jane.doe@example.com' }, { headers }))
    await keep(post(app, '/v1/captcha', { email: 'Jane.Doe@example.com', purpose: 'login' }, { headers }))
    await keep(inject(app, { url: '/v1/captcha/13800138000?to=jane.doe@example.com', headers }))
    await keep(inject(app, { url: '/%zz13800138000', headers }))
    redis.client.on('error', () => {})
    const kept = await contentOf(redis.client)
    for (const prefix of ['captcha:', 'sl:', 'idempotency:', 'list:']) t.match(kept, prefix)
    await redis.kill()
    await keep(ask(app, { purpose: 'login' }, { headers }))
    await keep(verify(app, body.id, code, {}, { headers }))
    const metrics = (await app.inject('/metrics')).body
    const log = lines.join('')
    const trail = readFileSync(join(folder, 'audit.log'), 'utf8')

    t.match(log, /refused by limit/)
    t.match(log, /not sent/)
    t.match(log, /"code":"CODES_UNAVAILABLE"/)
    t.match(trail, /"recipient":"\+86\*{7}8000"/)
    const personal = [
      '13800138000',
      '138 0013',
      '3800138',
      'jane.doe',
      'Jane',
      'ORDER-7788',
      PAYMENT.amount,
      'Söhne',
      'secret-key',
      '192.0.2.1'
    ]
    for (const [where, text] of Object.entries({ log, events, errors, kept, metrics, trail })) {
      t.not(text, '', `there is something in ${where}`)
      for (const one of personal) t.notOk(text.includes(one), `${one} in ${where}`)
      t.notMatch(text, new RegExp(`(?<![\\d.])${code}(?![\\d.])`), `the code in ${where}`)
    }
  }
)

t.test('the log has no query of a request whose handler answered after it was cut off', async t => {
  const { lines, stream } = logStream()
  const config = readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'trace' })
  const app = await build(config, { logStream: stream })
  t.teardown(() => app.close())
  const [goes, leaves] = [gate(), gate()]
  const handler = () => goes.opened.then(() => ({}))
  app.get('/left', handler)
  app.get('/leaving', { onSend: () => leaves.opened }, handler)
  await app.ready()
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const [left, leaving] = ['/left', '/leaving'].map(path => app.inject(`${path}?to=jane.doe@example.com`))
  await turn()
  mock.timers.tick(handlerTimeoutOf(config))
  t.equal((await left)?.statusCode, 503)
  goes.open()
  await turn()
  leaves.open()
  t.equal((await leaving)?.statusCode, 503)
  const again = lines.filter(line => line.includes('Reply was already sent'))
  for (const path of ['/left', '/leaving'])
    t.ok(
      again.some(line => line.includes(path)),
      path
    )
  t.notMatch(lines.join(''), 'jane.doe')
})

t.test('members that would name a person are not logged, at the top or one level down', async t => {
  const { lines, stream } = logStream()
  const app = fastify({ logger: loggerOptions(readConfig({ NODE_ENV: 'test' }), stream) })
  t.teardown(() => app.close())
  const personal = Object.fromEntries(
    ['phone', 'to', 'email', 'body', 'text', 'headers', 'params'].map(name => [name, `secret ${name}`])
  )
  const err = Object.assign(new Error('broken'), { code: 'E', command: { args: ['secret argument'] } })
  app.log.error({ ...personal, message: personal, err }, 'something')
  app.log.warn(err)
  t.match(lines.join(''), '"message":"broken"')
  t.notMatch(lines.join(''), 'secret')
})

t.test('a masked phone number hides four digits or more', async t => {
  for (const [phone, masked] of [
    ['+8613800138000', '+86*******8000'],
    ['+4791234567', '+47****4567'],
    ['+50051234', '+50****34'],
    ['+2908999', '+29****9']
  ] as const) {
    t.equal(recipientOf({ phone }, { region: 'CN' }).masked, masked)
  }
})

t.test('a masked mail address shows its first letter and its domain', async t => {
  for (const [email, masked] of [
    ['jane.doe@example.com', 'j***@example.com'],
    ['😀jane@example.com', '😀***@example.com'],
    ['"jane@home"@example.com', '"***@example.com']
  ] as const) {
    t.equal(recipientOf({ email }, { region: 'CN' }).masked, masked)
  }
})

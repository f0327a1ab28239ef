import { Writable } from 'node:stream'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { startRedis } from '../helper/redis.js'
import { lastCode, post, wrong } from './helper.js'
import { startMail } from './smtp.js'

t.test('no number, address, code or key in logs, metrics and Redis after a busy run', async t => {
  let log = ''
  const logStream = new Writable({
    write(chunk, _encoding, done) {
      log += chunk
      done()
    }
  })
  const redis = await startRedis(t)
  const mailbox = await startMail(t)
  const config = readConfig({
    NODE_ENV: 'test',
    LOG_LEVEL: 'trace',
    REDIS_URL: redis.url,
    LIMIT_SECRET: 'a secret of these tests',
    API_KEYS: 'secret-key-one:first',
    SMTP_URL: mailbox.url,
    MAIL_FROM: 'shop@example.com'
  })
  const app = await build(config, { logStream })
  t.teardown(() => app.close())

  const headers = { 'x-api-key': 'secret-key-one' }
  const captcha = await post(app, '/v1/captcha', { phone: '13800138000', purpose: 'login' })
  const code = lastCode(app, '+8613800138000')
  await post(app, '/v1/captcha', { phone: '138 0013 8000', purpose: 'login' })
  await post(app, '/v1/captcha', { phone: '13800138000x', purpose: 'login' })
  await post(app, '/v1/captcha', { phone: '13800138000', purpose: '13800138000' })
  await post(app, '/v1/captcha/verify', { id: captcha.body.id, code: wrong(code) })
  for (let i = 0; i < 3; i++) {
    const params = { order: 'ORDER-7788' }
    await post(app, '/v1/sms', { phone: '13800138000', template: 'order-shipped', params }, { headers })
  }
  mailbox.mode = 'refuse'
  const refused = await post(
    app,
    '/v1/mail',
    { to: 'jane.doe@example.com', template: 'welcome', params: { name: 'Jane' } },
    { headers }
  )
  t.equal(refused.status, 502)
  await app.inject({ url: '/v1/captcha/13800138000?to=jane.doe@example.com', headers })
  await app.inject({ url: '/%zz13800138000', headers })
  redis.client.on('error', () => {})
  const keys = await redis.client.keys('*')
  const values = await Promise.all(keys.map(key => redis.client.getBuffer(key)))
  t.ok(keys.some(key => key.startsWith('captcha:')))
  const kept = `${keys.join('\n')}\n${values.map(value => value?.toString('latin1')).join('\n')}`
  await redis.kill()
  await post(app, '/v1/captcha', { phone: '13800138000', purpose: 'login' })
  await post(app, '/v1/captcha/verify', { id: captcha.body.id, code })
  const metrics = (await app.inject('/metrics')).body

  t.match(log, /refused by limit/)
  t.match(log, /not sent/)
  t.match(log, /"code":"CODES_UNAVAILABLE"/)
  const personal = ['13800138000', '138 0013', 'jane', 'Jane', 'ORDER-7788', 'secret-key-one', '192.0.2.1']
  for (const [where, text] of Object.entries({ log, kept, metrics })) {
    for (const one of personal) t.notMatch(text, one, `${one} in ${where}`)
    t.notMatch(text, new RegExp(`(?<![\\d.])${code}(?![\\d.])`), `the code in ${where}`)
  }
})

import t from 'tap'
import { read } from '../docs/blocks.js'
import { startRedis } from '../helper/redis.js'
import { ADMIN_KEY, KEY, lastCode, startApp } from './helper.js'

const PHONE = { phone: '13800138000' }

t.test('the API needs no other rights in Redis than those in docs/deployment.md', async t => {
  const { client, port } = await startRedis(t)
  const [, rights = ''] = /^user api (.+)$/m.exec(read('docs/deployment.md')) ?? []
  await client.call('ACL', 'SETUSER', 'api', ...rights.split(' '))
  await client.config('RESETSTAT')
  const app = await startApp(
    t,
    {
      REDIS_URL: `redis://api:API_PASSWORD@127.0.0.1:${port}`,
      LIMIT_SECRET: 'a secret of these tests',
      ON_STORE_ERROR: 'deny',
      ADMIN_KEY
    },
    {}
  )
  const ask = async (method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object, key?: string) => {
    const headers = { 'x-api-key': KEY, 'x-admin-key': ADMIN_KEY, ...(key && { 'idempotency-key': key }) }
    const answer = await app.inject({ method, url, headers, ...(payload && { payload }) })
    return { status: answer.statusCode, body: answer.body === '' ? {} : answer.json() }
  }
  const admin = (what: string, more = {}) =>
    ask('POST', `/v1/admin/recipients/${what}`, { ...PHONE, ...more })
  const begin = () => ask('POST', '/v1/captcha', { ...PHONE, purpose: 'register' }, 'one')

  t.match(await ask('GET', '/readyz'), { status: 200 })
  const { body, status } = await begin()
  t.equal(status, 202)
  const { id } = body
  t.match(await begin(), { status: 202, body: { id } }, 'the kept answer is repeated')
  t.match(await ask('GET', `/v1/captcha/${id}`), { status: 200 })
  t.match(await ask('POST', `/v1/captcha/${id}/resend`), { status: 429 })
  for (const what of ['lookup', 'block', 'lookup', 'unblock'])
    t.match(await admin(what), { status: 200 }, what)
  t.match(await admin('allow', { duration: '1h' }), { status: 200 })
  t.match(await ask('POST', `/v1/captcha/${id}/resend`), { status: 202 })
  t.match(await ask('GET', '/v1/admin/recipients'), { status: 200, body: { recipients: [{}] } })
  const code = lastCode(app, '+8613800138000')
  const wrong = code === '000000' ? '111111' : '000000'
  t.match(await ask('POST', '/v1/captcha/verify', { id, code: wrong }), { status: 422 })
  t.match(await ask('POST', '/v1/captcha/verify', { id, code }), { status: 200 })
  const other = await ask('POST', '/v1/captcha', { ...PHONE, purpose: 'login' })
  t.match(other, { status: 202 })
  t.match(await ask('DELETE', `/v1/captcha/${other.body.id}`), { status: 204 })

  t.strictSame(await client.call('ACL', 'LOG'), [], 'Redis refuses no command of the API')
  t.notMatch(await client.info('errorstats'), /^errorstat_/m, 'and it knows each')
})

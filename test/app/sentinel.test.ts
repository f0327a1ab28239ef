import t from 'tap'
import { startRedis } from '../helper/redis.js'
import { startSentinel } from '../helper/sentinel.js'
import { until } from '../helper/until.js'
import { ask, verify } from './captcha.js'
import { inject, startApp } from './helper.js'
import { provider } from './provider.js'

t.test('the API follows the master that its sentinels name', async t => {
  const started = async (...args: string[]) => {
    const server = await startRedis(t, { args: ['--repl-diskless-sync-delay', '0', ...args] })
    for (const name of ['masterauth', 'requirepass']) await server.client.config('SET', name, 'of redis')
    return server
  }
  const first = await started()
  await started('--replicaof', `127.0.0.1 ${first.port}`)
  const options = { name: 'main', port: first.port, password: 'sentinels', login: '"of redis"' }
  const sentinel = await startSentinel(t, options)
  const sms = provider()
  const env = { LIMIT_SECRET: 'a secret of these tests', REDIS_URL: '' }
  const sentinels = `redis://:of%20redis@127.0.0.1:${sentinel.port}/1`
  await t.rejects(startApp(t, { ...env, REDIS_URL: `redis://:sentinels@127.0.0.1:${sentinel.port}` }, {}), {
    message: 'REDIS_URL names a sentinel: set REDIS_SENTINEL to the name of its master.'
  })
  const app = await startApp(
    t,
    {
      ...env,
      // Nobody is at the second.
      REDIS_URL: `${sentinels}, redis://127.0.0.1:1`,
      REDIS_SENTINEL: 'main',
      REDIS_SENTINEL_PASSWORD: 'sentinels',
      STORE_TIMEOUT: '200'
    },
    { senders: { sms } }
  )
  const ready = async () => (await inject(app, { url: '/readyz' })).status === 200
  t.ok(await ready())
  const { id } = (await ask(app)).body
  const code = sms.lastCode()
  t.match(await first.client.info('keyspace'), /^db1:/m, 'in the database that the URL names')
  t.equal(await first.client.wait(1, 5_000), 1, 'the replica has all')
  await first.kill()
  await until(async () => !(await ready()), 'the loss')
  await until(ready, 'an API that has followed', 20_000)
  t.equal((await verify(app, id, code)).status, 200, 'a code that was sent before the fail-over')
})

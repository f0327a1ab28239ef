import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { way } from '../helper/way.js'
import { ask } from './captcha.js'
import { post, startApp } from './helper.js'

t.test('a fail-over under load behind one name causes no warning of a leak', async t => {
  const [former, next] = [await startRedis(t), await startRedis(t)]
  let { port } = former
  const { url } = await way(t, () => port)
  const warnings: string[] = []
  const hear = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`)
  process.on('warning', hear)
  t.teardown(() => process.off('warning', hear))
  const app = await startApp(t, { REDIS_URL: url, LIMIT_SECRET: 'a secret of these tests' }, {})
  await ask(app)
  // As FAILOVER does: commands that come meanwhile are answered by a server that is a replica by then.
  await former.client.call('CLIENT', 'PAUSE', 10_000, 'WRITE')
  const all = []
  for (let i = 0; i < 20; i++) {
    all.push(post(app, '/v1/sms', { phone: `138001380${10 + i}`, template: 'password-changed' }))
    await sleep(10)
  }
  await former.client.replicaof('127.0.0.1', next.port)
  port = next.port
  await former.client.call('CLIENT', 'UNPAUSE')
  await Promise.all(all)
  await until(async () => (await ask(app, { phone: '13900139000' })).status === 202, 'the next Redis')
  await sleep(0)
  t.same(warnings, [])
})

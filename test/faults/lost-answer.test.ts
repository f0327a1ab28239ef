import { once } from 'node:events'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Rule } from '../../plugin/index.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { way } from '../helper/way.js'
import { openOn } from './process.js'

t.test('an answer lost with its connection is no outage of a Redis that has answered since', async t => {
  const server = await startRedis(t)
  const client = new Redis(server.port, '127.0.0.1', {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => 10
  })
  client.on('error', () => {})
  await once(client, 'ready')
  const { app, changes } = await openOn(t, client, { timeout: 2_000 })
  const storeOf = async (daily: string) => (await app.limit.reserve({ daily })).store
  t.equal(await storeOf('a'), 'redis')

  const connection = client.stream
  const before = connection.bytesWritten
  process.kill(server.pid, 'SIGSTOP')
  const lost = storeOf('a')
  await until(() => connection.bytesWritten > before, 'its command')
  connection.destroy()
  process.kill(server.pid, 'SIGCONT')
  await once(client, 'ready')
  t.equal(await storeOf('b'), 'redis', 'a later decision is answered over the new connection')
  t.equal(await lost, 'memory')
  t.equal(await storeOf('b'), 'redis', 'there is no outage')
  t.strictSame(changes(), [])
})

t.test(
  'a slot that Redis counted too late is logged, and given back as soon as Redis takes writes',
  async t => {
    const { client: admin, port } = await startRedis(t)
    let held: (() => void) | undefined
    const { url } = await way(
      t,
      () => port,
      (client, server) =>
        client.on('data', data => {
          if (held || !data.includes(':once')) return
          server.pause()
          held = () => server.resume()
        })
    )
    const client = new Redis(url, { autoResendUnfulfilledCommands: false }).on('error', () => {})
    const { app, lines } = await openOn(t, client, { onStoreError: 'deny' })
    const counted = async () => (await admin.keys('*:once')).length
    const told = /^what redis counted too late stays counted, unless a later try succeeds$/
    await t.rejects(app.limit.reserve({ once: 'a' }), { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' })
    t.equal(await counted(), 1)
    await admin.config('SET', 'min-replicas-to-write', '1')
    held?.()
    await until(() => lines.some(line => told.test(JSON.parse(line).msg)), 'its line in the log')
    t.equal(await counted(), 1)
    await admin.config('SET', 'min-replicas-to-write', '0')
    await until(async () => (await counted()) === 0, 'the slot')
  }
)

t.test('a renewal, a refund and a release that fail are each logged as what they are', async t => {
  const { client: admin, port, kill } = await startRedis(t)
  admin.on('error', () => {})
  const client = new Redis(port, { autoResendUnfulfilledCommands: false }).on('error', () => {})
  const rules: Rule[] = [
    { name: 'log', key: { value: 'body.who' }, limits: [{ max: 5, window: '1h' }] },
    { name: 'order', key: { value: 'body.who' }, lock: '900ms' }
  ]
  const { app, lines } = await openOn(t, client, { rules })
  const isLogged = (begin: RegExp) => lines.some(line => begin.test(JSON.parse(line).msg))
  const decision = await app.limit.reserve({ log: 'a', order: 'a' })
  await kill()
  await until(() => isLogged(/^a lock was not renewed;/), 'a renewal that fails')
  t.notOk(isLogged(/^a (refund failed|lock was not released)/))
  await decision.refund()
  t.ok(isLogged(/^a refund failed;/))
  await decision.release()
  t.ok(isLogged(/^a lock was not released;/))
})

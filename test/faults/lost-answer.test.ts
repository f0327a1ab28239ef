import { once } from 'node:events'
import { Redis } from 'ioredis'
import t from 'tap'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { openOn } from './process.js'

t.test('an answer that a lost connection has taken is no outage of a Redis that answers since', async t => {
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
  t.equal(await storeOf('b'), 'redis', 'asked later, answered')
  t.equal(await lost, 'memory')
  t.equal(await storeOf('b'), 'redis', 'Redis has answered all the time')
  t.strictSame(changes(), [])
})

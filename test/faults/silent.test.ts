import { once } from 'node:events'
import { Redis } from 'ioredis'
import t from 'tap'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { way } from '../helper/way.js'
import { openOn } from './process.js'

const TIMEOUT_MS = 200

t.test('a lock taken just as the connection went silent is released over the next connection', async t => {
  const server = await startRedis(t)
  const { url, ends } = await way(t, () => server.port)
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => 10,
    socketTimeout: 4 * TIMEOUT_MS
  })
  client.on('error', () => {})
  await once(client, 'ready')
  const { app } = await openOn(t, client, { timeout: TIMEOUT_MS })
  const isLocked = async () => (await server.client.keys('*:lock')).length === 1

  for (const [client, server] of ends) server.unpipe(client)
  const asked = app.limit.reserve({ order: 'a' })
  await until(isLocked, 'the lock')
  for (const [client, server] of ends) client.unpipe(server)
  const decision = await asked
  t.equal(decision.store, 'memory')
  decision.end()
  await until(async () => !(await isLocked()), 'the release')
})

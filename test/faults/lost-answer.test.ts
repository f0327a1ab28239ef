import { once } from 'node:events'
import Fastify, { type FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import { limitPlugin, type Rule } from '../../plugin/index.js'
import { logStream } from '../helper/log-stream.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'

const rules: Rule[] = [{ name: 'once', key: { value: 'body.a' }, limits: [{ max: 9, window: '10m' }] }]

t.test('an answer that a lost connection has taken is no outage of a Redis that answers since', async t => {
  const server = await startRedis(t)
  const client = new Redis(server.port, '127.0.0.1', {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => 10
  })
  client.on('error', () => {})
  await once(client, 'ready')
  const { lines, stream } = logStream()
  const app = Fastify({ logger: { stream } }) as unknown as FastifyInstance
  t.teardown(async () => {
    await app.close()
    client.disconnect()
  })
  await app.register(limitPlugin, { client, rules, secret: '0123456789abcdef', timeout: 2_000 })
  await app.ready()
  const storeOf = async (once: string) => (await app.limit.reserve({ once })).store
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
  t.notMatch(lines.join(''), /does not decide/)
})

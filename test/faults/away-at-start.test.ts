import Fastify, { type FastifyInstance } from 'fastify'
import { Cluster } from 'ioredis'
import t from 'tap'
import { limitPlugin, type Rule } from '../../plugin/index.js'
import { startCluster } from '../helper/cluster.js'
import { logStream } from '../helper/log-stream.js'
import { until } from '../helper/until.js'

const rules: Rule[] = [{ name: 'once', key: { value: 'body.a' }, limits: [{ max: 5, window: '10m' }] }]

t.test('a cluster that was away at the start: its return is logged as its loss is', async t => {
  const cluster = await startCluster(t)
  const client = new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]?.port as number }], {
    enableOfflineQueue: false,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    lazyConnect: true
  })
  client.on('error', () => {})
  const { lines, stream } = logStream()
  const app = Fastify({ logger: { stream } }) as unknown as FastifyInstance
  t.teardown(async () => {
    await app.close()
    client.disconnect()
  })
  await app.register(limitPlugin, {
    client,
    rules,
    secret: '0123456789abcdef',
    // Whatever time Redis takes to answer, that is no second loss.
    timeout: 5_000,
    onStoreError: 'deny'
  })
  const { connect } = client
  client.connect = () => Promise.reject(new Error('away'))
  await app.ready()
  await t.rejects(app.limit.reserve({ once: 'a' }), { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' })
  client.connect = connect
  await client.connect()
  const decides = () =>
    app.limit.reserve({ once: 'a' }).then(
      () => true,
      () => false
    )
  await until(decides, 'a decision')
  const told = lines.map(line => JSON.parse(line).msg).filter(msg => /decide/.test(msg))
  t.strictSame(told, ['redis does not decide', 'redis decides again'])
})

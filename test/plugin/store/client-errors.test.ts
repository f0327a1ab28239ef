import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import Fastify, { type FastifyInstance } from 'fastify'
import { Cluster, Redis } from 'ioredis'
import t from 'tap'
import { limitPlugin } from '../../../plugin/index.js'
import type { RedisClient } from '../../../plugin/store/client.js'
import { handleErrors } from '../../../plugin/store/client-errors.js'
import { makeCertificate } from '../../helper/certificate.js'
import { folderOf } from '../../helper/folder.js'
import { freePort, startRedis } from '../../helper/redis.js'
import { strays } from '../../helper/strays.js'
import { until } from '../../helper/until.js'
import { way } from '../../helper/way.js'

const clusterOf = (node: Redis) =>
  ({ isCluster: true, nodes: () => [node], on: () => {} }) as unknown as RedisClient

t.test(
  'apps that share the client of a cluster add one listener to it in all, even after they close',
  async t => {
    const client = new Cluster([{ port: 1 }], { lazyConnect: true, retryDelayOnFailover: 0 })
    t.teardown(() => client.disconnect())
    for (let i = 0; i < 11; i++) {
      const app = Fastify() as unknown as FastifyInstance
      await app.register(limitPlugin, { client, secret: '0123456789abcdef', timeout: 50 })
      await app.close()
    }
    t.equal(client.listenerCount('+node'), 1)
  }
)

t.test('the owner of the client can still call ASKING, with a callback or a promise', async t => {
  const { port } = await startRedis(t)
  const node = new Redis(port)
  t.teardown(() => node.disconnect())
  handleErrors(clusterOf(node))
  let called = false
  node.asking(() => (called = true))
  await until(() => called, 'its call')
  await t.rejects(node.asking(), /cluster support disabled/)
})

t.test(
  'an ASKING that fails raises no unhandled rejection, even on a node that was there before',
  async t => {
    const node = new Redis({ port: 1, lazyConnect: true, retryStrategy: () => null }).on('error', () => {})
    const stray = strays(t)
    handleErrors(clusterOf(node))
    void node.asking()
    await until(() => node.status === 'end', 'its loss')
    await new Promise(setImmediate)
    t.same(stray, [])
  }
)

for (const [whose, heardBy] of [
  ['a client', (client: Redis) => client as unknown as RedisClient],
  ['a node', clusterOf]
] as const)
  t.test(`a broken TLS record ends a connection of ${whose}, and raises no unhandled error`, async t => {
    const { cert, key } = makeCertificate(folderOf(t), 'DNS:localhost')
    const tlsPort = await freePort()
    const files = ['--tls-cert-file', cert, '--tls-key-file', key]
    const { pid } = await startRedis(t, {
      args: ['--tls-port', `${tlsPort}`, ...files, '--tls-auth-clients', 'no']
    })
    const { url, ends } = await way(t, () => tlsPort)
    const tls = { ca: readFileSync(cert), servername: 'localhost' }
    const client = new Redis(url, { tls, maxRetriesPerRequest: 0 })
    t.teardown(() => client.disconnect())
    const stray = strays(t)
    await client.ping()
    handleErrors(heardBy(client))
    for (const again of [1, 2]) {
      // So that Redis cannot end the connection itself.
      process.kill(pid, 'SIGSTOP')
      const failed = once(client, 'error')
      ends.at(-1)?.[0].write('this is no record of TLS')
      await failed
      await until(() => ends.length === again + 1, 'another connection')
      process.kill(pid, 'SIGCONT')
      const ping = () =>
        client.ping().then(
          () => true,
          () => false
        )
      await ping()
      await until(ping, 'an answer')
      t.equal(ends.length, again + 1)
    }
    t.same(stray, [])
  })

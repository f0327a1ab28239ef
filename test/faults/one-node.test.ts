import { setTimeout as sleep } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import { Cluster } from 'ioredis'
import t, { type Test } from 'tap'
import { limitPlugin, type Rule, type SendLimitOptions } from '../../plugin/index.js'
import { nodesOf, slotOf } from '../../plugin/store/nodes.js'
import { type ClusterNode, type RedisCluster, startCluster } from '../helper/cluster.js'
import { logStream } from '../helper/log-stream.js'

const TIMEOUT_MS = 200
const rules: Rule[] = [
  { name: 'once', key: { value: 'body.who' }, limits: [{ max: 1, window: '1h' }] },
  { name: 'order', key: { value: 'body.who' }, lock: '30m' },
  { name: 'both', key: { value: 'body.who' }, limits: [{ max: 1, window: '1h' }] },
  { name: 'daily', key: { value: 'body.who' }, limits: [{ max: 99, per: 'day' }] },
  { name: 'other', key: { value: 'body.other' }, limits: [{ max: 99, window: '1h' }] }
]

/** A process on this cluster, and what it logs of Redis. */
async function open(t: Test, cluster: RedisCluster, options: SendLimitOptions) {
  const { lines, stream } = logStream()
  const client = new Cluster([cluster.nodes[0]?.port as number], {
    enableOfflineQueue: false,
    retryDelayOnFailover: 0,
    lazyConnect: true
  })
  client.on('error', () => {})
  await client.connect()
  const app = Fastify({ logger: { stream } }) as unknown as FastifyInstance
  t.teardown(async () => {
    await app.close()
    client.disconnect()
  })
  const secret = '0123456789abcdef'
  await app.register(limitPlugin, { client, rules, secret, timeout: TIMEOUT_MS, ...options })
  await app.ready()
  const changes = () =>
    lines
      .map(line => JSON.parse(line))
      .filter(({ msg }) => /^redis (does not decide|decides again)$/.test(msg))
  return { app, client, changes }
}

/** A value whose keys stand on each node. */
async function values(cluster: RedisCluster, app: FastifyInstance): Promise<string[]> {
  const found: string[] = []
  for (let i = 0; found.filter(Boolean).length < 3; i++) {
    const { keys } = await app.limit.reserve({ once: `p${i}` })
    found[await cluster.nodeOf(`sl:{${keys.once}}:x`)] ??= `p${i}`
  }
  await cluster.flush()
  return found
}

const breaks: Record<string, (t: Test, node: ClusterNode) => unknown> = {
  hangs: (t, { pid }) => {
    process.kill(pid, 'SIGSTOP')
    t.teardown(() => process.kill(pid, 'SIGCONT'))
  },
  'is gone': (_, node) => node.kill()
}

for (const [how, destroy] of Object.entries(breaks)) {
  t.test(`one node ${how}: what stands on the others is decided as before`, async t => {
    const cluster = await startCluster(t)
    for (const { client } of cluster.nodes) await client.config('SET', 'cluster-require-full-coverage', 'no')
    const start = (options: SendLimitOptions) => open(t, cluster, options)
    const memories = [await start({}), await start({}), await start({})] as const
    const denies = await start({ onStoreError: 'deny' })
    const [here, there, lost] = (await values(cluster, denies.app)) as [string, string, string]
    await destroy(t, cluster.nodes[2] as ClusterNode)

    const admitted: string[] = []
    for (let round = 0; round < 3; round++) {
      for (const { app } of memories) {
        t.equal((await app.limit.reserve({ both: lost })).store, 'memory')
        const keys = { once: here, order: there, both: there }
        if ((await app.limit.reserve(keys)).allowed) admitted.push('a send')
        t.equal((await app.limit.reserve({ other: lost, once: here })).store, 'memory', 'it needs both')
      }
      await t.rejects(denies.app.limit.reserve({ once: lost }), /cannot be checked/)
      t.equal((await denies.app.limit.reserve({ once: here })).store, 'redis')
      await sleep(TIMEOUT_MS * 1.2)
    }
    t.strictSame(admitted, ['a send'])
    for (const { changes } of [...memories, denies]) {
      const [change, ...more] = changes()
      t.match(change, { msg: 'redis does not decide', node: `127.0.0.1:${cluster.nodes[2]?.port}` })
      t.strictSame(more, [])
    }
  })
}

t.test('a foreign value under a key is no outage of its node', async t => {
  const cluster = await startCluster(t)
  const { app, client, changes } = await open(t, cluster, {})
  const [here, there] = (await values(cluster, app)) as [string, string]
  await app.limit.reserve({ daily: here })
  const [held = {}] = await cluster.contents()
  const [key] = Object.keys(held).filter(name => name.includes('daily'))
  for (const value of ['abc', 'something']) {
    await client.set(key as string, value)
    t.equal((await app.limit.reserve({ daily: here, other: there })).store, 'memory', value)
    t.equal((await app.limit.reserve({ once: here, other: there })).store, 'redis')
  }
  t.strictSame(changes(), [])
})

t.test('a key is on the node that the cluster says', async t => {
  const cluster = await startCluster(t)
  const client = await cluster.connect()
  const [first] = cluster.nodes
  for (const key of ['a', 'sl:{b}:x', '{b}{c}', 'a{}{b}', '{}', '{', '}{x}', 'é{ü}', '{{a}}b'])
    t.equal(slotOf(key), await first?.client.call('CLUSTER', 'KEYSLOT', key), key)
  for (const identity of ['a', 'b', 'c', 'd', 'e', 'f']) {
    const at = await cluster.nodeOf(`sl:{${identity}}`)
    t.equal(nodesOf(client, 'sl:')(identity), `127.0.0.1:${cluster.nodes[at]?.port}`)
  }
  const prefixed = new Cluster([], { keyPrefix: 'x{a}', lazyConnect: true })
  prefixed.slots = client.slots
  t.equal(nodesOf(prefixed, 'sl:')('b'), nodesOf(client, 'sl:')('a'), 'the hash tag is the first')
  t.equal(nodesOf(new Cluster([], { lazyConnect: true }), 'sl:')('b'), '')
})

import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { Cluster } from 'ioredis'
import t, { type Test } from 'tap'
import type { Keys, SendLimitOptions } from '../../plugin/index.js'
import { nodesOf, slotOf } from '../../plugin/store/nodes.js'
import { beginMove, type ClusterNode, type RedisCluster, startCluster } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { way } from '../helper/way.js'
import { open, TIMEOUT_MS, values } from './process.js'

const breaks: Record<string, (t: Test, node: ClusterNode) => unknown> = {
  hangs: (t, { pid }) => {
    process.kill(pid, 'SIGSTOP')
    t.teardown(() => process.kill(pid, 'SIGCONT'))
  },
  'is gone': (_, node) => node.kill()
}

/** For tests that lose no node: no answer is taken for lost. */
const patient = { timeout: 10_000 }

/** A further value whose keys are on the first node. */
async function another(cluster: RedisCluster, app: FastifyInstance): Promise<string> {
  for (let i = 0; ; i++) {
    const { keys } = await app.limit.reserve({ both: `q${i}` })
    if ((await cluster.nodeOf(`sl:{${keys.both}}`)) === 0) return `q${i}`
  }
}

for (const [how, destroy] of Object.entries(breaks)) {
  t.test(`when one node ${how}, limits on the other nodes are decided as before`, async t => {
    const cluster = await startCluster(t)
    for (const { client } of cluster.nodes) await client.config('SET', 'cluster-require-full-coverage', 'no')
    const start = (options: SendLimitOptions) => open(t, cluster, options)
    const memories = [await start({}), await start({}), await start({})] as const
    const denies = await start({ onStoreError: 'deny' })
    const allows = await start({ onStoreError: 'allow' })
    const [here, there, lost] = (await values(cluster, denies.app)) as [string, string, string]
    const { client } = denies
    const looking = client.refreshSlotsCache.bind(client)
    let looks = 0
    client.refreshSlotsCache = done => {
      looks++
      looking(done)
    }
    await destroy(t, cluster.nodes[2] as ClusterNode)

    const admitted: string[] = []
    for (let round = 0; round < 3; round++) {
      for (const { app } of memories) {
        t.equal((await app.limit.reserve({ both: lost })).store, 'memory')
        const keys = { once: here, order: there, both: there }
        if ((await app.limit.reserve(keys)).allowed) admitted.push('a send')
        t.equal(
          (await app.limit.reserve({ other: lost, once: here })).store,
          'memory',
          'a decision over both nodes needs the memory'
        )
      }
      await t.rejects(denies.app.limit.reserve({ once: lost }), /cannot be checked/)
      t.equal((await denies.app.limit.reserve({ once: here })).store, 'redis')
      const partly = await allows.app.limit.reserve({ daily: here, once: lost })
      t.match(partly, { allowed: true, store: 'none' })
      t.same(
        partly.rules.map(({ name }) => name),
        ['daily'],
        '`once`, on the lost node, is not counted'
      )
      await partly.refund()
      const [daily] = (await allows.app.limit.peek({ daily: here })).rules
      t.match(daily, { limits: [{ remaining: 99 }] }, '`daily` was given back')
      const refused = await allows.app.limit.reserve({ both: there, once: lost })
      t.match(refused, { allowed: false, store: 'redis' }, 'only the rule on the live node was asked')
      await sleep(TIMEOUT_MS * 1.2)
    }
    t.strictSame(admitted, ['a send'])
    t.ok(looks >= 3, 'after each failure the client looks whether a replica has taken over')
    for (const { changes } of [...memories, denies, allows]) {
      const [change, ...more] = changes()
      t.match(change, { msg: 'redis does not decide', node: `127.0.0.1:${cluster.nodes[2]?.port}` })
      t.strictSame(more, [])
    }
  })
}

for (const kind of ['object', 'function'] as const) {
  t.test(`the loss of a node behind a natMap (${kind}) is logged once, under its mapped address`, async t => {
    const cluster = await startCluster(t)
    for (const { client } of cluster.nodes) await client.config('SET', 'cluster-require-full-coverage', 'no')
    const mapped: Record<string, { host: string; port: number }> = {}
    for (const { port } of cluster.nodes) {
      const refusing = (client: Socket, server: Socket) => server.on('close', () => client.destroy())
      const to = new URL((await way(t, () => port, refusing)).url)
      mapped[`127.0.0.1:${port}`] = { host: to.hostname, port: Number(to.port) }
    }
    const natMap = kind === 'object' ? mapped : (node: string) => mapped[node] ?? null
    const { app, changes } = await open(t, cluster, {}, { natMap })
    const [, , lost] = (await values(cluster, app)) as [string, string, string]
    await (cluster.nodes[2] as ClusterNode).kill()

    const end = performance.now() + TIMEOUT_MS * 4
    while (performance.now() < end) {
      t.equal((await app.limit.reserve({ daily: lost })).store, 'memory')
      await sleep(10)
    }
    const { port } = mapped[`127.0.0.1:${cluster.nodes[2]?.port}`] ?? {}
    const [change, ...more] = changes()
    t.match(change, { msg: 'redis does not decide', node: `127.0.0.1:${port}` })
    t.strictSame(more, [])
  })
}

t.test('a foreign value under a key is no outage of its node', async t => {
  const cluster = await startCluster(t)
  const { app, client, changes } = await open(t, cluster, patient)
  const [here, there] = (await values(cluster, app)) as [string, string]
  await app.limit.reserve({ daily: here })
  const [held = {}] = await cluster.contents()
  const [key] = Object.keys(held).filter(name => name.includes('daily'))
  for (const value of ['abc', 'something']) {
    await client.set(key as string, value)
    t.equal((await app.limit.reserve({ daily: here, other: there })).store, 'memory', value)
    const storeOf = async (keys: Keys) => (await app.limit.reserve(keys)).store
    // Until the sends that the memory admitted are carried over, both decide.
    await until(async () => (await storeOf({ once: here, other: there })) === 'redis', 'its decision')
  }
  t.strictSame(changes(), [])
})

t.test('a hash slot that is half moved is no outage of its node', async t => {
  const cluster = await startCluster(t)
  const { app, changes } = await open(t, cluster, patient)
  const [here] = (await values(cluster, app)) as [string]
  const { keys } = await app.limit.reserve({ once: here })
  const [first, second] = cluster.nodes as [ClusterNode, ClusterNode]
  const slot = slotOf(`sl:{${keys.once}}`)
  await beginMove(slot, first, second)

  t.match(
    await app.limit.reserve({ once: here }),
    { allowed: false, store: 'redis' },
    'a key that has not moved'
  )
  t.match(await app.limit.reserve({ daily: here }), { allowed: true, store: 'redis' }, 'a new key')
  t.match(await app.limit.reserve({ once: here, daily: here }), { store: 'memory' }, 'keys on both sides')
  const beside = await another(cluster, app)
  t.match(await app.limit.reserve({ daily: beside }), { store: 'redis' }, 'a key of another slot')
  t.strictSame(changes(), [])
})

t.test(
  'with a client that pipelines by itself, a hash slot that has moved is no outage and loses no refund',
  async t => {
    const cluster = await startCluster(t)
    const itself = { enableAutoPipelining: true, slotsRefreshInterval: 60_000 }
    const { app, changes } = await open(t, cluster, patient, itself)
    const { app: busy } = await open(t, cluster, { ...patient, onStoreError: 'allow' }, itself)
    const [here] = (await values(cluster, app)) as [string]
    const [first, second] = cluster.nodes as [ClusterNode, ClusterNode]
    const held = await app.limit.reserve({ once: here })
    const beside = await another(cluster, app)
    const slot = slotOf(`sl:{${held.keys.once}}`)
    const finish = await beginMove(slot, first, second)
    const together = [{ other: here }, { daily: beside }].map(keys => app.limit.reserve(keys))
    t.equal((await Promise.all(together))[0]?.store, 'memory', 'a new key, on the other side')
    t.strictSame(changes(), [])
    await finish()

    await Promise.all([held.refund(), app.limit.reserve({ daily: beside })])
    t.match(await app.limit.reserve({ once: here }), { allowed: true, store: 'redis' })
    t.strictSame(changes(), [])
    // From commands that are never sent alone the client does not learn where the slot is. Nothing is carried over here,
    // which would send one alone.
    const paired = () => Promise.all([here, beside].map(daily => busy.limit.reserve({ daily })))
    t.equal((await paired())[0]?.store, 'none')
    await until(async () => (await paired())[0]?.store === 'redis', 'a decision on its new node')
  }
)

t.test('a client that follows no redirection learns where a hash slot is that has moved', async t => {
  const cluster = await startCluster(t)
  const unled = { maxRedirections: 0, slotsRefreshInterval: 60_000 }
  const { app } = await open(t, cluster, { ...patient, onStoreError: 'allow' }, unled)
  const [here] = (await values(cluster, app)) as [string]
  const reserve = () => app.limit.reserve({ daily: here })
  const { keys } = await reserve()
  const [first, second] = cluster.nodes as [ClusterNode, ClusterNode]
  const finish = await beginMove(slotOf(`sl:{${keys.daily}}`), first, second)
  await finish()
  t.equal((await reserve()).store, 'none')
  await until(async () => (await reserve()).store === 'redis', 'a decision on its new node')
})

t.test('a hash slot that moves while the client gathers its own pipeline is no outage', async t => {
  const cluster = await startCluster(t)
  const itself = { enableAutoPipelining: true, slotsRefreshInterval: 60_000 }
  const { app, client, changes } = await open(t, cluster, patient, itself)
  const [here] = (await values(cluster, app)) as [string]
  const { keys } = await app.limit.reserve({ once: here })
  const [first, second] = cluster.nodes as [ClusterNode, ClusterNode]
  const beside = await another(cluster, app)
  const finish = await beginMove(slotOf(`sl:{${keys.once}}`), first, second)
  await finish()

  const pipeline = client.pipeline.bind(client)
  client.pipeline = commands => {
    client.pipeline = pipeline
    const gathered = pipeline(commands)
    const exec = gathered.exec.bind(gathered)
    gathered.exec = callback => {
      client.refreshSlotsCache(() => exec(callback))
      return gathered as never
    }
    return gathered
  }
  const decided = await Promise.all([here, beside].map(daily => app.limit.reserve({ daily })))
  t.strictSame(
    decided.map(({ store }) => store),
    ['memory', 'memory']
  )
  const again = async () => (await app.limit.reserve({ once: here })).store === 'redis'
  await until(again, 'the carry-over of what the memory admitted')
  t.strictSame(changes(), [])
})

t.test('the plugin finds the hash slot and the node of a key as the cluster does', async t => {
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
  t.equal(
    nodesOf(prefixed, 'sl:')('b'),
    nodesOf(client, 'sl:')('a'),
    'the hash tag is the first one in the key'
  )
  t.equal(nodesOf(new Cluster([], { lazyConnect: true }), 'sl:')('b'), '')
})

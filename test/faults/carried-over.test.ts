import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { beginMove, type ClusterNode, startCluster } from '../helper/cluster.js'
import { type RedisServer, startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { open, openOn, values } from './process.js'

/** A client that goes on reconnecting, and fails commands at once while there is no connection. */
function connect({ port }: RedisServer): Redis {
  const options = { enableOfflineQueue: false, autoResendUnfulfilledCommands: false, retryStrategy: () => 20 }
  return new Redis(port, '127.0.0.1', options).on('error', () => {})
}

/** Two processes on one Redis, and what moves the clock by which their memories measure. */
async function openTwo(t: Test) {
  const server = await startRedis(t)
  let passed = 0
  const clock = { monotonic: () => passed, wall: Date.now }
  const start = () => openOn(t, connect(server), { clock })
  const processes = await Promise.all([start(), start()])
  const advance = (ms: number) => {
    passed += ms
  }
  return { server, processes, advance }
}

/** Ways to break a Redis. Each returns what repairs it. */
const breaks: Record<string, (t: Test, server: RedisServer) => Promise<() => Promise<unknown>>> = {
  hangs: async (_, { pid }) => {
    process.kill(pid, 'SIGSTOP')
    return async () => process.kill(pid, 'SIGCONT')
  },
  'comes back empty': async (t, server) => {
    await server.kill()
    return () => startRedis(t, { port: server.port })
  },
  'was full': async (_, { client }) => {
    await client.config('SET', 'maxmemory', '1')
    return () => client.config('SET', 'maxmemory', '0')
  }
}

for (const [how, destroy] of Object.entries(breaks)) {
  t.test(`sends that two processes admit without a Redis that ${how} count in it afterwards`, async t => {
    const { server, processes, advance } = await openTwo(t)
    const repair = await destroy(t, server)
    // The first decision that Redis is asked for may be counted by Redis itself, too late.
    for (const { app } of processes) await app.limit.reserve({ other: 'first' })
    const sent = await Promise.all(
      processes.map(async ({ app }, i) => {
        const decision = await app.limit.reserve({ once: `who ${i}`, daily: 'all', other: 'all' })
        t.strictSame([decision.allowed, decision.store], [true, 'memory'])
        return decision
      })
    )
    const failed = await processes[0]?.app.limit.reserve({ daily: 'all' })
    await failed?.refund()
    advance(60_000)
    await repair()
    const isBack = () => processes.every(({ changes }) => changes().at(-1)?.msg === 'redis decides again')
    await until(isBack, 'its return')

    for (const [i, decision] of sent.entries()) {
      const { app } = processes[1 - i] as (typeof processes)[number]
      const there = await app.limit.reserve({ once: `who ${i}` })
      t.strictSame([there.allowed, there.store], [false, 'redis'], 'refused by the other process')
      const wait = there.retryAfterMs ?? 0
      t.ok(wait > 0 && wait <= 3_540_000, `${wait}: the send counts as of when it was admitted`)
      const { rules } = await app.limit.peek({ daily: 'all', other: 'all' })
      const left = rules.map(({ limits }) => limits[0]?.remaining)
      t.strictSame(left, [97 + i, 97 + i])
      await decision.refund()
      t.equal((await app.limit.peek({ once: `who ${i}` })).allowed, true, 'the refund reaches Redis as well')
    }
  })
}

t.test('a send admitted without one node of a cluster counts on that node afterwards', async t => {
  const cluster = await startCluster(t)
  const [one, other] = [await open(t, cluster, {}), await open(t, cluster, {})]
  const [who = ''] = await values(cluster, one.app)
  const { pid } = cluster.nodes[0] as RedisServer
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  await one.app.limit.reserve({ other: who })
  const decision = await one.app.limit.reserve({ both: who })
  t.strictSame([decision.allowed, decision.store], [true, 'memory'])
  process.kill(pid, 'SIGCONT')
  await until(() => one.changes().at(-1)?.msg === 'redis decides again', 'its return')
  const there = await other.app.limit.reserve({ both: who })
  t.strictSame([there.allowed, there.store], [false, 'redis'])
})

t.test(
  'a send admitted without Redis, since its hash slot is half moved, counts in Redis afterwards',
  async t => {
    const cluster = await startCluster(t)
    const { app, changes } = await open(t, cluster, { timeout: 60_000 })
    const [who = ''] = await values(cluster, app)
    const { keys } = await app.limit.reserve({ other: who })
    const [from, to] = cluster.nodes as [ClusterNode, ClusterNode]
    await beginMove(slotOf(`sl:{${keys.other}}`), from, to)
    const decision = await app.limit.reserve({ other: who, both: who })
    t.strictSame([decision.allowed, decision.store], [true, 'memory'])
    const left = async (rule: string) => {
      const { rules } = await app.limit.peek({ [rule]: who })
      return rules[0]?.limits[0]?.remaining
    }
    await until(async () => (await left('other')) === 97, 'its count')
    await until(async () => (await left('both')) === 0, 'the count of the key on the other side')
    await decision.refund()
    t.strictSame([await left('other'), await left('both'), changes()], [98, 1, []])
  }
)

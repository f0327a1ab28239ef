import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import type { Cluster, Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Keys, LimitDecorator } from '../../plugin/index.js'
import { startApp } from '../app/helper.js'
import { beginMove } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { written } from '../helper/writes.js'
import { onTheFirst, startFourNodes, startMove } from './four-nodes.js'
import { open, TIMEOUT_MS } from './process.js'

const storeOf = async (limit: LimitDecorator, keys: Keys) => (await limit.reserve(keys)).store

/** A process on four nodes, while a slot moves from the first to the fourth. */
async function openMoving(t: Test, timeout: number) {
  const nodes = await startFourNodes(t, { 'cluster-node-timeout': 60_000 })
  const opened = await open(t, { nodes: [nodes[1]] }, { timeout })
  const move = await startMove(nodes, opened.app.limit, i => ({ other: `p${i}` }))
  const ask = (keys: Keys) => storeOf(opened.app.limit, keys)
  return { ...opened, ...move, ask, fresh: nodes[3] }
}

/** Notes what a client writes to one node from now on. @returns whether it has written to it */
function writesTo(client: Cluster, { port }: { port: number }): () => boolean {
  const node = client.nodes().find(({ options }) => options.port === port) as Redis
  const writes = written(node)
  return () => writes.count > 0
}

/** Longer than a test: no answer is taken for lost, and no outage ends by itself. */
const LONG_MS = 10_000

t.test(
  'a hash slot that moves to a node that has just joined is no outage of the node that it leaves',
  async t => {
    const nodes = await startFourNodes(t, { 'cluster-node-timeout': 60_000 })
    const env = { LIMIT_SECRET: 'a secret of these tests', REDIS_URL: `${nodes[0].url},${nodes[1].url}` }
    const { limit, redis } = await startApp(t, env, {})
    const { staying, moving } = await startMove(nodes, limit, i => ({ 'api-attempts': `192.0.2.${i}` }))
    t.equal(await storeOf(limit, moving), 'redis', 'a new key is on the node that has joined')
    t.equal(await storeOf(limit, staying), 'redis', 'what stays where it is')

    const [, , , fresh] = nodes
    process.kill(fresh.pid, 'SIGSTOP')
    const isAsked = writesTo(redis as unknown as Cluster, fresh)
    const lost = storeOf(limit, moving)
    await until(isAsked, 'a command to that node')
    await fresh.kill()
    t.equal(await lost, 'memory', 'a command under way when that node was lost leaves no unhandled rejection')
  }
)

t.test(
  'two decisions that are redirected to a node the client still connects to are no outage of the node asked',
  async t => {
    for (const moved of [false, true]) {
      const { changes, staying, moving, finish, ask } = await openMoving(t, LONG_MS)
      if (moved) await finish()
      await Promise.all([ask(moving), ask(moving)])
      t.strictSame(changes(), [])
      t.equal(await ask(moving), 'redis', 'what has moved')
      t.equal(await ask(staying), 'redis', 'what stays where it is')
    }
  }
)

t.test('the first answer of a node that has just got a hash slot ends its outage', async t => {
  const { client, moving, finish, ask } = await openMoving(t, LONG_MS)
  await finish()
  const joined = once(client, '+node')
  const first = ask(moving)
  await joined
  await turn()
  t.equal(await ask(moving), 'memory', 'the memory decides while the client connects')
  t.equal(await first, 'redis')
  t.equal(await ask(moving), 'redis')
})

t.test('a node that joins is checked for its eviction policy, like those there at the start', async t => {
  const { lines, moving, finish, ask, fresh } = await openMoving(t, LONG_MS)
  await fresh.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  await finish()
  const isWarned = () => /may evict live limits/.test(lines.join(''))
  t.notOk(isWarned())
  t.equal(await ask(moving), 'redis')
  await until(isWarned, 'a warning of the policy')
})

t.test('a hash slot that moves to a node that hangs is no outage of the node that it leaves', async t => {
  const { client, changes, staying, moving, ask, fresh } = await openMoving(t, TIMEOUT_MS)
  t.equal(await ask(moving), 'redis')
  process.kill(fresh.pid, 'SIGSTOP')
  const isAsked = writesTo(client, fresh)
  const lost = ask(moving)
  await until(isAsked, 'a command to that node')
  t.equal(await ask(staying), 'redis', 'a later decision on the node that it leaves is answered')
  t.equal(await lost, 'memory')
  t.equal(await ask(staying), 'redis', 'what stays where it is')
  t.strictSame(changes(), [])
  process.kill(fresh.pid, 'SIGCONT')
  // The client does not handle an ASKING that fails, so all are answered before the test ends.
  t.equal(await ask(moving), 'redis')
})

t.test('a refund of a calendar limit waits until its hash slot has moved', async t => {
  const nodes = await startFourNodes(t, { 'cluster-node-timeout': 60_000 })
  const { app } = await open(t, { nodes: [nodes[1]] }, { timeout: LONG_MS })
  const [moving] = await onTheFirst(app.limit, 1, i => ({ daily: `p${i}` }))
  if (moving === undefined) throw new Error('none')
  const [from, , , to] = nodes
  const failing = await app.limit.reserve(moving.keys)
  const finish = await beginMove(moving.slot, from, to)
  const refunded = failing.refund()
  await until(async () => /errorstat_TRYAGAIN/.test(await from.client.info('errorstats')), 'a refusal')
  await finish()
  await refunded
  const { rules } = await app.limit.peek(moving.keys)
  t.equal(rules[0]?.limits[0]?.remaining, 98, 'only the send that looked for the value is counted')
})

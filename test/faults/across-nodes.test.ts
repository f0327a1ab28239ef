import type { FastifyInstance } from 'fastify'
import type { Cluster } from 'ioredis'
import t, { type Test } from 'tap'
import { scripts } from '../../plugin/store/scripts.js'
import { type ClusterNode, startCluster } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { open, values } from './process.js'

const UNAVAILABLE = { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' }

function stop(t: Test, { pid }: ClusterNode): void {
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
}

const used = async (app: FastifyInstance, keys: Record<string, string>) => {
  const { rules } = await app.limit.peek(keys)
  return rules.flatMap(({ limits }) => limits.map(({ max, remaining }) => max - remaining))
}

t.test(
  'a decision over a lost node and live ones holds the limits on the live nodes in all processes',
  async t => {
    const cluster = await startCluster(t)
    const [first, second, denies, allows] = await Promise.all([
      open(t, cluster, {}),
      open(t, cluster, {}),
      open(t, cluster, { onStoreError: 'deny' }),
      open(t, cluster, { onStoreError: 'allow' })
    ])
    const [here, there, lost] = (await values(cluster, first.app)) as [string, string, string]
    stop(t, cluster.nodes[2] as ClusterNode)

    const one = await first.app.limit.reserve({ once: here, order: there, both: lost })
    t.same([one.allowed, one.store, one.violated], [true, 'memory', []])
    t.strictSame(await used(first.app, { once: here }), [1], 'counted on its live node')
    const two = await second.app.limit.reserve({ once: here, both: lost })
    t.match(two, { allowed: false, store: 'memory', violated: [{ rule: 'once' }] })
    t.equal(
      (await second.app.limit.reserve({ daily: here, both: lost })).allowed,
      true,
      'a refused decision was not counted'
    )
    const three = await first.app.limit.reserve({ daily: here, both: lost })
    t.match(three, { allowed: false, violated: [{ rule: 'both' }] })
    t.strictSame(
      await used(first.app, { daily: here }),
      [1],
      'a decision that the stand-in memory refuses is counted nowhere'
    )

    await one.refund()
    one.end()
    t.strictSame(await used(first.app, { once: here }), [0])
    t.equal(
      (await first.app.limit.reserve({ once: here, both: lost })).allowed,
      true,
      'every slot is given back'
    )

    await t.rejects(denies.app.limit.reserve({ daily: there, both: lost }), UNAVAILABLE)
    t.strictSame(await used(denies.app, { daily: there }), [0])
    const four = await allows.app.limit.reserve({ both: there, other: lost })
    t.equal(four.allowed, true)
    t.same(
      four.rules.map(({ name }) => name),
      ['both']
    )
    t.match(await allows.app.limit.reserve({ both: there, other: lost }), { allowed: false })
  }
)

t.test(
  'a lock on a live node is held and released in a decision that also needs the stand-in memory',
  async t => {
    const cluster = await startCluster(t)
    const { app } = await open(t, cluster, {})
    const [, there, lost] = (await values(cluster, app)) as [string, string, string]
    stop(t, cluster.nodes[2] as ClusterNode)
    const held = await app.limit.reserve({ order: there, both: lost })
    t.equal(held.allowed, true)
    t.match(await app.limit.reserve({ order: there }), { allowed: false, store: 'redis' })
    held.end()
    await until(async () => (await app.limit.reserve({ order: there })).allowed, 'a free lock')
  }
)

/** Stops a node when it is sent the first command that counts this identity. */
function stopAtCount(t: Test, client: Cluster, node: ClusterNode, identity: string): void {
  const { evalshaBuffer } = client as unknown as { evalshaBuffer: (...args: unknown[]) => unknown }
  let hangs = false
  Object.assign(client, {
    evalshaBuffer(sha: string, ...args: unknown[]) {
      const counts = sha !== scripts.peek.sha && String(args[1]).includes(identity)
      if (counts && !hangs) stop(t, node)
      hangs ||= counts
      return Reflect.apply(evalshaBuffer, client, [sha, ...args])
    }
  })
}

t.test(
  'when a node hangs between look and count, the other nodes keep only slots of an admitted send',
  async t => {
    for (const onStoreError of ['deny', 'memory'] as const) {
      const cluster = await startCluster(t)
      const { app, client } = await open(t, cluster, { onStoreError })
      const who = await values(cluster, app)
      const warm = await app.limit.reserve({ once: who[0], daily: who[1], other: who[2] })
      await warm.refund()
      warm.end()
      // The nodes count in the order of the identities: the last one hangs.
      const identities = Object.values(warm.keys)
      const [last = ''] = identities.toSorted().reverse()
      const node = cluster.nodes[identities.indexOf(last)] as ClusterNode
      const lost = who[identities.indexOf(last)] as string
      const [here, there] = who.filter(each => each !== lost) as [string, string]
      stopAtCount(t, client, node, last)
      const asked = app.limit.reserve({ once: here, daily: there, other: lost })
      if (onStoreError === 'deny') await t.rejects(asked, UNAVAILABLE)
      else t.match(await asked, { allowed: true, store: 'memory' })
      const left = onStoreError === 'deny' ? 0 : 1
      t.strictSame(await used(app, { once: here, daily: there }), [left, left])
      process.kill(node.pid, 'SIGCONT')
      // A slot that it counts late stays if the send was allowed.
      await until(async () => (await used(app, { other: lost }))[0] === left, 'the late answer')
    }
  }
)

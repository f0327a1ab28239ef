import t from 'tap'
import { beginMove, replicate } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { onTheFirst, PATIENCE, startFourNodes } from './four-nodes.js'
import { open } from './process.js'

type Nodes = Awaited<ReturnType<typeof startFourNodes>>

/** Ways to make the third node forget that it is to get a slot. */
const halves = {
  async 'was put right on one side alone'([, , target]: Nodes, slot: number) {
    await target.client.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
  },
  async 'was to go to a node that has failed over'([, , target, replica]: Nodes, slot: number) {
    const isRole = async ({ client }: typeof target, role: string) =>
      String(await client.call('ROLE')).startsWith(role)
    let asked = Number.NEGATIVE_INFINITY
    const failOver = async () => {
      // Redis gives up what has not succeeded after five seconds, and asking again before that begins anew.
      if (performance.now() - asked > 6_000) {
        await replica.client.call('CLUSTER', 'FAILOVER')
        asked = performance.now()
      }
      return isRole(replica, 'master')
    }
    await until(failOver, 'a master', PATIENCE)
    await until(() => isRole(target, 'slave'), 'a replica', PATIENCE)
    // Redis has not told the replica which slot its master was to get. Valkey has.
    await replica.client.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
  }
}

for (const [what, happens] of Object.entries(halves))
  t.test(`a hash slot that ${what} is no outage of the node that has it`, async t => {
    const nodes = await startFourNodes(t, { 'cluster-node-timeout': 60_000 })
    const [first, , target, replica] = nodes
    await replicate(replica, target, PATIENCE)
    // Longer than the test, so that no outage would end by itself.
    const { app, changes } = await open(t, { nodes: [nodes[1]] }, { timeout: 10_000 })
    const [staying, moving] = await onTheFirst(app.limit, 2, i => ({ other: `p${i}` }))
    if (!staying || !moving) throw new Error('too few')
    await app.limit.clear(moving.keys)
    await beginMove(moving.slot, first, target)
    await happens(nodes, moving.slot)
    t.equal((await app.limit.reserve(moving.keys)).store, 'memory', 'no node serves the moving slot')
    t.equal((await app.limit.reserve(staying.keys)).store, 'redis', 'another key of the node')
    t.strictSame(changes(), [])
  })

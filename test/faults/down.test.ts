import t from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { type ClusterNode, startCluster } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { open, values } from './process.js'

t.test('a cluster that is down but answers reads is in an outage until it takes writes again', async t => {
  const cluster = await startCluster(t)
  const { app, changes } = await open(t, cluster, {})
  const [who = ''] = await values(cluster, app)
  const [{ client }] = cluster.nodes as [ClusterNode]
  const { keys } = await app.limit.reserve({ once: who })
  const failing = await app.limit.reserve({ daily: who })
  const storeOf = async (rule: string) => (await app.limit.reserve({ [rule]: who })).store
  const stateIs = (state: string) =>
    until(async () => String(await client.call('CLUSTER', 'INFO')).includes(`cluster_state:${state}`), state)
  // The other hash slot of its pair: on the same node.
  const slot = slotOf(`{${keys.once}}`) ^ 1
  await client.config('SET', 'cluster-allow-reads-when-down', 'yes')
  await client.call('CLUSTER', 'DELSLOTS', slot)
  await stateIs('fail')

  await failing.refund()
  for (let i = 0; i < 3; i++) {
    t.equal(await storeOf('daily'), 'memory')
    // A refusal by Redis does not end the outage.
    await until(async () => (await storeOf('once')) === 'redis', 'a refusal of Redis')
  }
  await client.call('CLUSTER', 'ADDSLOTS', slot)
  await stateIs('ok')
  const left = async () => (await app.limit.peek({ daily: who })).rules[0]?.limits[0]?.remaining
  await until(async () => (await left()) === 99, 'the refund')
  await until(async () => (await storeOf('daily')) === 'redis', 'its return')
  t.strictSame(
    changes().map(({ msg }) => msg),
    ['redis does not decide', 'redis decides again']
  )
})

import t from 'tap'
import { replicate } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { onTheFirst, PATIENCE, startFourNodes } from './four-nodes.js'
import { open } from './process.js'

t.test('a replica that takes over a lost node decides, and is logged as the return of that node', async t => {
  const [first, second, , replica] = await startFourNodes(t, { 'cluster-node-timeout': PATIENCE })
  await replicate(replica, first, PATIENCE)
  await replica.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  const { app, lines, changes } = await open(t, { nodes: [second] }, {})
  const [{ keys } = { keys: {} }] = await onTheFirst(app.limit, 1, i => ({ daily: `p${i}` }))
  const decides = async () => (await app.limit.reserve(keys)).store === 'redis'
  await first.kill()
  t.notOk(await decides())
  await replica.client.call('CLUSTER', 'FAILOVER', 'TAKEOVER')
  await until(decides, 'a decision by the replica', PATIENCE)
  const node = `127.0.0.1:${first.port}`
  t.match(changes(), [
    { msg: 'redis does not decide', node },
    { msg: 'redis decides again', node }
  ])
  await until(
    () => lines.some(line => line.includes('allkeys-lru')),
    'a warning of its eviction policy',
    PATIENCE
  )
})

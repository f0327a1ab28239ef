import t, { type Test } from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { startApp } from '../app/helper.js'
import { replicate, SLOTS } from '../helper/cluster.js'
import type { RedisServer } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { PATIENCE, startFourNodes } from './four-nodes.js'

/** After how long the nodes take one of them for lost, in milliseconds. */
const NODE_TIMEOUT = 500

/** Four nodes, the last of which is a replica of the first. */
async function startNodes(t: Test) {
  const [first, second, third, replica] = await startFourNodes(t, { 'cluster-node-timeout': NODE_TIMEOUT })
  const nodes = [first, second, third, replica]
  const info = async ({ client }: RedisServer) => String(await client.call('CLUSTER', 'INFO'))
  await replicate(replica, first, PATIENCE)
  const id = String(await first.client.call('CLUSTER', 'MYID'))
  await until(
    async () => String(await second.client.call('CLUSTER', 'REPLICAS', id)).includes(`:${replica.port}@`),
    'word of the replica on the second node',
    PATIENCE
  )
  await until(
    async () => (await Promise.all(nodes.map(info))).every(each => each.includes('cluster_state:ok')),
    'slots',
    PATIENCE
  )
  return { first, second, replica }
}

t.test('once a replica has replaced a master that hangs, Redis decides again', async t => {
  const { first, second, replica } = await startNodes(t)
  const env = { LIMIT_SECRET: 'a secret of these tests', STORE_TIMEOUT: '300' }
  const app = await startApp(t, { ...env, REDIS_URL: `${second.url},${replica.url}` }, {})
  const reserve = (value: string) => app.limit.reserve({ 'api-attempts': value })
  let [value, key] = ['', '']
  for (let i = 1; value === ''; i++) {
    const { keys } = await reserve(`192.0.2.${i}`)
    key = `{${keys['api-attempts']}}`
    if (slotOf(key) < SLOTS / 3) value = `192.0.2.${i}`
  }
  const decides = async () => (await reserve(value)).store === 'redis'
  const reads = () =>
    app.redis.get(key).then(
      () => true,
      () => false
    )
  t.ok((await decides()) && (await reads()))

  process.kill(first.pid, 'SIGSTOP')
  t.teardown(() => process.kill(first.pid, 'SIGCONT'))
  t.notOk((await decides()) || (await reads()))
  await until(
    async () => String(await replica.client.call('ROLE')).startsWith('master'),
    'a new master',
    PATIENCE
  )
  await until(async () => (await decides()) && (await reads()), 'a decision by it', PATIENCE)
})

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { startApp } from '../app/helper.js'
import { type RedisServer, startRedis } from '../helper/redis.js'

/** When nodes take one of them for lost, in milliseconds. */
const NODE_TIMEOUT = 500
const SLOTS = 16_384

async function startNode(t: Test): Promise<RedisServer & { bus: number }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port: bus } = server.address() as AddressInfo
  server.close()
  const options = {
    'cluster-enabled': 'yes',
    'cluster-port': bus,
    'cluster-announce-ip': '127.0.0.1',
    'cluster-node-timeout': NODE_TIMEOUT
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`])
  return { ...(await startRedis(t, { args })), bus }
}

/** Asks until it is so, half a minute at most. */
async function until(what: () => Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(30_000)
  while (!(await what())) await sleep(50, null, { signal: limit })
}

/** Three masters by the real clock, of which the first has a replica: the last. */
async function startNodes(t: Test) {
  const nodes = await Promise.all([startNode(t), startNode(t), startNode(t), startNode(t)])
  const [first, second, third, replica] = nodes
  const masters = [first, second, third]
  for (const [i, { client }] of masters.entries()) {
    const [from, to] = [i, i + 1].map(n => Math.ceil((n * SLOTS) / masters.length)) as [number, number]
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
    await client.call('CLUSTER', 'ADDSLOTSRANGE', from, to - 1)
  }
  for (const { client } of nodes)
    for (const { port, bus } of nodes) await client.call('CLUSTER', 'MEET', '127.0.0.1', port, bus)
  const info = async ({ client }: RedisServer) => String(await client.call('CLUSTER', 'INFO'))
  await until(async () => (await info(replica)).includes('cluster_known_nodes:4'))
  const id = String(await first.client.call('CLUSTER', 'MYID'))
  await until(async () => replica.client.call('CLUSTER', 'REPLICATE', id).then(Boolean, () => false))
  await until(async () => (await replica.client.info('replication')).includes('master_link_status:up'))
  await until(async () =>
    String(await second.client.call('CLUSTER', 'REPLICAS', id)).includes(`:${replica.port}@`)
  )
  await until(async () =>
    (await Promise.all(nodes.map(info))).every(each => each.includes('cluster_state:ok'))
  )
  return { first, second, replica }
}

t.test('a master that hangs and is replaced by its replica: Redis decides again', async t => {
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
  await until(async () => String(await replica.client.call('ROLE')).startsWith('master'))
  await until(async () => (await decides()) && (await reads()))
})

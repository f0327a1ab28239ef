import t from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { startApp } from '../app/helper.js'
import { freePorts, introduce, SLOTS } from '../helper/cluster.js'
import { type RedisServer, startRedis } from '../helper/redis.js'
import { until } from '../plugin/settlement/places.js'

t.test(
  'a slot on its way to a node that has just joined is no outage of the node that it leaves',
  async t => {
    const busPorts = await freePorts(4)
    const nodes = await Promise.all(
      busPorts.map(bus => {
        const options = { 'cluster-enabled': 'yes', 'cluster-port': bus, 'cluster-announce-ip': '127.0.0.1' }
        return startRedis(t, { args: Object.entries(options).flatMap(([n, v]) => [`--${n}`, `${v}`]) })
      })
    )
    await introduce(nodes, busPorts, 3)
    const info = async ({ client }: RedisServer) => String(await client.call('CLUSTER', 'INFO'))
    const joined = (each: string) =>
      each.includes('cluster_state:ok') && each.includes('cluster_known_nodes:4')
    await until(async () => (await Promise.all(nodes.map(info))).every(joined), 'a cluster', 30_000)
    const [first, second, , fresh] = nodes as [RedisServer, RedisServer, RedisServer, RedisServer]
    const env = { LIMIT_SECRET: 'a secret of these tests', REDIS_URL: `${first.url},${second.url}` }
    const app = await startApp(t, env, {})
    const reserve = (value: string) => app.limit.reserve({ 'api-attempts': value })
    const here: string[] = []
    let slot = 0
    for (let i = 1; here.length < 2; i++) {
      const { keys } = await reserve(`192.0.2.${i}`)
      const found = slotOf(`{${keys['api-attempts']}}`)
      if (found >= SLOTS / 3) continue
      slot = found
      here.push(`192.0.2.${i}`)
    }
    const [staying, moving] = here as [string, string]
    await app.limit.clear({ 'api-attempts': moving })
    const ids = await Promise.all([first, fresh].map(({ client }) => client.call('CLUSTER', 'MYID')))
    await fresh.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(ids[0]))
    await first.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(ids[1]))

    t.equal((await reserve(moving)).store, 'redis', 'what is new, on the node that has joined')
    t.equal((await reserve(staying)).store, 'redis', 'what stays where it is')
  }
)

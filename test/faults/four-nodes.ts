import type { Test } from 'tap'
import { freePorts, introduce } from '../helper/cluster.js'
import { type RedisServer, startRedis } from '../helper/redis.js'
import { until } from '../plugin/settlement/places.js'

/** How long is waited for each step, in milliseconds. */
export const PATIENCE = 30_000

/**
 * A cluster by the real clock: three masters, the first of which has the lowest third of the slots, and a fourth node that
 * has none.
 * @param options of each node
 */
export async function startFourNodes(t: Test, options: Record<string, number> = {}) {
  const busPorts = await freePorts(4)
  const start = (bus: number) => {
    const all = {
      'cluster-enabled': 'yes',
      'cluster-port': bus,
      'cluster-announce-ip': '127.0.0.1',
      ...options
    }
    return startRedis(t, { args: Object.entries(all).flatMap(([name, value]) => [`--${name}`, `${value}`]) })
  }
  const nodes = (await Promise.all(busPorts.map(start))) as [
    RedisServer,
    RedisServer,
    RedisServer,
    RedisServer
  ]
  await introduce(nodes, busPorts, 3)
  const knowsAll = async ({ client }: RedisServer) => {
    const info = String(await client.call('CLUSTER', 'INFO'))
    return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:4')
  }
  await until(async () => (await Promise.all(nodes.map(knowsAll))).every(Boolean), 'a cluster', PATIENCE)
  return nodes
}

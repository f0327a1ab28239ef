import type { Test } from 'tap'
import type { Keys, LimitDecorator } from '../../plugin/index.js'
import { slotOf } from '../../plugin/store/nodes.js'
import { beginMove, introduce, SLOTS } from '../helper/cluster.js'
import { type RedisServer, startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'

/** How long the tests wait for each step, in milliseconds. */
export const PATIENCE = 30_000

type FourNodes = [RedisServer, RedisServer, RedisServer, RedisServer]

/**
 * A cluster by the real clock: three masters, the first of which has the lowest third of the hash slots, and a
 * fourth node that has none.
 * @param options of each node
 */
export async function startFourNodes(t: Test, options: Record<string, number> = {}): Promise<FourNodes> {
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`])
  const start = () => startRedis(t, { cluster: true, args })
  const nodes = (await Promise.all([start(), start(), start(), start()])) as FourNodes
  await introduce(nodes, 3)
  const knowsAll = async ({ client }: RedisServer) => {
    const info = String(await client.call('CLUSTER', 'INFO'))
    return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:4')
  }
  await until(async () => (await Promise.all(nodes.map(knowsAll))).every(Boolean), 'a cluster', PATIENCE)
  return nodes
}

/** Finds keys that are on the first node. @param keysOf makes keys with one identity each */
export async function onTheFirst(limit: LimitDecorator, count: number, keysOf: (i: number) => Keys) {
  const found: { keys: Keys; slot: number }[] = []
  for (let i = 1; found.length < count; i++) {
    const [pseudonym] = Object.values((await limit.reserve(keysOf(i))).keys)
    const slot = slotOf(`{${pseudonym}}`)
    if (slot < SLOTS / 3) found.push({ keys: keysOf(i), slot })
  }
  return found
}

/** Begins to move a slot from the first node to the fourth. @returns keys in it, and keys that stay on the first */
export async function startMove(
  [from, , , to]: FourNodes,
  limit: LimitDecorator,
  keysOf: (i: number) => Keys
) {
  const [staying, moving] = await onTheFirst(limit, 2, keysOf)
  if (staying === undefined || moving === undefined) throw new Error('too few')
  // So that its keys do not exist, and the first node sends on whoever asks for them.
  await limit.clear(moving.keys)
  const finish = await beginMove(moving.slot, from, to)
  return { staying: staying.keys, moving: moving.keys, finish }
}

import type { Test } from 'tap'
import type { Keys, LimitDecorator } from '../../plugin/index.js'
import { slotOf } from '../../plugin/store/nodes.js'
import { beginMove, introduce, SLOTS } from '../helper/cluster.js'
import { type RedisServer, startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'

/** How long is waited for each step, in milliseconds. */
export const PATIENCE = 30_000

type FourNodes = [RedisServer, RedisServer, RedisServer, RedisServer]

/**
 * A cluster by the real clock: three masters, the first of which has the lowest third of the slots, and a fourth node that
 * has none.
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

/** Finds values that stand on the first node. @param keysOf makes keys of one part each */
export async function onTheFirst(limit: LimitDecorator, count: number, keysOf: (i: number) => Keys) {
  const found: { keys: Keys; slot: number }[] = []
  for (let i = 1; found.length < count; i++) {
    const [pseudonym] = Object.values((await limit.reserve(keysOf(i))).keys)
    const slot = slotOf(`{${pseudonym}}`)
    if (slot < SLOTS / 3) found.push({ keys: keysOf(i), slot })
  }
  return found
}

/** Sets out to move a slot from the first node to the fourth. @returns what is in it, and what stays on the first node */
export async function startMove(
  [from, , , to]: FourNodes,
  limit: LimitDecorator,
  keysOf: (i: number) => Keys
) {
  const [staying, moving] = await onTheFirst(limit, 2, keysOf)
  if (staying === undefined || moving === undefined) throw new Error('too few')
  // What is not there is asked for on the other side.
  await limit.clear(moving.keys)
  const finish = await beginMove(moving.slot, from, to)
  return { staying: staying.keys, moving: moving.keys, finish }
}

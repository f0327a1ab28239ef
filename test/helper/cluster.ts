import { Cluster as Client, type ClusterOptions } from 'ioredis'
import { Cluster } from '../../plugin/store/cluster.js'
import { Fallback } from '../../plugin/store/fallback.js'
import { Outage } from '../../plugin/store/outage.js'
import { isKeyError } from '../../plugin/store/redis-errors.js'
import type { Store } from '../../plugin/store/store.js'
import type { Clock } from './clock.js'
import { linked } from './linked.js'
import { contentsOf, type RedisServer, startRedis } from './redis.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

export type ClusterNode = RedisServer & { clock: Clock }

export interface RedisCluster {
  /** Three masters; the first has the lowest third of the slots. Each has a clock of its own. */
  nodes: ClusterNode[]
  /** The clock of the first node. It sets and moves those of the others, too. */
  clock: Clock
  /** Opens and connects another client, which is closed in teardown. */
  connect(options?: ClusterOptions): Promise<Client>
  /** Empties every node. */
  flush(): Promise<void>
  /** Which node has a key. */
  nodeOf(key: string): Promise<number>
  /** Every key of every node, with its bytes and its expiry. */
  contents(): Promise<Record<string, string>[]>
}

export const SLOTS = 16_384
const JOIN_LIMIT_MS = 15_000
const PATIENCE_MS = 60_000
// So long that a jump of the clocks is not taken for the failure of a node.
const NODE_TIMEOUT_MS = 1e14

async function startNode(t: Teardown): Promise<ClusterNode> {
  const args = ['--enable-debug-command', 'local']
  const node = await startRedis(t, { clock: true, cluster: true, args })
  // A test may turn a clock back, so expired keys must go when they are read, not when Redis finds the time.
  await node.client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
  return node
}

/** Gives all slots to the first nodes, in equal shares, and has every node meet the others. */
export async function introduce(nodes: readonly RedisServer[], masters = nodes.length): Promise<void> {
  for (const [i, { client }] of nodes.slice(0, masters).entries()) {
    const [first, next] = [i, i + 1].map(n => Math.ceil((n * SLOTS) / masters)) as [number, number]
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
    await client.call('CLUSTER', 'ADDSLOTSRANGE', first, next - 1)
  }
  // Only after all have their epochs: a node that has met another one takes none.
  for (const { client } of nodes)
    for (const other of nodes) {
      const [, busPort = ''] = (await other.client.config('GET', 'cluster-port')) as string[]
      await client.call('CLUSTER', 'MEET', '127.0.0.1', other.port, busPort)
    }
}

async function join(nodes: readonly ClusterNode[]): Promise<void> {
  await introduce(nodes)
  const joined = async ({ client }: ClusterNode) => {
    const info = String(await client.call('CLUSTER', 'INFO'))
    return ['state:ok', `slots_ok:${SLOTS}`, `size:${nodes.length}`].every(part =>
      info.includes(`cluster_${part}`)
    )
  }
  const allJoined = async () => {
    // A node takes writes once its clock has advanced by two seconds.
    for (const { clock } of nodes) clock.advance(100)
    return (await Promise.all(nodes.map(joined))).every(Boolean)
  }
  await until(allJoined, 'a cluster', JOIN_LIMIT_MS)
  // Not before: with such a time-out, nodes of Valkey 9.1 would hardly ever try to connect to others.
  for (const { client } of nodes) await client.config('SET', 'cluster-node-timeout', NODE_TIMEOUT_MS)
}

async function idOf({ client }: RedisServer): Promise<string> {
  return String(await client.call('CLUSTER', 'MYID'))
}

/** Makes a node the replica of another one, and waits for their link. */
export async function replicate(
  replica: RedisServer,
  master: RedisServer,
  patienceMs: number
): Promise<void> {
  const id = await idOf(master)
  const isReplica = () => replica.client.call('CLUSTER', 'REPLICATE', id).then(Boolean, () => false)
  await until(isReplica, 'a replica', patienceMs)
  await linked(replica, patienceMs)
}

/** Begins to move a slot. @returns a function that moves its keys, at most 99, and ends the move */
export async function beginMove(
  slot: number,
  from: RedisServer,
  to: RedisServer
): Promise<() => Promise<void>> {
  const [fromId, toId] = [await idOf(from), await idOf(to)]
  await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId)
  await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId)
  return async () => {
    for (const key of (await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 99)) as string[])
      await from.client.migrate('127.0.0.1', to.port, key, 0, 5_000)
    for (const { client } of [to, from]) await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId)
  }
}

/** Starts a Redis Cluster of this test's own on 127.0.0.1: three masters whose clocks stand still. Linux only. */
export async function startCluster(t: Teardown): Promise<RedisCluster> {
  const nodes: ClusterNode[] = []
  while (nodes.length < 3) nodes.push(await startNode(t))
  await join(nodes)
  const [first] = nodes as [ClusterNode, ...ClusterNode[]]
  const clock: Clock = {
    now: () => first.clock.now(),
    set: ms => {
      for (const node of nodes) node.clock.set(ms)
    },
    advance: ms => {
      for (const node of nodes) node.clock.advance(ms)
    }
  }
  return {
    nodes,
    clock,
    async connect(options) {
      const client = new Client([{ host: '127.0.0.1', port: first.port }], { lazyConnect: true, ...options })
      t.teardown(() => client.disconnect())
      await client.connect()
      return client
    },
    async flush() {
      await Promise.all(nodes.map(({ client }) => client.flushall()))
    },
    async nodeOf(key) {
      const slot = Number(await first.client.call('CLUSTER', 'KEYSLOT', key))
      return placeOf(slot, nodes.length)
    },
    contents: () => Promise.all(nodes.map(({ client }) => contentsOf(client)))
  }
}

/** Which of so many masters has a slot. */
export const placeOf = (slot: number, masters: number) => Math.floor((slot * masters) / SLOTS)

/** A `Cluster` over a store that speaks to the nodes. There is no stand-in memory. */
export function clusterOf(nodes: Store): { cluster: Cluster; store: Store } {
  const outage = new Outage(PATIENCE_MS)
  const fail = (error: unknown) => {
    throw error
  }
  const options = {
    timeout: PATIENCE_MS,
    substitute: 'deny',
    outageOf: () => outage,
    isRequestError: isKeyError
  } as const
  const cluster = new Cluster(
    new Fallback(nodes, { ...options, onError() {}, onUncounted() {}, onRefundFailed() {} }),
    fail
  )
  const reserve: Store['reserve'] = async (entries, token) =>
    (await cluster.reserve(entries, token)).facts ?? []
  const count: Store['count'] = (entry, ago, ends) => nodes.count(entry, ago, ends)
  return { cluster, store: { ...cluster.store, reserve, count, close: () => cluster.close() } }
}

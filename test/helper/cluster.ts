import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster as Client, type ClusterOptions } from 'ioredis'
import { Cluster } from '../../plugin/store/cluster.js'
import { Fallback } from '../../plugin/store/fallback.js'
import { Outage } from '../../plugin/store/outage.js'
import { isOfKey, isOfWrites } from '../../plugin/store/redis.js'
import type { Store } from '../../plugin/store/store.js'
import type { Clock } from './clock.js'
import { type RedisServer, startRedis } from './redis.js'
import type { Teardown } from './teardown.js'

export type ClusterNode = RedisServer & { clock: Clock }

export interface RedisCluster {
  /** Three masters; the first has the lowest third of the slots. Each has a clock of its own. */
  nodes: ClusterNode[]
  /** Sets all clocks to one time. */
  clock: Clock
  /** A client of its own, connected; closed in teardown. */
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
// A jump of the clocks is no failure of a node.
const NODE_TIMEOUT_MS = 1e14

async function startNode(t: Teardown): Promise<ClusterNode> {
  const args = ['--cluster-node-timeout', `${NODE_TIMEOUT_MS}`, '--enable-debug-command', 'local']
  const node = await startRedis(t, { clock: true, cluster: true, args })
  // A test may turn a clock back: what has expired goes when it is read, not when Redis finds the time.
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
  // An epoch is given only to who has met nobody yet.
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
  const deadline = AbortSignal.timeout(JOIN_LIMIT_MS)
  while (!(await Promise.all(nodes.map(joined))).every(Boolean)) {
    if (deadline.aborted) throw new Error(`the nodes did not join within ${JOIN_LIMIT_MS} ms`)
    // A node takes writes when its clock has gone on for two seconds.
    for (const { clock } of nodes) clock.advance(100)
    await sleep(20)
  }
}

async function contentsOf({ client }: ClusterNode): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const key of (await client.keys('*')).sort()) {
    const [dump, expiry] = await Promise.all([client.dumpBuffer(key), client.call('PEXPIRETIME', key)])
    found[key] = `${dump?.toString('hex')} ${expiry}`
  }
  return found
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
      return Math.floor((slot * nodes.length) / SLOTS)
    },
    contents: () => Promise.all(nodes.map(contentsOf))
  }
}

/** Decides over the nodes that a store speaks to; nothing stands in for them. */
export function clusterOf(nodes: Store): { cluster: Cluster; store: Store } {
  const outage = new Outage(PATIENCE_MS)
  const fail = (error: unknown) => {
    throw error
  }
  const options = {
    timeout: PATIENCE_MS,
    otherwise: 'deny',
    outageOf: () => outage,
    isOfRequest: isOfKey,
    isOfWrites
  } as const
  const cluster = new Cluster(new Fallback(nodes, { ...options, onError() {}, onKept() {} }), fail)
  const reserve: Store['reserve'] = async (entries, token) =>
    (await cluster.reserve(entries, token)).facts ?? []
  return { cluster, store: { ...cluster.store, reserve, close: () => cluster.close() } }
}

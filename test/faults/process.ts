import type { FastifyInstance } from 'fastify'
import { Cluster, type ClusterOptions, type Redis } from 'ioredis'
import type { Test } from 'tap'
import { limitPlugin, type Rule, type SendLimitOptions } from '../../plugin/index.js'
import type { RedisCluster } from '../helper/cluster.js'
import { appOf } from '../helper/face.js'
import { logStream } from '../helper/log-stream.js'
import type { RedisServer } from '../helper/redis.js'

export const TIMEOUT_MS = 500
const rules: Rule[] = [
  { name: 'once', key: { value: 'body.who' }, limits: [{ max: 1, window: '1h' }] },
  { name: 'order', key: { value: 'body.who' }, lock: '30m' },
  { name: 'both', key: { value: 'body.who' }, limits: [{ max: 1, window: '1h' }] },
  { name: 'daily', key: { value: 'body.who' }, limits: [{ max: 99, per: 'day' }] },
  { name: 'other', key: { value: 'body.other' }, limits: [{ max: 99, window: '1h' }] }
]

/** A client of this cluster that never delays a command; not connected yet. */
export function clientOf({ nodes }: { nodes: readonly RedisServer[] }, more: ClusterOptions = {}): Cluster {
  return new Cluster([nodes[0]?.port as number], {
    enableOfflineQueue: false,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 1,
    lazyConnect: true,
    ...more
  }).on('error', () => {})
}

/** A process on this cluster. */
export async function open(
  t: Test,
  cluster: { nodes: readonly RedisServer[] },
  options: SendLimitOptions,
  more?: ClusterOptions
) {
  const client = clientOf(cluster, more)
  await client.connect()
  return { client, ...(await openOn(t, client, options)) }
}

/** A process with this client, and what it logs of the loss and return of Redis. */
export async function openOn(t: Test, client: Redis | Cluster, options: SendLimitOptions) {
  const { lines, stream } = logStream()
  const app = appOf(t, { logger: { stream } }, client)
  const secret = '0123456789abcdef'
  await app.register(limitPlugin, { client, rules, secret, timeout: TIMEOUT_MS, ...options })
  await app.ready()
  const changes = () =>
    lines
      .map(line => JSON.parse(line))
      .filter(({ msg }) => /^redis (does not decide|decides again)$/.test(msg))
  return { app, lines, changes }
}

/** For each node a value whose keys are on it. */
export async function values(cluster: RedisCluster, app: FastifyInstance): Promise<string[]> {
  const found: string[] = []
  for (let i = 0; found.filter(Boolean).length < 3; i++) {
    const { keys } = await app.limit.reserve({ once: `p${i}` })
    found[await cluster.nodeOf(`sl:{${keys.once}}:x`)] ??= `p${i}`
  }
  await cluster.flush()
  return found
}

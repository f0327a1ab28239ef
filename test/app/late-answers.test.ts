import type { Redis } from 'ioredis'
import t from 'tap'
import { type RedisCluster, startCluster } from '../helper/cluster.js'
import { timersByHand } from '../helper/timers-by-hand.js'
import { until } from '../helper/until.js'
import { unanswered } from './unanswered.js'

const TIMEOUT_MS = 500
/** When the client tries a command again, unless the test has it do so. */
const RETRY_MS = 20_000

/** A number of a section of INFO, over all nodes. */
async function sum({ nodes }: RedisCluster, section: string, pattern: RegExp): Promise<number> {
  const all = await Promise.all(nodes.map(({ client }) => client.info(section)))
  return all.reduce((total, text) => total + Number(pattern.exec(text)?.[1] ?? 0), 0)
}

async function states({ nodes }: RedisCluster): Promise<Set<string | undefined>> {
  const all = await Promise.all(nodes.map(({ client }) => client.call('CLUSTER', 'INFO')))
  return new Set(all.map(text => /cluster_state:(\w+)/.exec(String(text))?.[1]))
}

t.test('a command that a cluster runs after it was taken back is taken back again', async t => {
  const cluster = await startCluster(t)
  // Commands that were refused while the cluster was down are tried again when nobody waits for them.
  const client = (await cluster.connect({ retryDelayOnClusterDown: RETRY_MS })) as unknown as Redis
  const { records, calls, takenBack } = await unanswered(client, TIMEOUT_MS)

  const retry = timersByHand(t, RETRY_MS)
  for (const { client } of cluster.nodes) await client.call('CLUSTER', 'DELSLOTS', 0)
  await until(async () => (await states(cluster)).has('fail'), 'a cluster that is down')
  const turnedAway = () => sum(cluster, 'errorstats', /errorstat_CLUSTERDOWN:count=(\d+)/)
  const before = await turnedAway()
  const rejected = Promise.all(calls.map(([call, code]) => t.rejects(call(), { code })))
  await until(async () => (await turnedAway()) === before + 3, 'all three turned away')
  // The others hear of it.
  await cluster.nodes[0]?.client.call('CLUSTER', 'ADDSLOTS', 0)
  await until(async () => !(await states(cluster)).has('fail'), 'a cluster that works')
  await rejected
  retry()

  const ran = (command: string) => sum(cluster, 'commandstats', new RegExp(`cmdstat_${command}:calls=(\\d+)`))
  await until(async () => (await client.hget('captcha:{tried}', 'by')) !== null, 'the try')
  await until(async () => (await records.get('sent again'))?.made === 2, 'the resend')
  await until(async () => (await ran('zadd')) === 1, 'the begin')

  await takenBack()
})

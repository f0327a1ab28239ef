import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { Cluster, type Redis, ReplyError } from 'ioredis'
import { ConfigError } from './check.js'
import { clientOf, FIRST_CONNECT, type RedisAddress } from './redis-client.js'
import { MAX_UNANSWERED_PINGS } from './with-timeout.js'

/**
 * Makes a client and gives it time to connect. It reconnects by itself.
 * @param pingMs how often its connections are pinged, in milliseconds
 * @throws ConfigError when Redis has no database of that name, or when a node of a cluster, a sentinel or a proxy is not
 * named as one
 */
export async function connect(
  log: FastifyBaseLogger,
  address: RedisAddress,
  pingMs: number
): Promise<Redis | Cluster> {
  const client = clientOf(address)
  client.on('error', (error: RedisError) => {
    log.warn({ err: error }, 'redis')
    // Otherwise the client would go on in database 0.
    if (isOfDatabase(error)) client.disconnect(true)
  })
  if (client instanceof Cluster) {
    connectNodes(client)
    client.on('+node', (node: Redis) => endSilent(node, pingMs))
    // The errors of the cluster's client do not say why.
    client.on('node error', (error: Error, node: string) => log.warn({ err: error, node }, 'redis'))
  } else {
    endSilent(client, pingMs)
    client.on('sentinelError', (error: Error) => log.warn({ err: error }, 'redis'))
  }
  client.connect().catch(() => {})
  await Promise.race([ready(client, address), sleep(FIRST_CONNECT, null, { ref: false })]).catch(error => {
    if (!(error instanceof ConfigError)) return
    client.disconnect()
    throw error
  })
  return client
}

type RedisError = Error & { command?: { name: string } }

/** Takes keys of two hash slots, which shards refuse. */
const READ = 'redis.call("MGET", unpack(KEYS))'

const isOfDatabase = ({ command }: RedisError) => command?.name === 'select'

/**
 * Connects to each node at once. By itself, a cluster's client connects with the first command to a node, and rejects
 * commands that come meanwhile. Before the client is ready, its own check whether the cluster works may be one of them.
 */
function connectNodes(cluster: Cluster): void {
  const connectTo = (node: Redis) => {
    if (node.status === 'wait') node.connect().catch(() => {})
  }
  cluster.on('ready', () => cluster.nodes().forEach(connectTo))
  // Not at once: the client hears of a node that has just joined by an ASK, and sends that command there right now.
  cluster.on('+node', (node: Redis) => {
    if (cluster.status === 'ready') setImmediate(connectTo, node)
  })
}

/**
 * Resolves when the client is connected; of a cluster, to every node that can be reached.
 * @throws the first error of the client, or a ConfigError
 */
async function ready(client: Redis | Cluster, { sharded }: RedisAddress): Promise<void> {
  await once(client, 'ready').catch(error => {
    throw isOfDatabase(error)
      ? new ConfigError(`REDIS_URL names a database that Redis refuses: ${error.message}.`)
      : error
  })
  if (client instanceof Cluster) {
    const connecting = client.nodes().filter(({ status }) => status !== 'ready')
    await Promise.allSettled(connecting.map(node => once(node, 'ready')))
    return
  }
  if (sharded) return
  // Not checked for a user who may not call INFO.
  const info = await client.info().catch(() => '')
  // `redis_mode`; in Valkey `server_mode`.
  if (info.includes('_mode:sentinel'))
    throw new ConfigError('REDIS_URL names a sentinel: set REDIS_SENTINEL to the name of its master.')
  if (info.includes('cluster_enabled:1'))
    throw new ConfigError(
      'REDIS_URL names one node of a cluster: name several, or the only address twice, or set REDIS_SHARDED to on behind a proxy.'
    )
  const refused = await client.eval(READ, 2, 'sl:{a}', 'sl:{b}').catch(({ message }) => message)
  if (/\bCROSSSLOT\b|\bsame slot\b|\bnon[ -]local key\b/.test(String(refused)))
    throw new ConfigError('REDIS_URL leads to a proxy before several Redis: set REDIS_SHARDED to on.')
}

/**
 * Gives up a connection on which `MAX_UNANSWERED_PINGS` get no answer. Pings are counted rather than time (the client's
 * `socketTimeout`), since a process that was busy reads the answers that have come before it sends the next ping.
 */
function endSilent(client: Redis, pingMs: number): void {
  let unanswered = 0
  const answered = () => {
    unanswered = 0
  }
  const pinging = setInterval(() => {
    // In `connect`, the client waits for answers to commands of its own before it is ready.
    if (client.status !== 'ready' && client.status !== 'connect') return answered()
    if (unanswered++ === MAX_UNANSWERED_PINGS) {
      answered()
      // Not by `disconnect`, which waits for the other end to close, too.
      return client.stream.destroy()
    }
    // A user who may not ping gets an error, which is an answer, too.
    if (client.status === 'ready')
      client.ping().then(answered, error => error instanceof ReplyError && answered())
  }, pingMs).unref()
  client.once('end', () => clearInterval(pinging))
}

/** Ends the client after the commands under way, for which it waits no longer than `ms` milliseconds. */
export async function quit(client: Redis | Cluster, ms: number): Promise<void> {
  if (client.status === 'ready')
    await Promise.race([client.quit(), sleep(ms, null, { ref: false })]).catch(() => {})
  client.disconnect()
}

import { SecretMismatchError } from '../errors.js'
import { type IoredisExtras, isSharded, type RedisClient } from './client.js'
import { anyMixture } from './mixtures.js'
import { notQueued } from './redis-errors.js'
import { scripts } from './scripts.js'

const FINGERPRINT_SECONDS = 30 * 86_400

/** Warnings for a client of a single server that speaks to something else, by the mode of that server. */
const WRONG_SERVER: Record<string, string> = {
  cluster:
    'the client of redis is for a single server, and this is a node of a cluster; pass a Cluster of ioredis, or set sharded: true where a proxy stands before it',
  proxy: 'redis takes no keys of several hash slots in one call, as behind a proxy; set sharded: true',
  sentinel: 'the client of redis speaks to a sentinel; set its options sentinels and name'
}

interface ClientOptions {
  enableAutoPipelining?: boolean
  autoResendUnfulfilledCommands?: boolean
  retryDelayOnFailover?: number
  commandTimeout?: number
  clusterNodeRetryStrategy?: unknown
  sentinels?: unknown
  sentinelCommandTimeout?: number
}

/** Whom to call at new connections of a client. One listener serves all: apps may share a client, and come and go. */
const listeners = new WeakMap<RedisClient, Set<() => void>>()
/** For each client that is connecting, one wait that all callers share. */
const connecting = new WeakMap<RedisClient, Promise<boolean>>()

function listenTo(client: RedisClient & IoredisExtras): Set<() => void> {
  const called = new Set<() => void>()
  listeners.set(client, called)
  const tell = () => {
    for (const call of called) call()
  }
  client.on('ready', tell)
  // Not before the client is connected to the node: it names a lost one anew with each command that leads there.
  client.on('+node', node => node.on('ready', tell))
  return called
}

/** Waits for a client that is connecting. @returns whether it is connected now */
function waitFor(client: RedisClient & IoredisExtras): Promise<boolean> {
  const waiting = new Promise<boolean>(resolve => {
    const ready = () => end(true)
    const closed = () => end(false)
    const end = (connected: boolean) => {
      client.off('ready', ready)
      client.off('close', closed)
      connecting.delete(client)
      resolve(connected)
    }
    client.on('ready', ready)
    client.on('close', closed)
  })
  connecting.set(client, waiting)
  return waiting
}

/** What to find out about Redis, or the masters of a cluster, and what to load there, before it decides. */
export class RedisServer {
  private readonly client: RedisClient & IoredisExtras

  constructor(
    client: RedisClient,
    private readonly prefix: string,
    private readonly sharded = isSharded(client)
  ) {
    this.client = client as RedisClient & IoredisExtras
  }

  /** The client's connection; undefined while the client is not ready, and for a cluster, whose client has many. */
  get connection(): unknown {
    const { status, stream } = this.client
    return status === 'ready' ? stream : undefined
  }

  /** Waits for a client that is connecting. @returns whether it was connecting, and is connected now */
  async connected(): Promise<boolean> {
    const { client } = this
    if (client.status !== 'connecting' && client.status !== 'connect') return false
    return connecting.get(client) ?? waitFor(client)
  }

  /** Calls `call` at each new connection, also to a node that joins a cluster. @returns what ends these calls */
  onConnection(call: () => void): () => void {
    const called = listeners.get(this.client) ?? listenTo(this.client)
    called.add(call)
    return () => called.delete(call)
  }

  /** Warnings of what the client should not do, each with the option that ends it. */
  get warnings(): string[] {
    const { isCluster, options = {} } = this.client
    const { redisOptions = options } = options as { redisOptions?: object }
    const { retryDelayOnFailover, enableAutoPipelining, clusterNodeRetryStrategy } = options as ClientOptions
    const ofConnections = redisOptions as ClientOptions
    const found: string[] = []
    if (isCluster ? retryDelayOnFailover !== 0 : ofConnections.autoResendUnfulfilledCommands !== false) {
      const right = isCluster ? 'retryDelayOnFailover: 0' : 'autoResendUnfulfilledCommands: false'
      found.push(`the client of redis may count a send twice; set ${right}`)
    }
    if (isCluster && typeof clusterNodeRetryStrategy === 'function')
      found.push('the client of redis may count a send twice; set no clusterNodeRetryStrategy')
    if (ofConnections.commandTimeout !== undefined)
      found.push('the client of redis hides late answers, so what they count stays; set no commandTimeout')
    if (ofConnections.sentinels != null && ofConnections.sentinelCommandTimeout === undefined)
      found.push('the client of redis waits for a sentinel that hangs; set a sentinelCommandTimeout')
    // From a URL it is text.
    if (enableAutoPipelining || ofConnections.enableAutoPipelining)
      found.push('the client of redis may hang after a lost connection; set no enableAutoPipelining')
    return found
  }

  /** @returns a warning, if a client of a single server speaks to something else; else undefined */
  async wrongServer(): Promise<string | undefined> {
    if (this.sharded) return undefined
    // `redis_mode`; in Valkey `server_mode`.
    const [, mode = ''] = /_mode:(\w+)/.exec(await this.client.info('server')) ?? []
    return WRONG_SERVER[mode] ?? ((await this.takesAnyKeys()) ? undefined : WRONG_SERVER.proxy)
  }

  /**
   * Compares this process's secret with that of the others on this Redis.
   * @param fingerprint a hash of the secret
   * @throws SecretMismatchError when they use another
   */
  async verify(fingerprint: string): Promise<void> {
    const key = `${this.prefix}secret`
    // Reads first, since a Redis that takes no writes may still be read.
    let found = notQueued(await this.client.get(key))
    if (found === null) {
      const first = await this.client.set(key, fingerprint, 'EX', FINGERPRINT_SECONDS, 'NX')
      if (notQueued(first) === 'OK') return
      found = notQueued(await this.client.get(key))
    }
    // A cluster's client may read from replicas (`scaleReads`), which may be behind.
    if (found === null) throw new Error('the fingerprint of the secret is not there yet')
    if (found !== fingerprint) throw new SecretMismatchError(this.prefix)
    await this.client.set(key, fingerprint, 'EX', FINGERPRINT_SECONDS)
  }

  /** Loads the scripts that depend on no rules, so that none of them is sent whole while a request waits. */
  async load(): Promise<void> {
    const texts = [anyMixture, ...Object.values(scripts)].map(({ text }) => text)
    await Promise.all(this.nodes().flatMap(node => texts.map(text => node.script('LOAD', text))))
  }

  /** What Redis, or any master of a cluster, may do to live keys when its memory is full; `noeviction` for nothing. */
  async evictionPolicy(): Promise<string> {
    const found = await Promise.all(
      this.nodes().map(
        async node => /maxmemory_policy:(\S+)/.exec(await node.info('memory'))?.[1] ?? 'noeviction'
      )
    )
    return found.find(policy => policy !== 'noeviction') ?? 'noeviction'
  }

  /** Whether one call may name keys of several hash slots, which a proxy before shards refuses. */
  private async takesAnyKeys(): Promise<boolean> {
    const keys = ['a', 'b'].map(tag => `${this.prefix}{${tag}}`)
    const asked = this.client.evalBuffer(scripts.peek.text, keys.length, ...keys)
    const refused = await asked.then(
      () => '',
      (error: Error) => error.message
    )
    return !/\bCROSSSLOT\b|\bsame slot\b|\bnon[ -]local key\b/.test(refused)
  }

  private nodes(): Pick<RedisClient, 'info' | 'script'>[] {
    return this.client.nodes?.('master') ?? [this.client]
  }
}

import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { redisUrls } from './urls.js'

/** How long connecting may take, and how long the start waits for Redis, in milliseconds. */
export const FIRST_CONNECT = 2_000
/** The pause before a command on a slot that moves is repeated (TRYAGAIN), in milliseconds; 16 times at most. */
const TRY_AGAIN = 20
/** The pause between two looks whether the name of a replica leads to a master by now, in milliseconds. */
const LOOK_AGAIN = 100

const retry = (times: number) => Math.min(times * 100, 2_000)

/** While Redis is away, commands fail at once; none is queued or sent twice. */
const options = {
  connectTimeout: FIRST_CONNECT,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // Else from Redis 7.2 on the user of the API would need `client|setinfo`, which an older Redis does not know.
  disableClientInfo: true
}

/** The port of a sentinel. */
const SENTINEL_PORT = 26_379

/** Where Redis is. */
export interface RedisAddress {
  /** The URL of one Redis; or several URLs, separated by commas, of nodes of a cluster or of sentinels. */
  url: string
  /** The name of the master that the sentinels watch; left out: the URLs are no sentinels. */
  sentinel?: string | undefined
  /** The password of the sentinels; left out: they have none. */
  sentinelPassword?: string | undefined
  /** Whether the URL leads to a proxy that spreads keys over several Redis. */
  sharded?: boolean
}

/**
 * Makes a client that is not connected yet. Commands have no time limit: the caller has its own, and reads the answers
 * that have come before it gives up (with-timeout.ts).
 */
export function clientOf({ url, sentinel, sentinelPassword }: RedisAddress): Redis | Cluster {
  const urls = redisUrls(url)
  if (sentinel !== undefined) {
    const found = masterOf(urls, sentinel, sentinelPassword)
    return singleOf(more => new Redis({ ...options, ...found, ...more }))
  }
  const [first = '', ...others] = urls
  return others.length === 0
    ? singleOf(more => new Redis(first, { ...options, ...more }))
    : clusterOf(first, others)
}

// The return types of these are inferred: checking a client against a declared type takes the compiler seconds.
function singleOf(make: (more: RedisOptions) => Redis) {
  let looking = false
  const leaveForMaster = async () => {
    if (looking) return
    looking = true
    if ((await leadsToMaster(make)) && client.status === 'ready') client.disconnect(true)
    // No other look before that.
    setTimeout(() => (looking = false), LOOK_AGAIN).unref()
  }
  const client: Redis = make({
    lazyConnect: true,
    retryStrategy: retry,
    // This Redis is a replica by now. Its name, or its sentinels, may lead to the new master; until they do, this
    // connection can read.
    reconnectOnError({ message }) {
      if (/READONLY|MASTERDOWN/.test(message)) void leaveForMaster()
      return false
    }
  })
  return client
}

/** Whether a new connection leads to a Redis that is no replica. */
async function leadsToMaster(make: (more: RedisOptions) => Redis): Promise<boolean> {
  const probe = make({ lazyConnect: true, retryStrategy: () => null, sentinelRetryStrategy: () => null })
  probe.on('error', () => {})
  const late = setTimeout(() => probe.disconnect(), FIRST_CONNECT)
  try {
    await probe.connect()
    return !(await probe.info('replication')).includes('role:slave')
  } catch {
    return false
  } finally {
    clearTimeout(late)
    probe.disconnect()
  }
}

/** The login that a URL names. */
function loginOf({ username, password }: URL) {
  return {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) })
  }
}

/** How sentinels lead to their master, which takes the login and the database of the first URL. */
function masterOf(urls: string[], name: string, sentinelPassword: string | undefined): RedisOptions {
  const named = urls.map(url => new URL(url))
  const [first] = named as [URL]
  return {
    sentinels: named.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port || SENTINEL_PORT)
    })),
    name,
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    // Otherwise a sentinel that hangs would be waited for without end.
    sentinelCommandTimeout: FIRST_CONNECT,
    ...loginOf(first),
    db: Number(first.pathname.slice(1)),
    ...(first.protocol === 'rediss:' && { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true })
  }
}

function clusterOf(first: string, others: string[]) {
  const url = new URL(first)
  const tls = url.protocol === 'rediss:'
  return new Cluster([first, ...others], {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retry,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: TRY_AGAIN,
    // Names are kept: by an address, the client could not check whether a certificate is that of the node.
    ...(tls && { dnsLookup: (name, done) => done(null, name) }),
    // Nodes that are found by way of the named ones take the same login.
    redisOptions: { ...options, ...loginOf(url), ...(tls && { tls: {} }) }
  })
}

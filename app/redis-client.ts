import { Cluster, Redis } from 'ioredis'
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
  autoResendUnfulfilledCommands: false
}

/**
 * Makes a client that is not connected yet; for several nodes, separated by commas, a client of their cluster. Commands
 * have no time limit: the caller has its own, and reads the answers that have come before it gives up (with-timeout.ts).
 */
export function clientOf(urls: string): Redis | Cluster {
  const [first = '', ...others] = redisUrls(urls)
  return others.length === 0 ? singleOf(first) : clusterOf(first, others)
}

// The return types of these two are inferred: checking a client against a declared type takes the compiler seconds.
function singleOf(url: string) {
  let looking = false
  const leaveForMaster = async () => {
    if (looking) return
    looking = true
    if ((await isMaster(url)) && client.status === 'ready') client.disconnect(true)
    // No other look before that.
    setTimeout(() => (looking = false), LOOK_AGAIN).unref()
  }
  const client: Redis = new Redis(url, {
    ...options,
    lazyConnect: true,
    retryStrategy: retry,
    // This Redis is a replica by now. Its name may lead to the new master; until it does, this connection can read.
    reconnectOnError({ message }) {
      if (/READONLY|MASTERDOWN/.test(message)) void leaveForMaster()
      return false
    }
  })
  return client
}

/** Whether a new connection leads to a Redis that is no replica. */
async function isMaster(url: string): Promise<boolean> {
  const probe = new Redis(url, { ...options, lazyConnect: true, retryStrategy: () => null })
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

function clusterOf(first: string, others: string[]) {
  // Nodes that are found by way of the named ones take the same user name and password.
  const { username, password, protocol } = new URL(first)
  const tls = protocol === 'rediss:'
  return new Cluster([first, ...others], {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retry,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: TRY_AGAIN,
    // Names are kept: by an address, the client could not check whether a certificate is that of the node.
    ...(tls && { dnsLookup: (name, done) => done(null, name) }),
    redisOptions: {
      ...options,
      ...(username !== '' && { username: decodeURIComponent(username) }),
      ...(password !== '' && { password: decodeURIComponent(password) }),
      ...(tls && { tls: {} })
    }
  })
}

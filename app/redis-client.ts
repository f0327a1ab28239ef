import { Cluster, Redis } from 'ioredis'
import { redisUrls } from './urls.js'

/** How long a connection may take, and the start waits for Redis, in milliseconds. */
export const FIRST_CONNECT = 2_000
/** How often what stands on both sides of a slot that moves is asked again, in milliseconds: 16 times in all. */
const TRY_AGAIN = 20
/** How long after it was looked whether a replica has a master behind its name it is looked again, in milliseconds. */
const LOOK_AGAIN = 100

const retry = (times: number) => Math.min(times * 100, 2_000)

/** Commands fail at once while Redis is away; none is kept for later or sent twice. */
const options = {
  connectTimeout: FIRST_CONNECT,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false
}

/**
 * A client that is not connected yet; of several nodes, separated by commas, one of their cluster. Without a time limit for
 * commands: whoever asks waits as long as it means to, and first reads what has come.
 */
export function clientOf(urls: string): Redis | Cluster {
  const [first = '', ...others] = redisUrls(urls)
  return others.length === 0 ? singleOf(first) : clusterOf(first, others)
}

// What these two return is inferred: a client held against a type of the same name takes the compiler seconds.
function singleOf(url: string) {
  let looking = false
  const leaveForMaster = async () => {
    if (looking) return
    looking = true
    if ((await isMaster(url)) && client.status === 'ready') client.disconnect(true)
    // Another look no sooner than after that.
    setTimeout(() => (looking = false), LOOK_AGAIN).unref()
  }
  const client: Redis = new Redis(url, {
    ...options,
    lazyConnect: true,
    retryStrategy: retry,
    // A replica by now: behind its name may stand the one that has its place. Until it does, this one can be read.
    reconnectOnError({ message }) {
      if (/READONLY|MASTERDOWN/.test(message)) void leaveForMaster()
      return false
    }
  })
  return client
}

/** Whether a connection that is made now leads to a Redis that is no replica. */
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
  // The nodes that these tell of take the same name and password.
  const { username, password, protocol } = new URL(first)
  const tls = protocol === 'rediss:'
  return new Cluster([first, ...others], {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retry,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: TRY_AGAIN,
    // By addresses the client could not tell whether a certificate is that of the node's name.
    ...(tls && { dnsLookup: (name, done) => done(null, name) }),
    redisOptions: {
      ...options,
      ...(username !== '' && { username: decodeURIComponent(username) }),
      ...(password !== '' && { password: decodeURIComponent(password) }),
      ...(tls && { tls: {} })
    }
  })
}

import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import t from 'tap'
import { RedisStore } from '../../plugin/store/redis.js'
import type { Entry, Store, Taken } from '../../plugin/store/store.js'
import { storeContract } from '../contract/store.js'
import { Time } from '../contract/time.js'
import { clusterOf, startCluster } from '../helper/cluster.js'
import { startProxy } from '../helper/proxy.js'

/** Makes of each identity another one for each rule, so that one decision asks several nodes. */
function scattered(store: Store): Store {
  const scatter = <T extends Entry>(entry: T): T => ({
    ...entry,
    identity: createHash('md5').update(`${entry.identity} ${entry.spec.rule}`).digest('base64url')
  })
  const taken = (all: readonly Taken[]) => all.map(each => ({ ...each, entry: scatter(each.entry) }))
  return {
    name: store.name,
    reserve: (entries, token) => store.reserve(entries.map(scatter), token),
    count: (entry, ago, ends) => store.count(scatter(entry), ago, ends),
    peek: entries => store.peek(entries.map(scatter)),
    refund: (all, token) => store.refund(taken(all), token),
    renew: (entry, token) => store.renew(scatter(entry), token),
    clear: entries => store.clear(entries.map(scatter)),
    block: (entries, ms) => store.block(entries.map(scatter), ms),
    unblock: entries => store.unblock(entries.map(scatter)),
    close: () => store.close()
  }
}

const cluster = await startCluster(t)
const client = await cluster.connect()

const single = new Redis(await startProxy(t, cluster))
t.teardown(() => single.disconnect())

async function open(start: string, redis = new RedisStore(client, 'test:')) {
  await cluster.flush()
  return { store: clusterOf(redis).store, time: new Time(start, cluster.clock) }
}

await storeContract(t, 'cluster', (_, start) => open(start))

await storeContract(t, 'cluster, scattered', async (_, start) => {
  const { store, time } = await open(start)
  return { store: scattered(store), time }
})

await storeContract(t, 'cluster behind a proxy, scattered', async (_, start) => {
  const { store, time } = await open(start, new RedisStore(single, 'test:', 1_000, true))
  return { store: scattered(store), time }
})

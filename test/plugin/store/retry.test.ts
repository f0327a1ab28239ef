import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Redis, type RedisOptions } from 'ioredis'
import t, { type Test } from 'tap'
import type { RedisClient } from '../../../plugin/store/client.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { retry } from '../../../plugin/store/retry.js'
import { count, entry, lock, log, named, takenOf, token, usedOf } from '../../contract/specs.js'
import { activeTimers } from '../../helper/active-timers.js'
import { startCluster } from '../../helper/cluster.js'
import { folderOf } from '../../helper/folder.js'
import { scriptCalls, startRedis } from '../../helper/redis.js'
import { timersByHand } from '../../helper/timers-by-hand.js'
import { turns } from '../../helper/turns.js'
import { until } from '../../helper/until.js'

const TIMEOUT_MS = 10_000

const { client: admin } = await startRedis(t)

/** Two reservations under the same limits; the refund gives back the second one, with its lock. */
async function reserved(client: unknown) {
  const store = new RedisStore(client as RedisClient, 'test:', TIMEOUT_MS)
  const counts = [entry(log([2, 60_000])), entry(count(2, 'day'))]
  const entries = [...counts, entry(lock(600_000))]
  const holder = token()
  await store.reserve(counts, '')
  const taken = takenOf(entries, named(entries, await store.reserve(entries, holder)))
  const used = async () => usedOf(entries, await store.peek(entries))
  t.strictSame(await used(), [2, 2, 1])
  return { store, refund: () => store.refund(taken, holder), used }
}

async function open(t: Test, options: RedisOptions = {}) {
  await admin.flushall()
  const client = admin.duplicate({
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => 1,
    ...options
  })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await client.connect()
  return { client, ...(await reserved(client)), again: checking(t, client) }
}

/** @returns a function that has the store check now whether to call again, once the client has a connection */
function checking(t: Test, client: Redis) {
  const check = timersByHand(t, TIMEOUT_MS / 10)
  return async () => {
    await until(() => client.status === 'ready', 'a connection')
    await turns()
    check()
  }
}

/** A retried call that ends as each of `answers` says in turn, and after these never. */
function calling(t: Test, ...answers: (() => Promise<unknown>)[]) {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const caller = { connection: 0, closed: false }
  let calls = 0
  const call = () => answers[calls++]?.() ?? new Promise(() => {})
  const done = retry(call, caller, TIMEOUT_MS)
  return {
    caller,
    done,
    calls: () => calls,
    async check(ms = TIMEOUT_MS / 10) {
      await turn()
      mock.timers.tick(ms)
    }
  }
}

t.test('a call that is never answered is made once over each connection', async t => {
  const { caller, calls, check } = calling(t)
  for (const times of [1, 2, 3]) {
    await check()
    await check()
    t.equal(calls(), times)
    caller.connection++
  }
})

t.test('a call is made again over a new connection for fifteen time-outs, then no more', async t => {
  const { caller, calls, check } = calling(t)
  for (let checks = 0; checks < 10; checks++) await check()
  caller.connection++
  await check()
  t.equal(calls(), 1, 'after ten checks the connection is checked once in a time-out')
  for (let timeouts = 1; timeouts < 14; timeouts++) await check(TIMEOUT_MS)
  t.equal(calls(), 2)
  caller.connection++
  await check(TIMEOUT_MS)
  t.equal(calls(), 3)
  caller.connection++
  await check(TIMEOUT_MS)
  t.equal(calls(), 3, 'no more after fifteen time-outs')
})

t.test('once the store is closed no call is made but one that is due, even over new connections', async t => {
  const { caller, calls, check } = calling(t)
  await check()
  caller.closed = true
  for (let checks = 0; checks < 3; checks++) {
    caller.connection++
    await check()
  }
  t.ok(calls() <= 2, 'at most the call that was due')
})

t.test('after a time-out the caller hears the last error, and the call is still retried', async t => {
  let calls = 0
  const failing = Array.from({ length: 20 }, () => () => Promise.reject(new Error(`READONLY ${++calls}`)))
  const { done, check } = calling(t, ...failing)
  const rejected = t.rejects(done, { message: 'READONLY 10' })
  for (let checks = 0; checks < 10; checks++) await check()
  await rejected
  await check(TIMEOUT_MS)
  t.equal(calls, 12)
})

t.test('no timer is left once the calls have ended or the store is closed', async () => {
  const before = activeTimers()
  const silent = () => new Promise(() => {})
  void retry(silent, { connection: 0, closed: false }, 10)
  void retry(silent, { connection: 0, closed: true }, 1_000)
  await until(() => activeTimers() <= before, 'the end of both')
})

t.test('a call that failed is made again, and not while the second one is under way', async t => {
  const { calls, check } = calling(t, () => Promise.reject(new Error('the connection is closed')))
  for (const times of [2, 2, 2]) {
    await check()
    t.equal(calls(), times)
  }
})

const TRANSIENT = [
  'READONLY',
  'MASTERDOWN',
  'NOREPLICAS',
  'LOADING',
  'BUSY',
  'CLUSTERDOWN',
  'MOVED',
  'OOM',
  'MISCONF'
]
for (const [code, times] of [
  ...TRANSIENT.map(code => [code, 2] as const),
  ['NOPERM', 1],
  ['ERR', 1]
] as const)
  t.test(`a call that is answered ${code} is made ${times === 1 ? 'once' : 'again'}`, async t => {
    const { done, calls, check } = calling(t, () => Promise.reject(new Error(`${code} as Redis says it`)))
    done.catch(() => {})
    await check()
    t.equal(calls(), times)
  })

t.test('a refund during a reconnect is made after it', async t => {
  const { client, refund, used, again } = await open(t)
  client.stream.destroy()
  await once(client, 'close')
  const refunded = refund()
  await again()
  await refunded
  t.strictSame(await used(), [1, 1, 0])
})

for (const maxRetriesPerRequest of [0, null]) {
  const how = maxRetriesPerRequest === 0 ? 'fails' : 'is never answered'
  t.test(`a refund that ${how} when its connection breaks is made over the next one`, async t => {
    const { client, refund, used, again } = await open(t, { maxRetriesPerRequest })
    await admin.client('PAUSE', 600_000, 'WRITE')
    const refunded = refund()
    // A single command leaves at once.
    await new Promise<void>(done => process.nextTick(done))
    client.stream.destroy()
    await once(client, 'close')
    await admin.client('UNPAUSE')
    await again()
    await refunded
    t.strictSame(await used(), [1, 1, 0])
  })
}

t.test('a refund whose answer is lost is called twice, and gives its slots back once', async t => {
  const { client, refund, used, again } = await open(t)
  const before = (await scriptCalls(admin)).all
  const refunded = refund()
  await new Promise<void>(done => process.nextTick(done))
  client.stream.pause()
  await until(async () => (await scriptCalls(admin)).all > before, 'its call')
  client.stream.destroy()
  await once(client, 'close')
  await again()
  await refunded
  t.equal((await scriptCalls(admin)).all, before + 2)
  t.strictSame(await used(), [1, 1, 0])
})

t.test('a refund at a master that has become a replica is made once it is a master again', async t => {
  const { client, refund, used, again } = await open(t, { reconnectOnError: () => true })
  const broken = once(client, 'close')
  await admin.replicaof('127.0.0.1', 1)
  const refunded = refund()
  await broken
  await admin.replicaof('NO', 'ONE')
  await again()
  await refunded
  t.strictSame(await used(), [1, 1, 0])
})

t.test('a refund at a master that has too few replicas is made once it takes writes again', async t => {
  const { refund, used, again } = await open(t)
  await admin.config('SET', 'min-replicas-to-write', '1')
  const refunded = refund()
  await t.rejects(admin.set('anything', ''), { message: /^NOREPLICAS/ })
  await admin.config('SET', 'min-replicas-to-write', '0')
  await again()
  await refunded
  t.strictSame(await used(), [1, 1, 0])
})

t.test('a refund at a master that cannot save is made once it takes writes again', async t => {
  const dir = folderOf(t)
  const { client } = await startRedis(t, { args: ['--save', '3600 1', '--dir', dir] })
  const { refund, used } = await reserved(client)
  const again = checking(t, client)
  rmSync(dir, { recursive: true })
  await client.bgsave()
  await until(async () => /rdb_last_bgsave_status:err/.test(await client.info('persistence')), 'the failure')
  const refunded = refund()
  await t.rejects(client.set('anything', ''), { message: /^MISCONF/ })
  const isRefused = async () => /cmdstat_eval:.*failed_calls=1/.test(await client.info('commandstats'))
  await until(isRefused, 'its refusal')
  await client.config('SET', 'stop-writes-on-bgsave-error', 'no')
  await again()
  await refunded
  t.strictSame(await used(), [1, 1, 0])
})

t.test('a refund that Redis denies to the user is called once', async t => {
  const { refund } = await open(t)
  await admin.call('ACL', 'SETUSER', 'default', '-set')
  t.teardown(() => admin.call('ACL', 'SETUSER', 'default', '+set'))
  const before = (await scriptCalls(admin)).all
  await t.rejects(refund(), { name: 'ReplyError' })
  t.equal((await scriptCalls(admin)).all, before + 1)
})

t.test('closing the store ends a refund that waits for a connection', async t => {
  const { client, store, refund } = await open(t, { retryStrategy: () => 600_000 })
  client.stream.destroy()
  await once(client, 'close')
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const failures: Error[] = []
  refund().catch(error => failures.push(error))
  await turn()
  store.close()
  t.strictSame(failures, [])
  mock.timers.tick(TIMEOUT_MS / 10)
  await turn()
  t.match(failures, [{ message: /enableOfflineQueue/ }])
})

t.test('a refund to a node of a cluster whose connection is lost is made over the next one', async t => {
  const cluster = await startCluster(t)
  const client = await cluster.connect({ enableOfflineQueue: false, retryDelayOnFailover: 0 })
  const { refund, used } = await reserved(client)
  for (const node of client.nodes()) node.disconnect()
  await refund()
  t.strictSame(await used(), [1, 1, 0])
})

t.test('a refund while a slow script keeps Redis busy is made after it', async t => {
  const { url, client: slow } = await startRedis(t, { args: ['--lua-time-limit', '20'] })
  const client = new Redis(url, { autoResendUnfulfilledCommands: false })
  t.teardown(() => client.disconnect())
  const { refund, used } = await reserved(client)
  const again = checking(t, client)
  const busy = slow.eval('while true do end', 0).catch(error => error.message)
  const isBusy = () =>
    client.get('anything').then(
      () => false,
      error => /^BUSY/.test(error.message)
    )
  await until(isBusy, 'a script that is slow')
  const refunded = refund()
  await turn()
  await t.rejects(client.get('anything'), { message: /^BUSY/ })
  await client.script('KILL')
  t.match(await busy, 'killed by user')
  await again()
  await refunded
  t.strictSame(await used(), [1, 1, 0])
})

t.test('a refund while no node has its hash slot is made once a node has it again', async t => {
  const cluster = await startCluster(t)
  const options = { enableOfflineQueue: false, retryDelayOnFailover: 0, retryDelayOnClusterDown: 0 }
  const client = await cluster.connect(options)
  const { refund, used } = await reserved(client)
  const keys = await Promise.all(cluster.nodes.map(({ client }) => client.keys('*')))
  const at = keys.findIndex(names => names.length > 0)
  const node = cluster.nodes[at]?.client
  const key = keys[at]?.[0] as string
  const slot = await node?.call('CLUSTER', 'KEYSLOT', key)
  await node?.call('CLUSTER', 'DELSLOTS', String(slot))
  const refunded = refund()
  await t.rejects(client.get(key), { message: /^CLUSTERDOWN/ })
  await node?.call('CLUSTER', 'ADDSLOTS', String(slot))
  await refunded
  t.strictSame(await used(), [1, 1, 0])
})

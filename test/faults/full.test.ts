import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Decision, SendLimitOptions } from '../../plugin/index.js'
import { startCluster } from '../helper/cluster.js'
import { intervalsByHand } from '../helper/intervals.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { open, openOn } from './process.js'

const key = { value: 'body.who' } as const
const rules = [
  { name: 'log', key, limits: [{ max: 5, window: '1h' }] },
  { name: 'day', key, limits: [{ max: 5, per: 'day' as const }] },
  { name: 'different', key, distinct: { value: 'body.what' }, limits: [{ max: 5, window: '1h' }] },
  { name: 'order', key, lock: '36s', maxHold: '1h' }
]
const RENEWAL_MS = 12_000
/** No answer is taken for lost. */
const patient = { timeout: 10_000, onStoreError: 'deny' } as const

t.test('a Redis that is full renews locks, refunds and releases, and admits no new identity', async t => {
  const { client: admin, port } = await startRedis(t)
  const client = new Redis(port, { autoResendUnfulfilledCommands: false })
  const renew = intervalsByHand(t, RENEWAL_MS)
  const { app } = await openOn(t, client, { rules, ...patient })
  const counted = { log: 'a', day: 'a', different: ['a', '1'] }
  const left = async () => (await app.limit.peek(counted)).rules.map(({ limits }) => limits[0]?.remaining)
  const reserve = (keys: Record<string, unknown>): Promise<Decision> => app.limit.reserve(keys)
  const ends = async () => {
    const names = (await admin.keys('sl:{*')).sort().filter(name => !/:(lock|refunds)$/.test(name))
    return Promise.all(names.map(name => admin.pexpiretime(name)))
  }
  ;(await reserve(counted)).end()
  const failing = await reserve({ ...counted, different: ['a', '2'] })
  const held = await reserve({ order: 'a' })
  t.same(await left(), [3, 3, 4], 'of the different values only the other one is used')
  const before = await ends()

  await admin.config('SET', 'maxmemory', '1')
  const [lock = ''] = await admin.keys('sl:{*:lock')
  const values = new Set<string>()
  const renewed = async () => {
    renew()
    return values.add(String(await admin.getBuffer(lock))).size > 3
  }
  await until(renewed, 'renewals')
  t.notOk(held.signal.aborted, 'a renewal in place takes no room')
  await failing.refund()
  t.same(await left(), [4, 4, 5], 'a refund takes no room either')
  for (const [i, end] of (await ends()).entries())
    t.ok(Math.abs(end - (before[i] ?? 0)) <= 1, 'it expires as before')
  const [refunds = ''] = await admin.keys('sl:{*:refunds')
  const [day = ''] = await admin.keys('sl:{*:day')
  t.ok(
    Math.abs((await admin.pexpiretime(refunds)) - (await admin.pexpiretime(day))) <= 1,
    'the refunds expire with their count'
  )
  await t.rejects(reserve({ log: 'b' }), { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' })
  await held.release()
  t.equal(await admin.exists(lock), 0)
})

t.test('on a Redis that is full, a refund gives its slots back and leaves a block without end', async t => {
  const { client: admin, port } = await startRedis(t)
  const client = new Redis(port, { autoResendUnfulfilledCommands: false })
  const { app } = await openOn(t, client, { rules, ...patient })
  const keys = { log: 'a', day: 'a' }
  const behind = { day: 'a', different: ['b', '1'] }
  ;(await app.limit.reserve(behind)).end()
  const failing = await app.limit.reserve({ ...keys, different: ['b', '2'] })
  const receipt = failing.receipt()
  await app.limit.block(keys)
  await admin.config('SET', 'maxmemory', '1')
  // The second refund finds nothing to give back.
  for (let i = 0; i < 2; i++) await app.limit.refund(receipt)
  const { rules: left, refusal } = await app.limit.peek({ ...keys, different: ['b', '1'] })
  t.same(
    left.map(({ limits }) => limits[0]?.remaining),
    [5, 4, 5]
  )
  t.equal(refusal, 'blocked')
  const names = (await admin.keys('sl:{*')).filter(name => !/:(distinct|refunds)$/.test(name))
  t.same(await Promise.all(names.map(name => admin.pttl(name))), [-1, -1], 'the blocked keys never expire')
})

t.test(
  'on a Redis that is full, a refund of a calendar limit alone, made twice, gives back one slot',
  async t => {
    const { client: admin, port } = await startRedis(t)
    const client = new Redis(port, { autoResendUnfulfilledCommands: false })
    const { app } = await openOn(t, client, { rules, ...patient })
    const [, failing] = [await app.limit.reserve({ day: 'a' }), await app.limit.reserve({ day: 'a' })]
    await admin.config('SET', 'maxmemory', '1')
    for (let i = 0; i < 2; i++) await app.limit.refund(failing.receipt())
    t.match((await app.limit.peek({ day: 'a' })).rules, [{ limits: [{ remaining: 4 }] }])
  }
)

/** A cluster, and a decision on two identities that are both on its first node. */
async function onOneNode(t: Test, options: SendLimitOptions) {
  const cluster = await startCluster(t)
  const { app, changes } = await open(t, cluster, options)
  const there: string[] = []
  for (let i = 0; there.length < 2; i++) {
    const { keys } = await app.limit.reserve({ once: `p${i}` })
    if ((await cluster.nodeOf(`sl:{${keys.once}}:x`)) === 0) there.push(`p${i}`)
  }
  await cluster.flush()
  const { client } = cluster.nodes[0] as (typeof cluster.nodes)[0]
  return { client, changes, reserve: () => app.limit.reserve({ once: there[0], both: there[1] }) }
}

const unavailable = { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' }

t.test('a cluster node that was full decides again on two identities that are both on it', async t => {
  const { client, changes, reserve } = await onOneNode(t, { onStoreError: 'deny' })
  await client.config('SET', 'maxmemory', '1')
  await t.rejects(reserve(), unavailable)
  await client.config('SET', 'maxmemory', '0')
  await until(() => reserve().then(Boolean, () => false), 'an answer')
  t.match(changes(), [{ msg: 'redis does not decide' }, { msg: 'redis decides again' }])
})

t.test('not every decision on two identities asks the node of a cluster that is full', async t => {
  const { client, reserve } = await onOneNode(t, { onStoreError: 'deny', timeout: '1m' })
  await client.config('SET', 'maxmemory', '1')
  await client.config('RESETSTAT')
  for (let i = 0; i < 9; i++) await t.rejects(reserve(), unavailable)
  t.match(await client.info('commandstats'), /^cmdstat_evalsha:calls=3,/m, 'two looks, and one decision')
})

t.test('a Redis whose user may not write is in an outage, which its refusals do not end', async t => {
  const { client: admin, port } = await startRedis(t)
  await admin.call('ACL', 'SETUSER', 'limits', 'on', '>password', '~sl:*', '+@all')
  const client = new Redis(port, {
    username: 'limits',
    password: 'password',
    autoResendUnfulfilledCommands: false
  })
  const once = [{ name: 'once', key, limits: [{ max: 1, window: '1h' }] }]
  const { app, changes } = await openOn(t, client, { rules: once })
  const { app: other } = await openOn(t, new Redis(port), { rules: once })
  let others = 0
  const isRefusedByRedis = async () => {
    const keys = { once: `a${others++}` }
    ;(await other.limit.reserve(keys)).end()
    return (await app.limit.reserve(keys)).store === 'redis'
  }
  await admin.call('ACL', 'SETUSER', 'limits', '-msetnx')
  for (const i of [1, 2, 3]) {
    t.equal((await app.limit.reserve({ once: `b${i}` })).store, 'memory')
    // A refusal by Redis does not end the outage.
    await until(isRefusedByRedis, 'a refusal of Redis')
  }
  t.strictSame(
    changes().map(({ msg }) => msg),
    ['redis does not decide']
  )
})

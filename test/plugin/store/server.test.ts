import { Cluster, Redis } from 'ioredis'
import t from 'tap'
import { RedisServer } from '../../../plugin/store/server.js'
import { startRedis } from '../../helper/redis.js'
import { until } from '../settlement/places.js'

const { client } = await startRedis(t)

async function open(): Promise<RedisServer> {
  await client.flushall()
  return new RedisServer(client, 'test:')
}

t.test('processes whose secrets differ find out', async t => {
  const server = await open()
  await server.verify('one')
  await server.verify('one')
  await t.rejects(new RedisServer(client, 'test:').verify('another'), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
  await new RedisServer(client, 'other:').verify('another')
  t.ok((await client.pttl('test:secret')) > 0)
})

t.test('it leaves no listener on a client that it has waited for', async t => {
  const late = client.duplicate({ lazyConnect: true })
  t.teardown(() => late.disconnect())
  const counted = () => ['ready', 'close'].map(event => late.listenerCount(event))
  const before = counted()
  const connecting = late.connect()
  t.equal(await new RedisServer(late, 'test:').connected(), true)
  await connecting
  t.same(counted(), before)
})

t.test('the secret is known for 30 days from the last start', async t => {
  const server = await open()
  for (let start = 0; start < 2; start++) {
    await server.verify('one')
    t.ok((await client.ttl('test:secret')) > 29 * 86_400)
    await client.expire('test:secret', 60)
  }
})

t.test('a client that reads from a replica which is behind does not take it for another secret', async t => {
  const { client: master, port } = await startRedis(t)
  const { client: replica } = await startRedis(t, { args: ['--replicaof', '127.0.0.1', `${port}`] })
  // Refused by its master, it stays behind.
  const link = (up: boolean) =>
    until(async () => {
      await replica.config('SET', 'masterauth', up ? '' : 'wrong')
      if (!up) await replica.call('CLIENT', 'KILL', 'TYPE', 'master')
      return (await replica.info('replication')).includes(`master_link_status:${up ? 'up' : 'down'}`)
    }, 'the link')
  await link(true)
  await link(false)
  const reads = Object.create(master, { get: { value: (key: string) => replica.get(key) } }) as Redis
  const verify = (fingerprint: string) => new RedisServer(reads, 'test:').verify(fingerprint)
  await verify('one')
  await t.rejects(verify('one'), { message: /not there yet/ })
  await link(true)
  await verify('one')
  await t.rejects(verify('another'), { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' })
})

t.test('says what Redis may do to live keys', async t => {
  const server = await open()
  t.equal(await server.evictionPolicy(), 'noeviction')
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  t.equal(await server.evictionPolicy(), 'allkeys-lru')
  await client.config('SET', 'maxmemory-policy', 'noeviction')
})

t.test('warns of a client that sends again, hides late answers or pipelines by itself', async t => {
  const at = { lazyConnect: true }
  const single = (options: object) => new Redis({ ...at, ...options })
  const cluster = (options: object) => new Cluster([client.options.port as number], { ...at, ...options })
  const commandTimeout = 1_000
  const cases: [Redis | Cluster, RegExp[]][] = [
    [single({}), [/twice; set autoResendUnfulfilledCommands: false$/]],
    [single({ autoResendUnfulfilledCommands: false }), []],
    [single({ autoResendUnfulfilledCommands: false, commandTimeout }), [/set no commandTimeout$/]],
    [cluster({}), [/twice; set retryDelayOnFailover: 0$/]],
    [cluster({ retryDelayOnFailover: 0 }), []],
    [cluster({ retryDelayOnFailover: 0, redisOptions: { commandTimeout } }), [/set no commandTimeout$/]],
    [cluster({ retryDelayOnFailover: 0, enableAutoPipelining: true }), [/set no enableAutoPipelining$/]],
    [
      single({ autoResendUnfulfilledCommands: false, enableAutoPipelining: true }),
      [/set no enableAutoPipelining$/]
    ]
  ]
  for (const [given, expected] of cases) {
    const { warnings } = new RedisServer(given, 'test:')
    t.equal(warnings.length, expected.length)
    t.match(warnings, expected)
  }
})

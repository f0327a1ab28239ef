import { once } from 'node:events'
import { Cluster, Redis } from 'ioredis'
import t from 'tap'
import { RedisServer } from '../../../plugin/store/server.js'
import { startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'

const { client } = await startRedis(t)

async function open(): Promise<RedisServer> {
  await client.flushall()
  return new RedisServer(client, 'test:')
}

t.test('a secret that differs from that of another process under the same prefix is rejected', async t => {
  const server = await open()
  await server.verify('one')
  await server.verify('one')
  await t.rejects(new RedisServer(client, 'test:').verify('another'), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
  await new RedisServer(client, 'other:').verify('another')
  t.ok((await client.pttl('test:secret')) > 0)
})

t.test('an open MULTI on the client is not taken for another secret', async t => {
  const server = await open()
  await client.multi({ pipeline: false })
  await t.rejects(server.verify('one'), { message: /a MULTI is open/ })
  await client.exec()
  await server.verify('one')
})

t.test('`connected` leaves no listener on a client that it has waited for', async t => {
  const late = client.duplicate({ lazyConnect: true })
  t.teardown(() => late.disconnect())
  const counted = () => ['ready', 'close'].map(event => late.listenerCount(event))
  const before = counted()
  const connecting = late.connect()
  const server = new RedisServer(late, 'test:')
  t.equal(await server.connected(), true)
  t.same(counted(), before)
  await connecting
})

t.test('`connected` waits for a client that is connecting, and for no other', async t => {
  const late = client.duplicate({ lazyConnect: true })
  t.teardown(() => late.disconnect())
  const server = new RedisServer(late, 'test:')
  t.equal(await server.connected(), false, 'the client was not told to connect')
  const connecting = late.connect()
  await once(late, 'connect')
  t.equal(server.connection, undefined, 'whether it is ready is not known yet')
  t.equal(await server.connected(), true)
  t.equal(server.connection, late.stream)
  t.equal(await server.connected(), false, 'the client is connected already')
  await connecting
  late.disconnect()
  await once(late, 'end')
  const again = late.connect()
  t.equal(await server.connected(), true)
  t.equal(server.connection, late.stream, 'it waits for the present connection, not for the one before')
  await again
  const lost = new Redis({ port: 1, retryStrategy: () => null }).on('error', () => {})
  t.equal(await new RedisServer(lost, 'test:').connected(), false, 'the client has given up')
})

t.test('each listener hears of every new connection until it stops listening', async t => {
  const own = client.duplicate({ retryStrategy: () => 1 })
  t.teardown(() => own.disconnect())
  await own.connect()
  const heard: string[] = []
  const ends = ['one', 'two'].map(name =>
    new RedisServer(own, 'test:').onConnection(() => heard.push(`${name}: ${own.status}`))
  )
  for (const end of ends) {
    own.disconnect(true)
    await once(own, 'ready')
    end()
  }
  own.disconnect(true)
  await once(own, 'ready')
  t.same(heard, ['one: ready', 'two: ready', 'two: ready'])
})

t.test('a listener on a cluster hears of every node that is reached, until it stops listening', async t => {
  const cluster = new Cluster([{ port: 1 }], { lazyConnect: true })
  t.teardown(() => cluster.disconnect())
  let heard = 0
  const end = new RedisServer(cluster, 'test:').onConnection(() => heard++)
  const join = async () => {
    const node = client.duplicate({ lazyConnect: true })
    cluster.emit('+node', node)
    const before = heard
    await node.connect()
    node.disconnect()
    return before
  }
  t.equal(await join(), 0, 'not before the client is connected to the node')
  t.equal(heard, 1)
  end()
  await join()
  t.equal(heard, 1)
})

t.test('the secret is known for 30 days from the last start', async t => {
  const server = await open()
  for (let start = 0; start < 2; start++) {
    await server.verify('one')
    const left = await client.ttl('test:secret')
    t.ok(left > 29 * 86_400 && left <= 30 * 86_400, `${left}`)
    await client.expire('test:secret', 60)
  }
})

t.test('a client that reads from a replica which is behind does not take it for another secret', async t => {
  const { client: master, port } = await startRedis(t)
  const { client: replica } = await startRedis(t, { args: ['--replicaof', '127.0.0.1', `${port}`] })
  // While its master refuses it, the replica stays behind.
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

t.test('a `MULTI` of somebody else that opens in between does not pass for another secret', async t => {
  await open()
  const own = client.duplicate()
  t.teardown(() => own.disconnect())
  for (const method of ['set', 'get'] as const) {
    let calls = 0
    // The last call of this method comes behind the MULTI.
    const most = method === 'set' ? 1 : 2
    const command = async (...args: string[]) => {
      if (++calls === most) await own.multi({ pipeline: false })
      return own.call(method, ...args)
    }
    const client = Object.create(own, {
      [method]: { value: command },
      ...(method === 'get' && { set: { value: async () => null } })
    }) as Redis
    await t.rejects(new RedisServer(client, 'test:').verify('one'), { message: /a MULTI is open/ }, method)
    await own.discard()
  }
})

t.test('`evictionPolicy` says what Redis may do to live keys', async t => {
  const server = await open()
  t.equal(await server.evictionPolicy(), 'noeviction')
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  t.equal(await server.evictionPolicy(), 'allkeys-lru')
  await client.config('SET', 'maxmemory-policy', 'noeviction')
})

t.test(
  '`warnings` are about clients that send again, hide late answers, wait for a sentinel or pipeline',
  async t => {
    const at = { lazyConnect: true }
    const single = (options: object) => new Redis({ ...at, ...options })
    const cluster = (options: object) => new Cluster([client.options.port as number], { ...at, ...options })
    const commandTimeout = 1_000
    const sentinel = { sentinels: [{ host: '127.0.0.1', port: 1 }], name: 'master' }
    const cases: [Redis | Cluster, RegExp[]][] = [
      [single({}), [/twice; set autoResendUnfulfilledCommands: false$/]],
      [single({ autoResendUnfulfilledCommands: false }), []],
      [single({ autoResendUnfulfilledCommands: false, commandTimeout }), [/set no commandTimeout$/]],
      [cluster({}), [/twice; set retryDelayOnFailover: 0$/]],
      [cluster({ retryDelayOnFailover: 0 }), []],
      [
        cluster({ retryDelayOnFailover: 0, clusterNodeRetryStrategy: () => 1 }),
        [/twice; set no clusterNodeRetryStrategy$/]
      ],
      [
        single({ autoResendUnfulfilledCommands: false, ...sentinel }),
        [/^the client of redis waits for a sentinel that hangs; set a sentinelCommandTimeout$/]
      ],
      [single({ autoResendUnfulfilledCommands: false, ...sentinel, sentinelCommandTimeout: 1_000 }), []],
      [cluster({ retryDelayOnFailover: 0, redisOptions: { commandTimeout } }), [/set no commandTimeout$/]],
      ...[
        { enableAutoPipelining: true },
        { redisOptions: { enableAutoPipelining: true } },
        { enableAutoPipelining: true, redisOptions: { enableAutoPipelining: false } }
      ].map((options): [Cluster, RegExp[]] => [
        cluster({ retryDelayOnFailover: 0, ...options }),
        [/set no enableAutoPipelining$/]
      ]),
      [
        single({ autoResendUnfulfilledCommands: false, enableAutoPipelining: true }),
        [/set no enableAutoPipelining$/]
      ],
      [
        new Redis('redis://127.0.0.1?enableAutoPipelining=true', {
          ...at,
          autoResendUnfulfilledCommands: false
        }),
        [/set no enableAutoPipelining$/]
      ],
      [new Redis('redis://127.0.0.1?autoResendUnfulfilledCommands=false', at), [/twice/]]
    ]
    for (const [given, expected] of cases) {
      const { warnings } = new RedisServer(given, 'test:')
      t.equal(warnings.length, expected.length)
      t.match(warnings, expected)
    }
  }
)

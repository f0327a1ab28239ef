import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { Redis, type RedisOptions } from 'ioredis'
import t, { type Test } from 'tap'
import { SecretMismatchError } from '../../../plugin/errors.js'
import { limitPlugin, type Rule } from '../../../plugin/index.js'
import { Examination } from '../../../plugin/store/examine.js'
import { RedisServer } from '../../../plugin/store/server.js'
import { introduce } from '../../helper/cluster.js'
import { appOf } from '../../helper/face.js'
import { folderOf } from '../../helper/folder.js'
import { intervals } from '../../helper/intervals.js'
import { launch } from '../../helper/launcher.js'
import { logStream } from '../../helper/log-stream.js'
import { freePort, startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'

const secret = '0123456789abcdef'
const another = 'another secret of length'

/** A time-out long enough for Redis to answer on a busy machine. */
const answering = { timeout: 10_000 }

type Given = { secret?: string; timeout?: number; prefix?: string; pluginTimeout?: number }

async function load(t: Test, client: Redis, { pluginTimeout = 10_000, ...given }: Given = {}) {
  const { lines, stream } = logStream()
  const app = appOf(t, { logger: { level: 'warn', stream }, pluginTimeout })
  const rules: Rule[] = [{ name: 'all', key: { value: 'body.all' }, limits: [{ max: 1_000, window: '60s' }] }]
  await app.register(limitPlugin, { client, secret, timeout: 50, rules, ...given })
  return { app, log: () => lines.join('') }
}

async function start(t: Test, client: Redis, given: Given = {}) {
  const loaded = await load(t, client, given)
  await loaded.app.ready()
  return loaded
}

async function down(t: Test, options: RedisOptions) {
  const port = await freePort()
  const client = new Redis({ port, maxRetriesPerRequest: null, ...options })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  return { port, client }
}

for (const enableOfflineQueue of [true, false]) {
  const how = enableOfflineQueue ? 'queues' : 'fails at once'
  t.test(
    `a Redis that is down at the start is checked once it is there, by a client that ${how}`,
    async t => {
      const { port, client } = await down(t, { enableOfflineQueue, retryStrategy: () => 20 })
      const { log } = await start(t, client)
      t.match(log(), /the secret of redis is not known yet/)
      const server = await startRedis(t, { port, args: ['--maxmemory-policy', 'allkeys-lru'] })
      await until(async () => (await server.client.exists('sl:secret')) === 1, 'a fingerprint')
      await until(() => /may evict live limits/.test(log()), 'a warning of the policy')
      t.notMatch(log(), /limits are not shared/)
    }
  )
}

t.test(
  'a secret that differs is logged once Redis is there, and the right one is accepted later',
  async t => {
    const { port, client } = await down(t, { retryStrategy: () => null })
    const { app, log } = await start(t, client, { secret: another })
    const server = await startRedis(t, { port })
    await start(t, server.client, answering)
    await client.connect()
    await until(() => /FST_SEND_LIMIT_SECRET_MISMATCH/.test(log()), 'the mismatch')
    t.match(log(), /limits are not shared/)
    await t.rejects(app.limit.verify(), { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' })
    await server.client.del('sl:secret')
    client.disconnect()
    await until(() => client.status === 'end', 'the end')
    await client.connect()
    const verified = () =>
      app.limit.verify().then(
        () => true,
        () => false
      )
    await until(verified, 'another check')
    await app.close()
  }
)

t.test(
  'with a secret that differs, calls before the server is ready are rejected, and nothing is counted',
  async t => {
    const { client } = await startRedis(t)
    await start(t, client, answering)
    const { app } = await load(t, client, { ...answering, secret: another })
    const differs = { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' }
    await t.rejects(app.limit.verify(), differs, 'verify, the first call')
    for (const call of ['reserve', 'peek', 'clear', 'block', 'unblock'] as const)
      await t.rejects(async () => void (await app.limit[call]({ all: 'somebody' })), differs, call)
    const run = app.limit.run({ all: 'somebody' }, () => t.fail('it ran'))
    await t.rejects(run, differs, 'run')
    await t.rejects(app.limit.refund('a receipt'), differs, 'refund')
    await t.rejects(async () => void (await app.ready()), differs)
    t.same(await client.keys('sl:{*'), [])
  }
)

t.test(
  'a decision before the server is ready waits for the check of Redis, which is made only once',
  async t => {
    const { port, client: other } = await startRedis(t)
    const client = new Redis({ port, enableOfflineQueue: false })
    t.teardown(() => client.disconnect())
    const { app, log } = await load(t, client, answering)
    const decision = await app.limit.reserve({ all: 'somebody' })
    t.equal(decision.store, 'redis')
    await app.ready()
    t.match(await other.info('commandstats'), /cmdstat_get:calls=1,/)
    t.equal(log().split('autoResendUnfulfilledCommands').length, 2)
  }
)

t.test('the check is made again when its answer was lost with the connection', async t => {
  const { pid, port, client: first } = await startRedis(t)
  await start(t, first, answering)
  const client = new Redis({ port, autoResendUnfulfilledCommands: false, retryStrategy: () => 20 })
  t.teardown(() => client.disconnect())
  client.on('error', () => {})
  await until(() => client.status === 'ready', 'a connection')
  process.kill(pid, 'SIGSTOP')
  const { log } = await start(t, client, { secret: another })
  t.notMatch(log(), /limits are not shared/)
  client.stream.destroy()
  process.kill(pid, 'SIGCONT')
  await until(() => /limits are not shared/.test(log()), 'the mismatch')
})

t.test('an answer to the check that comes after the start is logged once, without another check', async t => {
  const { pid, client } = await startRedis(t)
  await start(t, client, answering)
  const asked = async () => /cmdstat_get:calls=(\d+)/.exec(await client.info('commandstats'))?.[1]
  const before = Number(await asked())
  process.kill(pid, 'SIGSTOP')
  const running = intervals(t)
  const timeout = 50
  const { log } = await start(t, client, { secret: another, timeout })
  const checking = running.size
  // Timers of one length end in the order in which they began: two checks are over.
  for (let i = 0; i < 2; i++) await sleep(timeout)
  process.kill(pid, 'SIGCONT')
  await until(() => /limits are not shared/.test(log()), 'the mismatch')
  await until(() => running.size < checking, 'the end of its checks')
  t.equal(log().split('limits are not shared').length, 2)
  t.equal(Number(await asked()) - before, 1)
})

t.test('a check that Redis refused is made again', async t => {
  const { client } = await startRedis(t)
  await client.config('SET', 'maxmemory', '1')
  const { log } = await start(t, client)
  t.match(log(), /the secret of redis is not known yet/)
  await client.config('SET', 'maxmemory', '0')
  await until(async () => (await client.exists('sl:secret')) === 1, 'a fingerprint')
})

t.test('a client that is not made for clusters is warned of once on a node of a cluster', async t => {
  const nodes = [await startRedis(t, { cluster: true }), await startRedis(t, { cluster: true })]
  await introduce(nodes)
  for (const { port } of nodes) {
    const client = new Redis({ port, autoResendUnfulfilledCommands: false })
    t.teardown(() => client.disconnect())
    const { log } = await start(t, client, answering)
    t.match(log(), /node of a cluster; pass a Cluster of ioredis/)
    // Only one of them has the key of the secret.
    t.equal(log().trim().split('\n').length, 1)
  }
})

t.test('what redis refuses at each look is warned of once, until it works again', async t => {
  const { client } = await startRedis(t)
  const warned: string[] = []
  const log = {
    // What has no message is about the client.
    warn: (_: unknown, message?: string) => void (message && warned.push(message)),
    error() {}
  }
  const redis = new RedisServer(client, 'sl:')
  let looks = 0
  const evictionPolicy = () => redis.evictionPolicy().finally(() => looks++)
  const examination = new Examination(
    Object.assign(Object.create(redis), { evictionPolicy }),
    'a fingerprint',
    10_000,
    log
  )
  t.teardown(() => examination.end())
  const may = async (...rights: string[]) => {
    await client.call('ACL', 'SETUSER', 'default', ...rights)
    const before = looks
    examination.again()
    await until(() => looks > before, 'a look')
    await turn()
  }
  await examination.begin()
  t.same(warned, [])
  const both = ['redis could not load the scripts', 'the eviction policy of redis is not known']
  const without = ['-script', '-info']
  for (const time of [1, 2, 3]) {
    await may(...without)
    t.same(warned, both, `${time}`)
  }
  await may('+@all')
  await may(...without)
  t.same(warned, [...both, ...both])
})

t.test('a client that is not made for sentinels is warned of on a sentinel', async t => {
  const [folder, port] = [folderOf(t), await freePort()]
  const config = join(folder, 'sentinel.conf')
  writeFileSync(config, `port ${port}\nbind 127.0.0.1\ndir ${folder}\n`)
  t.teardown((await launch(['redis-server', config, '--sentinel'], join(folder, 'log'), {})).kill)
  const client = new Redis({ port, autoResendUnfulfilledCommands: false, retryStrategy: () => 20 })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await until(() => client.status === 'ready', 'a connection')
  const { log } = await start(t, client, answering)
  t.match(log(), /speaks to a sentinel; set its options sentinels and name/)
})

t.test('a secret that differs ends the start also where the client may be the wrong one', async t => {
  const { client } = await startRedis(t)
  await client.set('sl:secret', 'of another secret')
  const redis = Object.assign(new RedisServer(client, 'sl:'), { wrongServer: async () => 'the wrong one' })
  const warnings: unknown[] = []
  const log = { warn: (what: unknown) => warnings.push(what), error() {} }
  const examination = new Examination(redis, 'a fingerprint', 10_000, log)
  t.teardown(() => examination.end())
  await t.rejects(async () => examination.begin(), { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' })
  t.ok(warnings.includes('the wrong one'))
})

t.test('an examination that has ended neither listens nor checks, whenever it ends', async t => {
  const { client } = await startRedis(t)
  let [asked, listening] = [0, 0]
  const redis = Object.assign(new RedisServer(client, 'sl:'), {
    wrongServer: async () => undefined,
    verify: async () => void asked++,
    onConnection() {
      listening++
      return () => listening--
    }
  })
  for (const early of [false, true]) {
    const examination = new Examination(redis, 'a fingerprint', 10_000, { warn() {}, error() {} })
    const begun = examination.begin()
    if (early) examination.end()
    await begun
    t.equal(listening, early ? 0 : 1)
    examination.end()
    const before = asked
    examination.again()
    await client.ping()
    t.same([listening, asked - before], [0, 0])
  }
})

/** An examination that has checked Redis once; the test answers its checks. */
async function looking(t: Test) {
  const { client } = await startRedis(t)
  const answers: ((error?: Error) => void)[] = []
  const verify = () =>
    new Promise<void>((resolve, reject) => answers.push(error => (error ? reject(error) : resolve())))
  const redis = Object.assign(new RedisServer(client, 'sl:'), { verify })
  const examination = new Examination(redis, 'a fingerprint', 10_000, { warn() {}, error() {} })
  t.teardown(() => examination.end())
  const looks = (count: number) => until(() => answers.length === count, `look ${count}`)
  const begun = examination.begin()
  t.equal(examination.begin(), begun, 'a second call waits for the same check')
  await looks(1)
  answers[0]?.()
  await begun
  t.equal(examination.begin(), undefined, 'after it there is nothing to wait for')
  return { examination, answers, looks }
}

/** An examination of a Redis that does not answer during the start: `end` and `connect` say what happens meanwhile. */
async function late(t: Test, { end = false, connect = undefined as unknown } = {}) {
  const checks = new Set<object>()
  const begin = (check: () => void) => {
    const timer = { check, unref: (): object => timer }
    checks.add(timer)
    return timer
  }
  const mocks = [
    mock.method(globalThis, 'setInterval', begin as unknown as typeof setInterval),
    mock.method(globalThis, 'clearInterval', (timer?: unknown) => void checks.delete(timer as object))
  ]
  t.teardown(() => {
    for (const each of mocks) each.mock.restore()
  })
  const answers: ((error?: Error) => void)[] = []
  const errors: unknown[] = []
  const redis = {
    warnings: [],
    connection: 'first' as unknown,
    verify: () =>
      new Promise<void>((resolve, reject) => answers.push(error => (error ? reject(error) : resolve()))),
    connected: async () => false,
    wrongServer: async () => undefined,
    onConnection: () => () => {}
  }
  const log = { warn() {}, error: (what: object) => void errors.push(what) }
  const examination = new Examination(redis as unknown as RedisServer, 'a fingerprint', 10, log)
  t.teardown(() => examination.end())
  const begun = examination.begin()
  if (end) examination.end()
  if (connect !== undefined) redis.connection = connect
  await begun
  /** How many checks it has made after so many time-outs. */
  const looked = async (timeouts: number) => {
    for (let i = 0; i < timeouts; i++) {
      await turn()
      for (const timer of [...checks] as ReturnType<typeof begin>[]) timer.check()
    }
    return answers.length
  }
  return { redis, examination, answers, errors, looked }
}

t.test('an unanswered check is made again once over each new connection, and not without one', async t => {
  const { redis, looked } = await late(t)
  t.equal(await looked(3), 1)
  redis.connection = undefined
  t.equal(await looked(3), 1)
  redis.connection = 'second'
  t.equal(await looked(3), 2)
})

t.test('an unanswered check is made again where the connection was lost while the start waited', async t => {
  const { looked } = await late(t, { connect: 'second' })
  t.equal(await looked(3), 2)
})

t.test('an answer after the end of the examination is neither logged nor asked for again', async t => {
  for (const error of [new SecretMismatchError('sl:'), new Error('gone')])
    await t.test(error.name, async t => {
      const { answers, errors, looked } = await late(t, { end: true })
      answers[0]?.(error)
      t.equal(await looked(3), 1)
      t.strictSame(errors, [])
    })
})

t.test('however often a check is asked for while one is under way, one more is made', async t => {
  const checking = intervals(t)
  const { examination, answers, looks } = await looking(t)
  for (let i = 0; i < 3; i++) examination.again()
  await looks(2)
  answers[1]?.()
  await looks(3)
  answers[2]?.()
  await until(() => checking.size === 0, 'the end of the third, with no other after it')
  t.equal(answers.length, 3)
})

t.test('one more check is made where the one under way finds another secret', async t => {
  const { examination, answers, looks } = await looking(t)
  for (let i = 0; i < 2; i++) examination.again()
  await looks(2)
  answers[1]?.(new SecretMismatchError('sl:'))
  await looks(3)
  t.throws(() => examination.verify(), { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' })
  answers[2]?.()
  await until(() => isVerified(examination), 'the right secret')
})

function isVerified(examination: Examination): boolean {
  try {
    examination.verify()
    return true
  } catch {
    return false
  }
}

t.test('a secret that differs from that in Redis under the same prefix ends the start', async t => {
  const { client } = await startRedis(t)
  await start(t, client, answering)
  await t.rejects(start(t, client, { ...answering, secret: another }), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
  await start(t, client, { ...answering, secret: another, prefix: 'other:' })
})

for (const lazyConnect of [false, true]) {
  const how = lazyConnect ? 'connects with its first command' : 'is connecting'
  t.test(`the start waits for a client that ${how} and fails at once`, async t => {
    const { port, client } = await startRedis(t)
    await start(t, client, answering)
    const connecting = () => {
      const client = new Redis({
        port,
        lazyConnect,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false
      })
      t.teardown(() => client.disconnect())
      return client
    }
    const { app, log } = await start(t, connecting(), answering)
    t.equal((await app.limit.reserve({ all: 'all' })).store, 'redis')
    t.equal(log(), '')
    await t.rejects(start(t, connecting(), { ...answering, secret: another }), {
      code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
    })
  })
}

t.test('for a Redis that hangs the start waits no longer than Fastify waits for it', async t => {
  const { pid, port } = await startRedis(t)
  process.kill(pid, 'SIGSTOP')
  const client = new Redis(port, { enableOfflineQueue: false, autoResendUnfulfilledCommands: false })
  t.teardown(() => client.disconnect())
  const { log } = await start(t, client, { timeout: 60_000, pluginTimeout: 1_000 })
  t.match(log(), /the secret of redis is not known yet/)
})

t.test('a Redis that comes back empty is checked again each time', async t => {
  let { port, client: admin, kill } = await startRedis(t)
  const client = new Redis({ port, autoResendUnfulfilledCommands: false, retryStrategy: () => 20 })
  t.teardown(() => client.disconnect())
  client.on('error', () => {})
  const { app, log } = await start(t, client)
  const decidedBy = async () => (await app.limit.reserve({ all: 'all' })).store
  for (const args of [[], ['--maxmemory-policy', 'allkeys-lru']]) {
    admin.on('error', () => {})
    await kill()
    await until(async () => (await decidedBy()) === 'memory', 'its loss')
    ;({ client: admin, kill } = await startRedis(t, { port, args }))
    await until(async () => (await decidedBy()) === 'redis', 'its return')
    await until(async () => (await admin.exists('sl:secret')) === 1, 'the fingerprint')
  }
  await until(() => /may evict live limits/.test(log()), 'a warning of the policy')
  await t.rejects(start(t, admin, { ...answering, secret: another }), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
})

t.test('a Redis that comes back empty while nothing is decided is checked again', async t => {
  const { port, kill } = await startRedis(t)
  const client = new Redis({ port, autoResendUnfulfilledCommands: false, retryStrategy: () => 20 })
  t.teardown(() => client.disconnect())
  client.on('error', () => {})
  const { app, log } = await start(t, client, answering)
  await kill()
  const { client: admin } = await startRedis(t, { port, args: ['--maxmemory-policy', 'allkeys-lru'] })
  await until(() => /may evict live limits/.test(log()), 'a warning of the policy')
  await t.rejects(start(t, admin, { ...answering, secret: another }), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
  await app.close()
})

t.test('apps that share a client, however many, have one listener on it', async t => {
  const { client } = await startRedis(t)
  const listeners = () => client.listenerCount('ready') + client.listenerCount('+node')
  const { app } = await start(t, client, answering)
  const before = listeners()
  for (let i = 0; i < 3; i++) await start(t, client, answering)
  t.equal(listeners(), before)
  await app.close()
})

t.test('apps that share a client that is connecting have fewer listeners on it than they are', async t => {
  const { port } = await startRedis(t)
  const client = new Redis({ port, enableOfflineQueue: false })
  t.teardown(() => client.disconnect())
  let added = 0
  client.on('newListener', event => {
    if (event === 'close') added++
  })
  await Promise.all(Array.from({ length: 12 }, () => start(t, client, answering)))
  t.ok(added > 0 && added < 12, `${added} listeners`)
})

t.test('a secret that differs ends the start even where Redis takes no writes', async t => {
  const { client } = await startRedis(t)
  await start(t, client, answering)
  await client.config('SET', 'maxmemory', '1')
  await t.rejects(start(t, client, { ...answering, secret: another }), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
})

t.test('an app that closes while its check is unanswered asks no more', async t => {
  const { pid, client } = await startRedis(t)
  process.kill(pid, 'SIGSTOP')
  const { app, log } = await start(t, client)
  await app.close()
  client.disconnect()
  await until(() => client.status === 'end', 'the end of its connection')
  t.match(log(), /the secret of redis is not known yet/)
})

t.test('a check asked for while the start still waits leaves one timer, and none after the end', async t => {
  const { pid, client } = await startRedis(t)
  process.kill(pid, 'SIGSTOP')
  const checks = intervals(t)
  const log = { warn() {}, error() {} }
  const examination = new Examination(new RedisServer(client, 'sl:'), 'a fingerprint', 50, log)
  const start = examination.begin()
  examination.again()
  await start
  t.equal(checks.size, 1)
  examination.end()
  t.equal(checks.size, 0)
  client.disconnect()
})

t.test('checks that the user of Redis may not make are warned of, and do not end the start', async t => {
  const { client: admin, port } = await startRedis(t, { args: ['--maxmemory-policy', 'allkeys-lru'] })
  await admin.call('ACL', 'SETUSER', 'few', 'on', '>password', '~*', '+@all', '-info', '-script')
  const client = new Redis({ port, username: 'few', password: 'password', enableReadyCheck: false })
  t.teardown(() => client.disconnect())
  const { log } = await start(t, client, answering)
  t.match(log(), /redis could not load the scripts/)
  t.match(log(), /the eviction policy of redis is not known/)
  t.notMatch(log(), /may evict|the secret of redis/)
  t.equal(await admin.exists('sl:secret'), 1)
})

t.test('a client that sends commands again after a lost answer is warned of', async t => {
  const server = await startRedis(t)
  for (const autoResendUnfulfilledCommands of [true, false]) {
    const client = new Redis(server.port, { autoResendUnfulfilledCommands })
    t.teardown(() => client.disconnect())
    const { log } = await start(t, client)
    t.equal(/autoResendUnfulfilledCommands: false/.test(log()), autoResendUnfulfilledCommands)
  }
})

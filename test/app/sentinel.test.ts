import { Redis, type RedisOptions } from 'ioredis'
import t from 'tap'
import { clientOf } from '../../app/redis-client.js'
import { read } from '../docs/blocks.js'
import { linked } from '../helper/linked.js'
import { logStream } from '../helper/log-stream.js'
import type { RedisServer } from '../helper/redis.js'
import { startSentinel } from '../helper/sentinel.js'
import { until } from '../helper/until.js'
import { ask, verify } from './captcha.js'
import { block, startRedisOfPage, variables } from './deployed.js'
import { inject, startApp } from './helper.js'
import { provider } from './provider.js'

/** A Redis as of the page of deployment, with its users. */
async function start(master?: RedisServer): Promise<RedisServer> {
  const redis = await startRedisOfPage(t, 'redis', 'replicas', 'sentinel-user')
  const settings = { 'repl-diskless-sync-delay': '0', masteruser: 'replica', masterauth: 'REPLICA_PASSWORD' }
  for (const [name, value] of Object.entries(settings)) await redis.client.config('SET', name, value)
  // For a database other than 0.
  await redis.client.call('ACL', 'SETUSER', 'api', '+select')
  if (!master) return redis
  await redis.client.replicaof('127.0.0.1', master.port)
  await linked(redis)
  return redis
}

t.test('the API follows the master that its sentinels name', async t => {
  const master = await start()
  await Promise.all([start(master), start(master)])
  const url = `redis://api:API_PASSWORD@127.0.0.1`
  const LIMIT_SECRET = 'a secret of these tests'
  // One sentinel, which decides alone, and soon.
  const file = block('sentinel')
    .replace(/^port .*\n/m, '')
    .replace('192.0.2.20 6379 2', `127.0.0.1 ${master.port} 1`)
    .replace('5000', '500')
  const port = await startSentinel(t, { file, password: 'SENTINELS_PASSWORD', replicas: 2 })
  await t.rejects(
    startApp(t, { LIMIT_SECRET, REDIS_URL: `redis://:SENTINELS_PASSWORD@127.0.0.1:${port}` }, {}),
    { message: 'REDIS_URL names a sentinel: set REDIS_SENTINEL to the name of its master.' }
  )
  const sms = provider()
  const { lines, stream } = logStream()
  const app = await startApp(
    t,
    {
      ...variables(block('sentinel-env')),
      LIMIT_SECRET,
      // Nobody is at the first.
      REDIS_URL: `${url}:1/1, redis://127.0.0.1:${port}`,
      STORE_TIMEOUT: '200',
      LOG_LEVEL: 'warn'
    },
    { senders: { sms }, logStream: stream }
  )
  t.match(
    lines.join(''),
    /failed to connect to sentinel 127\.0\.0\.1:1 /,
    'the log names a sentinel that is passed over'
  )
  const isReady = async () => (await inject(app, { url: '/readyz' })).status === 200
  await until(isReady, 'a master with a replica')
  const { id } = (await ask(app)).body
  const code = sms.lastCode()
  t.match(await master.client.info('keyspace'), /^db1:/m, 'the database is that of the URL')
  t.equal(await master.client.wait(2, 5_000), 2, 'the replicas have all')
  await master.kill()
  await until(async () => !(await isReady()), 'the loss')
  await until(isReady, 'an API that has followed', 20_000)
  t.equal((await verify(app, id, code)).status, 200, 'a code that was sent before the fail-over')
})

t.test(
  'while the password of sentinels is changed as the runbook says, each takes what the others send',
  async t => {
    const { port: master } = await start()
    const file = block('sentinel')
      .replace(/^port .*\n/m, '')
      .replace('192.0.2.20 6379 2', `127.0.0.1 ${master} 1`)
    const sentinel = { file, password: 'SENTINELS_PASSWORD', replicas: 0 }
    const ports = await Promise.all([startSentinel(t, sentinel), startSentinel(t, sentinel)])
    const login = (port: number, password: string) => {
      const client = new Redis(port, '127.0.0.1', { password, enableReadyCheck: false, retryStrategy: null })
      client.on('error', () => {})
      t.teardown(() => client.disconnect())
      return client
    }
    const [, row = ''] =
      /^\| `REDIS_SENTINEL_PASSWORD` \| (.+) \| nothing \|$/m.exec(read('docs/runbook.md')) ?? []
    const [before = '', after = ''] = row.split('; restart; ')
    const run = async (text: string, clients: Redis[]) => {
      for (const step of text.split('at each sentinel').slice(1))
        for (const client of clients) {
          for (const [, command = ''] of step.matchAll(/`([^`]+)`/g)) {
            const [name = '', ...args] = command.replace('OLD', 'SENTINELS_PASSWORD').split(' ')
            t.equal(await client.call(name, ...args), 'OK', `${name} ${args[0]}`)
          }
          for (const each of clients) {
            const [, sent = ''] = (await each.call('SENTINEL', 'CONFIG', 'GET', 'sentinel-pass')) as string[]
            for (const port of ports) t.equal(await login(port, sent).ping(), 'PONG')
          }
        }
    }
    await run(
      before,
      ports.map(port => login(port, 'SENTINELS_PASSWORD'))
    )
    for (const port of ports) t.equal(await login(port, 'SENTINELS_PASSWORD').ping(), 'PONG')
    await run(
      after,
      ports.map(port => login(port, 'NEW'))
    )
    for (const port of ports) {
      await t.rejects(login(port, 'SENTINELS_PASSWORD').ping())
      t.equal(await login(port, 'NEW').ping(), 'PONG')
    }
  }
)

t.test('the URLs say where the sentinels are, and the first one how to reach their master', async t => {
  const optionsOf = (url: string) => clientOf({ url, sentinel: 'main' }).options as RedisOptions
  const plain = optionsOf('redis://a.example,redis://[::1]:26380')
  const [one, two] = [
    { host: 'a.example', port: 26_379 },
    { host: '::1', port: 26_380 }
  ]
  t.strictSame(plain.sentinels, [one, two])
  t.equal(plain.tls, undefined)
  t.ok(plain.sentinelCommandTimeout, 'a sentinel that hangs is not waited for without end')
  t.match(optionsOf('rediss://api:p%40ss@a.example/1,rediss://[::1]:26380'), {
    sentinels: [one, two],
    username: 'api',
    password: 'p@ss',
    db: 1,
    tls: {},
    sentinelTLS: {},
    enableTLSForSentinelMode: true
  })
})

import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { limitPlugin, type SendLimitOptions } from '../../../plugin/index.js'
import { appOf } from '../../helper/face.js'
import { logStream } from '../../helper/log-stream.js'
import { startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'

async function start(t: Test, client: Redis, timeout: number, more: SendLimitOptions = {}) {
  const { lines, stream } = logStream()
  const app = appOf(t, { logger: { level: 'warn', stream } })
  const key = { value: 'body.who' }
  const rules = [{ name: 'who', key, limits: [{ max: 1, window: '60s' }] }]
  await app.register(limitPlugin, { client, secret: '0123456789abcdef', timeout, rules, ...more })
  await app.ready()
  const decidedBy = async (who: string) => (await app.limit.reserve({ who })).store
  const found = (message: string) => lines.map(line => JSON.parse(line)).filter(({ msg }) => msg === message)
  const logged = (message: string) => found(message).length
  return { app, decidedBy, logged, found }
}

t.test('a Redis that answers again over the same connection is checked again', async t => {
  const { pid, client } = await startRedis(t)
  const { decidedBy } = await start(t, client, 100)
  await client.del('sl:secret')
  process.kill(pid, 'SIGSTOP')
  await until(async () => (await decidedBy('a')) === 'memory', 'its loss')
  process.kill(pid, 'SIGCONT')
  await until(async () => (await decidedBy('b')) === 'redis', 'its return')
  await until(async () => (await client.exists('sl:secret')) === 1, 'the fingerprint')
})

t.test('a refusal, which only reads, does not end the outage of a Redis that takes no writes', async t => {
  const { client } = await startRedis(t)
  const { decidedBy, logged } = await start(t, client, 1_000)
  // The memory knows nothing of the sends of another process.
  const other = await start(t, client, 1_000)
  const full = Array.from({ length: 1_000 }, (_, i) => `full ${i}`)
  for (const who of full) await other.decidedBy(who)
  await client.config('SET', 'maxmemory', '1')
  t.equal(await decidedBy('new'), 'memory')
  await until(async () => (await decidedBy(full.pop() ?? '')) === 'redis', 'a refusal by Redis')
  t.equal(await decidedBy('newer'), 'memory')
  t.equal(logged('redis does not decide'), 1)
  await client.config('SET', 'maxmemory', '0')
  await until(async () => (await decidedBy('newest')) === 'redis', 'its return')
})

t.test('a foreign value under a key is logged, and is no outage', async t => {
  const { client } = await startRedis(t)
  const { decidedBy, logged } = await start(t, client, 10_000)
  t.equal(await decidedBy('a'), 'redis')
  const [key = ''] = await client.keys('sl:{*')
  await client.del(key)
  await client.rpush(key, 'theirs')
  t.equal(await decidedBy('a'), 'memory')
  t.equal(await decidedBy('b'), 'redis')
  t.equal(logged('redis cannot decide on a request'), 1)
  t.equal(logged('redis does not decide'), 0)
})

t.test('the memory that stands in for Redis holds no more than maxKeys', async t => {
  const { client, kill } = await startRedis(t)
  const { decidedBy } = await start(t, client, 1_000, { maxKeys: 2 })
  t.equal(await decidedBy('a'), 'redis')
  await kill()
  t.same([await decidedBy('b'), await decidedBy('a')], ['memory', 'memory'], 'one is known, one has room')
  await t.rejects(decidedBy('c'), { code: 'FST_SEND_LIMIT_STORE_FULL' })
})

t.test('an app that ends before Redis is back logs how many entries stay uncounted there', async t => {
  const { client, kill } = await startRedis(t)
  const { app, decidedBy, found } = await start(t, client, 1_000)
  await kill()
  for (const who of ['a', 'b', 'b']) t.equal(await decidedBy(who), 'memory')
  await app.close()
  const entries = found('what was admitted without redis may stay uncounted there')
  t.match(entries, [{ level: 50, entries: 2, onStoreError: 'memory', err: { message: 'the app ends' } }])
  t.equal(entries.length, 1)
})

t.test('with deny, rules that only observe let nobody pass either while Redis does not answer', async t => {
  const { client, kill } = await startRedis(t)
  const rules = [
    { name: 'who', key: { value: 'body.who' }, mode: 'observe' as const, limits: [{ max: 1, window: '60s' }] }
  ]
  const { decidedBy } = await start(t, client, 1_000, { rules, onStoreError: 'deny' })
  t.same([await decidedBy('a'), await decidedBy('a')], ['redis', 'redis'])
  await kill()
  await t.rejects(decidedBy('a'), { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' })
})

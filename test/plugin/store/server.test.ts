import t from 'tap'
import { RedisServer } from '../../../plugin/store/server.js'
import { startRedis } from '../../helper/redis.js'

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

t.test('says what Redis may do to live keys', async t => {
  const server = await open()
  t.equal(await server.evictionPolicy(), 'noeviction')
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  t.equal(await server.evictionPolicy(), 'allkeys-lru')
  await client.config('SET', 'maxmemory-policy', 'noeviction')
})

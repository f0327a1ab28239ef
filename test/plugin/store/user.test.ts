import { readFileSync } from 'node:fs'
import Fastify, { type FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import { limitPlugin, type Rule } from '../../../plugin/index.js'
import { root } from '../../docs/blocks.js'
import { logStream } from '../../helper/log-stream.js'
import { startRedis } from '../../helper/redis.js'

const key = { value: 'body.to' } as const
const rules: Rule[] = [
  { name: 'log', key, limits: [{ max: 2, window: '60s' }] },
  { name: 'day', key, limits: [{ max: 2, per: 'day' }] },
  { name: 'different', key, distinct: { value: 'body.what' }, limits: [{ max: 2, window: '60s' }] },
  { name: 'lock', key, lock: '30s' }
]

t.test('a user of Redis that may do what the documentation names, and nothing else', async t => {
  const { client: admin, port } = await startRedis(t)
  const [, rights = ''] =
    /`ACL SETUSER limits ([^`]+)`/.exec(readFileSync(new URL('docs/stores.md', root), 'utf8')) ?? []
  await admin.call('ACL', 'SETUSER', 'limits', ...rights.split(/\s+/))
  const client = new Redis({
    port,
    username: 'limits',
    password: 'password',
    autoResendUnfulfilledCommands: false
  })
  const { lines, stream } = logStream()
  const app = Fastify({ logger: { level: 'warn', stream } }) as unknown as FastifyInstance
  t.teardown(async () => {
    await app.close()
    client.disconnect()
  })
  await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules, onStoreError: 'deny' })
  await app.ready()

  const keys = { log: 'a', day: 'a', different: ['a', 'b'], lock: 'a' }
  const first = await app.limit.reserve(keys)
  t.match(first, { allowed: true, store: 'redis' })
  await first.refund()
  await first.release()
  const { lock: _, different: __, ...counted } = keys
  t.equal((await app.limit.reserve(keys)).allowed, true)
  t.equal((await app.limit.reserve(counted)).allowed, true)
  t.equal((await app.limit.reserve(counted)).allowed, false)
  t.equal((await app.limit.peek(counted)).allowed, false)
  await app.limit.block(counted)
  await app.limit.block(counted, '1m')
  await app.limit.unblock(counted)
  await app.limit.block(counted)
  await app.limit.clear(counted)
  await app.limit.unblock(counted)
  t.equal((await app.limit.reserve(counted)).allowed, true)
  t.strictSame(lines, [])
  await t.rejects(client.get('other'), { message: /NOPERM/ })
})

import { readFileSync } from 'node:fs'
import fastifyRedis from '@fastify/redis'
import { Redis } from 'ioredis'
import t from 'tap'
import { limitPlugin, type Rule } from '../../../plugin/index.js'
import { root } from '../../docs/blocks.js'
import { startFourNodes, startMove } from '../../faults/four-nodes.js'
import { open } from '../../faults/process.js'
import { appOf } from '../../helper/face.js'
import { logStream } from '../../helper/log-stream.js'
import { startRedis } from '../../helper/redis.js'

const key = { value: 'body.to' } as const
const rules: Rule[] = [
  { name: 'log', key, limits: [{ max: 2, window: '60s' }] },
  { name: 'day', key, limits: [{ max: 2, per: 'day' }] },
  { name: 'different', key, distinct: { value: 'body.what' }, limits: [{ max: 2, window: '60s' }] },
  { name: 'lock', key, lock: '30s' }
]

const page = readFileSync(new URL('docs/redis.md', root), 'utf8')
const [, rights = ''] = /`ACL SETUSER limits ([^`]+)`/.exec(page) ?? []
/** Rights that are needed only in some places, as the documentation names them. */
const also = (where: string) => new RegExp(`${where},\\s+\`([^\`]+)\``).exec(page)?.[1] ?? ''
/** An older Redis knows no `client|setinfo`. */
async function giveRights(admin: Redis, more = '') {
  const [, major = 0, minor = 0] = /^redis_version:(\d+)\.(\d+)/m.exec(await admin.info('server')) ?? []
  const newer = Number(major) > 7 || (Number(major) === 7 && Number(minor) > 1)
  const all = [rights, more, newer ? also('Redis 7.2 on') : ''].join(' ').trim()
  await admin.call('ACL', 'SETUSER', 'limits', ...all.split(/\s+/))
}

t.test(
  'a user of Redis with exactly the rights that the documentation names can make every call',
  async t => {
    const { client: admin, port } = await startRedis(t)
    await giveRights(admin)
    const client = new Redis({
      port,
      username: 'limits',
      password: 'password',
      autoResendUnfulfilledCommands: false
    })
    const { lines, stream } = logStream()
    const app = appOf(t, { logger: { level: 'warn', stream } }, client)
    await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules, onStoreError: 'deny' })
    await app.ready()

    const keys = { log: 'a', day: 'a', different: ['a', 'b'], lock: 'a' }
    const first = await app.limit.reserve(keys)
    t.match(first, { allowed: true, store: 'redis' })
    await app.limit.refund(first.receipt())
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
  }
)

t.test(
  'the same user decides by @fastify/redis in another database, with the right to select it',
  async t => {
    const { client: admin, port } = await startRedis(t)
    await giveRights(admin, also('`db`\\)'))
    const app = appOf(t)
    const url = `redis://limits:password@127.0.0.1:${port}/3`
    await app.register(fastifyRedis, { url, autoResendUnfulfilledCommands: false })
    await app.register(limitPlugin, { store: 'redis', secret: '0123456789abcdef', rules })
    await app.ready()
    t.equal((await app.limit.reserve({ log: 'a' })).store, 'redis')
    t.match(await admin.info('keyspace'), /db3:/)
    t.same(await admin.call('ACL', 'LOG'), [], 'nothing was denied')
  }
)

t.test('the same user decides on a cluster while a hash slot moves', async t => {
  const nodes = await startFourNodes(t, { 'cluster-node-timeout': 60_000 })
  for (const { client } of nodes) await giveRights(client, also('on a cluster'))
  const redisOptions = { username: 'limits', password: 'password' }
  const { app, changes } = await open(t, { nodes: [nodes[1]] }, {}, { redisOptions })
  const { moving, staying } = await startMove(nodes, app.limit, i => ({ other: `p${i}` }))
  for (const keys of [moving, staying]) t.equal((await app.limit.reserve(keys)).store, 'redis')
  t.strictSame(changes(), [])
  // The log shows anything else that was denied, even to the client itself.
  for (const { client } of nodes) t.same(await client.call('ACL', 'LOG'), [], 'nothing was denied')
})

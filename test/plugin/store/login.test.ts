import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { limitPlugin } from '../../../plugin/index.js'
import { appOf } from '../../helper/face.js'
import { logStream } from '../../helper/log-stream.js'
import { startRedis } from '../../helper/redis.js'
import { until } from '../../helper/until.js'

const PASSWORD = 'the-password-of-redis'

/** A process whose user of Redis has this password, and what it logs. */
async function open(t: Test, port: number) {
  const client = new Redis({
    port,
    username: 'limits',
    password: PASSWORD,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => 1
  })
  client.on('error', () => {})
  const { lines, stream } = logStream()
  const app = appOf(t, { logger: { stream } }, client)
  const rules = [{ name: 'once', key: { value: 'body.who' } as const, limits: [{ max: 5, window: '1h' }] }]
  await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules, timeout: 300 })
  await app.ready()
  const reserve = async () => (await app.limit.reserve({ once: 'a' })).store
  const logged = (what: string) => lines.filter(line => line.includes(what))
  return { client, reserve, logged }
}

t.test('a password that Redis refuses at the start is in no log', async t => {
  const { client: admin, port } = await startRedis(t)
  await admin.call('ACL', 'SETUSER', 'limits', 'on', '>another', '~*', '+@all')
  const { reserve, logged } = await open(t, port)
  const refused = async () => {
    t.equal(await reserve(), 'memory')
    return logged('WRONGPASS').length > 0
  }
  await until(refused, 'the refusal')
  t.same(logged(PASSWORD), [])
})

t.test('a password that is changed on the server is in no log', async t => {
  const { client: admin, port } = await startRedis(t)
  await admin.call('ACL', 'SETUSER', 'limits', 'on', `>${PASSWORD}`, '~*', '+@all')
  const { client, reserve, logged } = await open(t, port)
  await until(async () => (await reserve()) === 'redis', 'its connection')
  await admin.call('ACL', 'SETUSER', 'limits', 'resetpass', '>another')
  await admin.call('CLIENT', 'KILL', 'USER', 'limits')
  await until(() => client.status !== 'ready', 'the loss')
  const refused = async () => {
    await reserve()
    return logged('WRONGPASS').length > 0
  }
  await until(refused, 'the refusal')
  t.same(logged(PASSWORD), [])
})

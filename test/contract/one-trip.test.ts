import type { FastifyReply } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import { limitPlugin, type Rule } from '../../plugin/index.js'
import { appOf } from '../helper/face.js'
import { scriptCalls, startRedis } from '../helper/redis.js'
import { tapWire } from './wire.js'

/** Six `sends` rules: the lock, a calendar limit and different values among them. */
const rules: Rule[] = [
  { name: 'same-content', key: { digest: ['body.phone', 'body.text'] }, limits: [{ max: 2, window: '60s' }] },
  {
    name: 'mobile',
    key: { phone: 'body.phone' },
    limits: [
      { max: 2, window: '60s' },
      { max: 5, window: '1h' }
    ]
  },
  {
    name: 'recipients',
    key: 'ip',
    distinct: { phone: 'body.phone' },
    limits: [{ max: 5, window: '1h' }]
  },
  { name: 'address', key: 'ip', limits: [{ max: 100, window: '60s' }] },
  {
    name: 'account-day',
    key: { value: 'headers.account' },
    limits: [{ max: 1_000, per: 'day', timeZone: 'Asia/Shanghai' }]
  },
  { name: 'in-flight', key: { phone: 'body.phone' }, lock: '30s' }
]

async function open(limit = rules.map(rule => rule.name), handle = (_reply: FastifyReply) => {}) {
  const { client: direct, port } = await startRedis(t)
  const wire = await tapWire(t, port)
  const client = new Redis(wire.port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null })
  t.teardown(() => client.disconnect())
  const app = appOf(t)
  await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules, timeout: '10s' })
  const handlers: { commands: string[][]; calls: number }[] = []
  app.post('/send', { config: { limit } }, async (_, reply) => {
    handlers.push({ commands: [...wire.commands], calls: await calls() })
    handle(reply)
    return 'sent'
  })
  const calls = async () => (await scriptCalls(direct)).called
  await app.ready()
  async function send(phone: string) {
    // A reply does not wait for the release of its lock. Two pings, since the release may send its script first.
    for (let i = 0; i < 2; i++) await client.ping()
    const before = await calls()
    wire.commands.length = 0
    handlers.length = 0
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/send',
      headers: { account: '7' },
      payload: { phone, text: 'hello' }
    })
    return {
      statusCode,
      handler: handlers[0],
      commands: wire.commands,
      calls: (await calls()) - before,
      before
    }
  }
  return { client, send }
}

const names = (commands: string[][] | undefined) => commands?.map(([name]) => name?.toLowerCase())

t.test('a decision over six rules, the lock among them, is one command', async t => {
  const { send } = await open()
  const first = await send('13800138000')
  t.strictSame(names(first.handler?.commands), ['eval'], 'the first decision of all, which sends the script')

  const second = await send('13800138000')
  t.equal(second.statusCode, 200)
  t.strictSame(names(second.handler?.commands), ['evalsha'], 'admitted: one command before the handler runs')
  t.equal(second.handler?.commands[0]?.[2], '6', 'over six keys')
  t.equal((second.handler?.calls ?? 0) - second.before, 1, 'one call of a script')

  const refused = await send('13800138000')
  t.equal(refused.statusCode, 429)
  t.equal(refused.handler, undefined)
  t.strictSame(names(refused.commands), ['evalsha'], 'refused: one command in all')
  t.equal(refused.calls, 1, 'one call of a script')

  const other = await send('13800138001')
  t.strictSame([other.statusCode, names(other.handler?.commands)], [200, ['evalsha']])
})

t.test('a send that is kept costs no further command', async t => {
  const { client, send } = await open(['mobile', 'account-day'], reply => reply.limit?.keep())
  const { statusCode, commands } = await send('13800138000')
  t.equal(statusCode, 200)
  await client.ping()
  t.strictSame(names(commands), ['eval', 'ping'])
})

import t from 'tap'
import { cohort } from '../../plugin/cohort.js'
import { limitPlugin } from '../../plugin/index.js'
import { appOf } from '../helper/face.js'
import { scriptCalls, startRedis } from '../helper/redis.js'

t.test('all callers of one turn of the event loop go on together when it ends', async t => {
  const heard: string[] = []
  const ask = (name: string) => cohort().then(() => heard.push(name))
  const first = ask('a')
  await new Promise(resolve => process.nextTick(resolve))
  const second = ask('b')
  t.strictSame(heard, [])
  await first
  await second
  t.strictSame(heard, ['a', 'b'])
  await ask('c')
  t.strictSame(heard, ['a', 'b', 'c'], 'the next turn has a cohort of its own')
})

t.test('requests of one turn are decided by one call to Redis', async t => {
  const { client } = await startRedis(t)
  const app = appOf(t)
  await app.register(limitPlugin, {
    client,
    secret: '0123456789abcdef',
    rules: [{ name: 'mobile', key: { phone: 'body.phone' }, limits: [{ max: 1, window: '60s' }] }]
  })
  app.post('/send', { config: { limit: 'mobile' } }, async () => 'sent')
  const send = async (n: number) => {
    const payload = { phone: `1380013${n}` }
    return (await app.inject({ method: 'POST', url: '/send', payload })).statusCode
  }
  const calls = async () => (await scriptCalls(client)).called
  await send(8_999)
  const before = await calls()
  const all = await Promise.all(Array.from({ length: 7 }, (_, i) => send(8_000 + (i % 5))))
  t.strictSame(all, [200, 200, 200, 200, 200, 429, 429])
  t.equal((await calls()) - before, 1)
})

import { once } from 'node:events'
import { connect } from 'node:net'
import rateLimit from '@fastify/rate-limit'
import t from 'tap'
import { limitPlugin, type Rule } from '../../plugin/index.js'
import { appOf, open } from '../helper/face.js'
import { listen } from '../helper/listen.js'
import { until } from '../helper/until.js'

const attempts: Rule = { name: 'attempts', key: 'ip', counts: 'attempts', limits: [{ max: 9, window: '1h' }] }
const sends: Rule = { name: 'sends', key: 'ip', limits: [{ max: 9, window: '1h' }] }
const rules = [attempts, sends]

for (const [order, attempted] of [
  ['before', 1],
  ['after', 2]
] as const) {
  t.test(
    `a request that @fastify/rate-limit, registered ${order} the plugin, refuses counts no send`,
    async t => {
      const app = appOf(t)
      const register = {
        limits: () => app.register(limitPlugin, { rules }),
        rate: () => app.register(rateLimit, { max: 1 })
      }
      if (order === 'before') await register.rate()
      await register.limits()
      if (order === 'after') await register.rate()
      app.get('/x', { config: { limit: ['attempts', 'sends'] } }, async () => 'sent')
      t.equal((await app.inject('/x')).statusCode, 200)
      t.equal((await app.inject('/x')).statusCode, 429)
      const peeked = await app.limit.peek({ attempts: '127.0.0.1', sends: '127.0.0.1' })
      t.same(
        peeked.rules.map(({ limits }) => limits[0]?.remaining),
        [9 - attempted, 8]
      )
    }
  )
}

t.test('a handler can see by `request.raw.errored` that an upload broke off, and refund', async t => {
  const { app } = await open(t, { rules: [sends] })
  app.addContentTypeParser('text/x', (_request, _payload, done) => done(null))
  let reading: () => void = () => {}
  const begun = new Promise<void>(resolve => (reading = resolve))
  let refunded: boolean | undefined
  app.post('/x', { config: { limit: 'sends' } }, async (request, reply) => {
    try {
      reading()
      for await (const _ of request.raw);
    } catch (error) {
      if (error === request.raw.errored) await reply.limit?.refund()
      refunded = reply.limit?.refunded
      throw error
    }
    return 'sent'
  })
  const socket = connect(await listen(app), '127.0.0.1')
  await once(socket, 'connect')
  socket.write('POST /x HTTP/1.1\r\nhost: x\r\ncontent-type: text/x\r\ncontent-length: 9\r\n\r\nhalf')
  await begun
  socket.destroy()
  await until(() => refunded !== undefined, 'the end of the handler')
  t.equal(refunded, true)
  t.equal((await app.limit.peek({ sends: '127.0.0.1' })).rules[0]?.limits[0]?.remaining, 9)
})

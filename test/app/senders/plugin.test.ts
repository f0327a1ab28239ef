import fastify from 'fastify'
import fp from 'fastify-plugin'
import t, { type Test } from 'tap'
import type { Metrics } from '../../../app/plugins/metrics.js'
import senders from '../../../app/plugins/senders.js'
import { undeliveredOf } from '../../../app/senders/deliver.js'
import { SendError, type Sender } from '../../../app/senders/sender.js'
import { clock, config, mail, message } from './servers.js'

/** A sender that the test controls. */
function provider() {
  const told = {
    name: 'told',
    does: async () => {},
    closed: 0,
    async send() {
      await told.does()
      return { sender: 'inner', reference: '1' }
    },
    close: () => void told.closed++
  } satisfies Sender & Record<string, unknown>
  return told
}

async function start(t: Test, env = {}) {
  const lines: string[] = []
  const app = fastify({
    logger: { level: 'info', stream: { write: (line: string) => void lines.push(line) } }
  })
  t.teardown(() => app.close())
  const sms = provider()
  const counted: object[] = []
  const metrics = { sent: (labels: object) => void counted.push(labels) } as unknown as Metrics
  await app.register(fp(async () => void app.decorate('metrics', metrics), { name: 'metrics' }))
  await app.register(fp(async () => {}, { name: 'limits' }))
  await app.register(senders, { config: config(env), clock, print: () => {}, override: { sms } })
  await app.ready()
  return { app, sms, lines, counted }
}

t.test('deliver returns a receipt or throws a problem with the outcome; both are counted', async t => {
  const { app, sms, lines, counted } = await start(t)
  t.same(await app.deliver(message(), null, app.log), { sender: 'inner', reference: '1' })
  t.match(await app.deliver(mail(), null, app.log), { sender: 'outbox' })
  sms.does = async () => {
    throw new SendError('limited', { sender: 'inner', code: 'X', retryAfterMs: 1_000, ofMessage: true })
  }
  const problem = await app.deliver(message(), null, app.log).catch(error => error)
  const headers = { 'retry-after': '1' }
  t.match(problem, { statusCode: 429, headers })
  t.match(undeliveredOf(problem), { outcome: 'limited', sender: 'inner', code: 'X', ofMessage: true })
  t.same(counted, [
    { channel: 'sms', sender: 'inner', outcome: 'sent' },
    { channel: 'mail', sender: 'outbox', outcome: 'sent' },
    { channel: 'sms', sender: 'inner', outcome: 'limited' }
  ])
  t.match(JSON.parse(lines.at(-1) ?? ''), {
    msg: 'not sent',
    send: { channel: 'sms', sender: 'inner', outcome: 'limited', code: 'X' }
  })
  sms.does = async () => {
    throw new SendError('unknown', { sender: 'inner', code: 'TIMED_OUT' })
  }
  t.match(await app.deliver(message(), null, app.log).catch(error => error), { statusCode: 504 })
  t.match(JSON.parse(lines.at(-1) ?? ''), { msg: 'perhaps sent', send: { outcome: 'unknown' } })
  t.notMatch(lines.join(''), /13800138000|042137/)
})

t.test('closing waits for what is being sent, then closes the senders', async t => {
  const { app, sms } = await start(t)
  let finish = () => {}
  sms.does = () => new Promise(resolve => (finish = resolve))
  const order: string[] = []
  const sending = app.deliver(message(), null, app.log).then(() => order.push('sent'))
  const closing = app.close().then(() => order.push(`closed ${sms.closed}`))
  await new Promise(setImmediate)
  t.equal(sms.closed, 0)
  finish()
  await Promise.all([sending, closing])
  t.same(order, ['sent', 'closed 1'])
})

t.test('a channel without a sender is warned of at the start', async t => {
  const { lines } = await start(t, { DEV_OUTBOX: 'off' })
  t.same(
    lines.map(line => JSON.parse(line).msg),
    ['no sender for mail: what needs one is answered 503']
  )
})

import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { turns } from '../helper/turns.js'
import { BY_HAND, timeOutByHand } from './settlement/time-out.js'

/**
 * Ends Fastify's handlerTimeout while a second attempt is decided.
 * @param hold holds up the answer to the time-out
 * @returns the answer, how often the handler ran for it, and the decisions that were reported
 */
async function cutOff(t: Test, max: number, hold: (app: FastifyInstance, held: () => Promise<void>) => void) {
  const [decided, cut, left] = [gate(), gate(), gate()]
  const timeOut = timeOutByHand(t)
  let slow = false
  const key = async () => {
    if (!slow) return 'somebody'
    timeOut()
    await decided.opened
    return 'somebody'
  }
  const flood: Rule = { name: 'flood', key, counts: 'attempts', limits: [{ max, window: '60s' }] }
  const told: boolean[] = []
  const onDecision = ({ allowed }: DecisionEvent) => void told.push(allowed)
  const { app, post } = await open(t, { rules: [flood], timeout: '10s', onDecision })
  hold(app, async () => {
    if (!slow) return
    cut.open()
    await left.opened
  })
  let ran = 0
  app.post('/x', { config: { limit: 'flood' }, handlerTimeout: BY_HAND }, async () => `${++ran}`)
  t.equal((await post('/x')).statusCode, 200)
  slow = true
  const asked = post('/x')
  await cut.opened
  decided.open()
  await turns()
  left.open()
  const { statusCode, headers, body } = await asked
  return { statusCode, headers, body, ran: ran - 1, told }
}

const hooks = {
  'an onError': (app: FastifyInstance, held: () => Promise<void>) => app.addHook('onError', held),
  'an onSend': (app: FastifyInstance, held: () => Promise<void>) => app.addHook('onSend', held)
}

// An unhandled rejection would end the test as well.
for (const [name, hold] of Object.entries(hooks))
  for (const [max, decision] of [
    [1, 'refused'],
    [2, 'admitted']
  ] as const)
    t.test(
      `the handler does not run for an attempt ${decision} while ${name} hook holds up the answer to a time-out`,
      async t => {
        const { statusCode, headers, body, ran, told } = await cutOff(t, max, hold)
        t.equal(statusCode, 503)
        t.match(body, /FST_ERR_HANDLER_TIMEOUT/)
        t.equal(headers['retry-after'], undefined)
        t.equal(ran, 0, 'the handler did not run')
        t.same(told, [true, max > 1])
      }
    )

for (const counts of ['attempts', 'sends'] as const)
  t.test(`the handler does not run when a hook takes over the reply while ${counts} are decided`, async t => {
    const decided = gate()
    const key = async () => {
      await decided.opened
      return 'somebody'
    }
    const rule: Rule = { name: 'a', key, counts, limits: [{ max: 9, window: '60s' }] }
    const { app, post } = await open(t, { rules: [rule], timeout: '10s' })
    app.addHook('onRequest', async (_request, reply) => {
      setImmediate(() => {
        reply.hijack()
        reply.raw.end('mine')
        decided.open()
      })
    })
    let ran = 0
    app.post('/x', { config: { limit: 'a' } }, async () => `${++ran}`)
    t.equal((await post('/x')).body, 'mine')
    await turns()
    t.equal(ran, 0, 'the handler did not run')
  })

for (const counts of ['attempts', 'sends'] as const)
  t.test(`a rule on ${counts} that fails after a time-out does not touch the answer to it`, async t => {
    const [decided, cut, left] = [gate(), gate(), gate()]
    const timeOut = timeOutByHand(t)
    const key = async () => {
      timeOut()
      await decided.opened
      return undefined
    }
    const rule: Rule = { name: 'a', key, counts, limits: [{ max: 9, window: '60s' }] }
    const { app } = await open(t, { rules: [rule], timeout: '10s' })
    app.addHook('onSend', async () => {
      cut.open()
      await left.opened
    })
    app.get('/x', { config: { limit: 'a' }, handlerTimeout: BY_HAND }, async () => 'sent')
    const asked = app.inject('/x')
    await cut.opened
    decided.open()
    await turns()
    left.open()
    const { statusCode, body } = await asked
    t.equal(statusCode, 503)
    t.match(body, /FST_ERR_HANDLER_TIMEOUT/)
  })

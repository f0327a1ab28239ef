import { randomBytes } from 'node:crypto'
import { mock } from 'node:test'
import t from 'tap'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { isKept } from '../helper/heap.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'

/** A search of the heap takes seconds on a busy machine, and more than one is needed. */
const PATIENCE_MS = 60_000

t.test('a content that was reported or refused is nowhere in memory a second later', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const rule: Rule = { name: 'same', key: { digest: ['body.text'] }, limits: [{ max: 1, window: '60s' }] }
  const keys = new Set<string | undefined>()
  const onDecision = (event: DecisionEvent) => void keys.add(event.keys.same)
  const { app, post } = await open(t, { rules: [rule], onDecision })
  app.post('/x', { config: { limit: 'same' } }, async () => 'sent')
  const backwards = randomBytes(8).toString('hex')
  const send = async () => {
    const { statusCode } = await post('/x', { text: `a code: ${[...backwards].reverse().join('')}` })
    return statusCode
  }
  t.same([await send(), await send(), await send()], [200, 429, 429])
  t.equal(keys.size, 1)
  mock.timers.tick(1_000)
  // What Node keeps of the last request is freed within the next turns.
  await until(async () => !(await isKept(backwards)), 'a content that is forgotten', PATIENCE_MS)
})

t.test('with Redis, a content that the app itself names again and again is nowhere in memory', async t => {
  const { client } = await startRedis(t)
  const rule: Rule = { name: 'same', key: { digest: ['body.text'] }, limits: [{ max: 9, window: '60s' }] }
  const { app } = await open(t, { client, secret: 'the secret of this test', rules: [rule] })
  await app.ready()
  const backwards = randomBytes(8).toString('hex')
  const named = () => app.limit.reserve({ same: `a code: ${[...backwards].reverse().join('')}` })
  for (let i = 0; i < 4; i++) {
    await named()
    await app.limit.reserve({ same: 'another' })
  }
  await until(async () => !(await isKept(backwards)), 'a content that is not remembered', PATIENCE_MS)
})

import { randomBytes } from 'node:crypto'
import { getHeapSnapshot } from 'node:v8'
import t from 'tap'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { until } from '../helper/until.js'

/** Whether a text that ends so stands anywhere in this process; asked backwards, so as not to find the question. */
async function isKept(backwards: string): Promise<boolean> {
  let heap = ''
  for await (const chunk of getHeapSnapshot()) heap += chunk
  return heap.includes([...backwards].reverse().join(''))
}

t.test('a content that was told of, or refused, is forgotten', async t => {
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
  await until(async () => !(await isKept(backwards)), 'a content that is forgotten')
})

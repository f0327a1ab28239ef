import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Batch } from '../../../plugin/store/batch.js'

/** A batch, and what left together. */
function recorded() {
  const sent: string[] = []
  const batch = new Batch<string>(together => sent.push(together.join('')))
  const ask = (names: string) => {
    for (const name of names) batch.add(name)
  }
  return { sent, batch, ask }
}

t.test('what is alone leaves at once', async t => {
  const { sent, batch, ask } = recorded()
  for (const name of 'ab') {
    ask(name)
    batch.answered(1)
  }
  t.strictSame(sent, ['a', 'b'])
})

t.test('others wait until they are half of what is unanswered', async t => {
  const { sent, batch, ask } = recorded()
  ask('abcdefgh')
  t.strictSame(sent, ['a', 'b', 'cd', 'efgh'])
  batch.answered(4)
  ask('ijkl')
  t.strictSame(sent.slice(4), ['ijkl'])
})

t.test('and no longer than this turn of the event loop', async t => {
  const { sent, ask } = recorded()
  ask('abc')
  t.strictSame(sent, ['a', 'b'])
  await turn()
  t.strictSame(sent, ['a', 'b', 'c'])
  await turn()
  t.strictSame(sent, ['a', 'b', 'c'], 'nothing leaves twice')
})

t.test('no more than 32 leave together', async t => {
  const { sent, ask } = recorded()
  ask('x'.repeat(1_000))
  await turn()
  t.equal(Math.max(...sent.map(each => each.length)), 32)
  t.equal(sent.join('').length, 1_000)
})

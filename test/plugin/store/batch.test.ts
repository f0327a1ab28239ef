import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Batch } from '../../../plugin/store/batch.js'

/** A batch, and what it has sent, as one text for each write. */
function recorded() {
  const sent: string[] = []
  const batch = new Batch<string>(together => sent.push(together.join('')))
  const ask = (names: string) => {
    for (const name of names) batch.add(name)
  }
  return { sent, batch, ask }
}
const now = () => new Promise(resolve => process.nextTick(resolve))

t.test('while no command is unanswered, commands added at once are sent together at once', async t => {
  const { sent, batch, ask } = recorded()
  for (const names of ['a', 'bcde']) {
    ask(names)
    await Promise.resolve().then(() => ask('+'))
    await now()
    batch.answered(names.length + 1)
  }
  t.strictSame(sent, ['a+', 'bcde+'])
})

t.test('fake timers of a test do not hold up a batch', async t => {
  const { sent, ask } = recorded()
  const { nextTick } = process
  process.nextTick = () => {}
  ask('a')
  process.nextTick = nextTick
  await now()
  t.strictSame(sent, ['a'])
})

t.test('while a command is unanswered, others wait for the end of the turn', async t => {
  const { sent, ask } = recorded()
  ask('a')
  await now()
  ask('bc')
  await now()
  ask('d')
  t.strictSame(sent, ['a'])
  await turn()
  t.strictSame(sent, ['a', 'bcd'])
  await turn()
  t.strictSame(sent, ['a', 'bcd'], 'nothing is sent twice')
})

t.test(
  'waiting commands are sent once they are eight, and as many as half of the unanswered ones',
  async t => {
    const { sent, batch, ask } = recorded()
    ask('a'.repeat(7))
    t.strictSame(sent, [])
    ask('a'.repeat(33))
    t.strictSame(
      sent.map(each => each.length),
      [8, 8, 16]
    )
    await turn()
    t.equal(sent[3]?.length, 8, 'the rest')
    batch.answered(36)
    ask('b'.repeat(8))
    t.strictSame(sent.slice(4), ['b'.repeat(8)])
  }
)

t.test('no more than 32 commands are sent together', async t => {
  const { sent, ask } = recorded()
  ask('x'.repeat(1_000))
  await turn()
  t.equal(Math.max(...sent.map(each => each.length)), 32)
  t.equal(sent.join('').length, 1_000)
})

t.test('answers to commands that were given up do not count for later commands', async t => {
  const { sent, batch, ask } = recorded()
  ask('ab')
  await now()
  batch.lost()
  batch.answered(2)
  ask('c')
  await now()
  t.strictSame(sent, ['ab', 'c'])
})

t.test('a command not sent yet when the others are given up still has to be answered', async t => {
  const { sent, batch, ask } = recorded()
  ask('a')
  await now()
  ask('bc')
  batch.lost()
  await turn()
  batch.answered(1)
  ask('d')
  await now()
  t.strictSame(sent, ['a', 'bc'])
  await turn()
  t.strictSame(sent, ['a', 'bc', 'd'])
})

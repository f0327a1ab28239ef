import { Writable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Batch } from '../../../plugin/store/batch.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { entry, log, token } from '../../contract/specs.js'
import { startRedis } from '../../helper/redis.js'

/** A stream that tells what it was given at a time, and the batch before it. */
function recorded() {
  const writes: string[] = []
  const batch = new Batch()
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      writes.push(chunk)
      done()
    },
    writev(chunks, done) {
      writes.push(chunks.map(({ chunk }) => chunk).join(''))
      done()
    }
  })
  return { writes, batch, stream, send: (name: string) => batch.send(stream, () => stream.write(name)) }
}

t.test('what is alone is written at once', async t => {
  const { writes, batch, send } = recorded()
  for (const name of ['a', 'b']) {
    send(name)
    batch.answered()
  }
  t.strictSame(writes, ['a', 'b'])
})

t.test('a command waits until half of what is unanswered is gathered', async t => {
  const { writes, batch, send } = recorded()
  for (const name of 'abcdefgh') send(name)
  t.strictSame(writes, ['a', 'b', 'cd', 'efgh'])
  for (let i = 0; i < 4; i++) batch.answered()
  for (const name of 'ijkl') send(name)
  t.strictSame(writes.slice(4), ['ijkl'])
})

t.test('and no longer than this turn of the event loop', async t => {
  const { writes, send } = recorded()
  for (const name of 'abc') send(name)
  t.strictSame(writes, ['a', 'b'])
  await turn()
  t.strictSame(writes, ['a', 'b', 'c'])
})

t.test('a call that throws holds up nothing', async t => {
  const { writes, batch, stream, send } = recorded()
  const fail = () => {
    throw new Error('not sent')
  }
  t.throws(() => batch.send(stream, fail))
  send('a')
  t.throws(() => batch.send(stream, fail))
  await turn()
  stream.write('b')
  t.strictSame(writes, ['a', 'b'])
  batch.answered()
  send('c')
  t.strictSame(writes, ['a', 'b', 'c'], 'and is not waited for')
})

t.test('what was gathered for a connection that is gone does not hold up the next one', async t => {
  const before = recorded()
  for (const name of 'abc') before.send(name)
  const writes: string[] = []
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      writes.push(chunk)
      done()
    }
  })
  before.batch.send(stream, () => stream.write('d'))
  t.strictSame(before.writes, ['a', 'b', 'c'])
  await turn()
  t.strictSame(writes, ['d'])
})

t.test('a hundred decisions at once take few writes, and all are answered', async t => {
  const { client } = await startRedis(t)
  const store = new RedisStore(client, 'test:')
  const decide = (name: string) => store.reserve([entry(log([1, 60_000]), name)], token())
  await decide('first')
  let writes = 0
  const handle = client.stream as unknown as Record<'_write' | '_writev', (...args: unknown[]) => void>
  for (const name of ['_write', '_writev'] as const) {
    const original = handle[name]
    handle[name] = function (...args) {
      writes++
      original.apply(this, args)
    }
  }
  const all = await Promise.all(Array.from({ length: 100 }, (_, i) => decide(`${i}`)))
  t.ok(all.every(facts => facts[1] === 1))
  t.ok(writes > 0 && writes < 15, `${writes} writes`)
})

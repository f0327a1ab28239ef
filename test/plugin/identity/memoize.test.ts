import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { memoize } from '../../../plugin/identity/memoize.js'
import { isKept } from '../../helper/heap.js'

t.test('the answer to a text that is asked for again is computed once, and is always right', async t => {
  let asked = 0
  const double = memoize(text => {
    asked++
    return text + text
  })
  t.equal(double('a'), 'aa')
  t.equal(double('a'), 'aa')
  t.equal(asked, 1)
  for (let i = 0; i < 4; i++) t.same([double('b'), double('c')], ['bb', 'cc'])
  t.equal(asked, 5, 'a text that came twice is kept')
  fc.assert(
    fc.property(fc.array(fc.string()), texts => texts.every(text => double(text) === text + text)),
    { numRuns: 2_000 }
  )
})

t.test('two thousand texts are kept, and of further ones one in sixteen replaces the oldest', async t => {
  let asked = 0
  const same = memoize(text => {
    asked++
    return text
  })
  const numbers = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => `+86138${from + i}`)
  const ask = (texts: string[]) => {
    const before = asked
    t.ok(texts.every(text => same(text) === text))
    return asked - before
  }
  // Not in a row, since then it would be the last answer.
  const twice = (texts: string[]) =>
    texts.flatMap((text, i) => {
      const pair = [text, texts[i + 1] as string]
      return i % 2 === 0 ? [...pair, ...pair] : []
    })
  const first = numbers(10_000_000, 2_000)
  const other = numbers(20_000_000, 160)
  t.equal(ask(twice(first)), 4_000)
  t.equal(ask(first), 0, 'all two thousand are kept')
  t.equal(ask(twice(other)), 320)
  t.equal(ask(first.slice(10)), 0, 'ten were replaced')
  t.equal(ask(other.toReversed()), 150, 'ten of the others are kept')
})

t.test('consecutive numbers are all kept', async t => {
  let asked = 0
  const same = memoize(text => {
    asked++
    return text
  })
  const numbers = Array.from({ length: 100 }, (_, i) => `1380000${String(i).padStart(4, '0')}`)
  for (const text of [...numbers, ...numbers, ...numbers, ...numbers]) t.equal(same(text), text)
  t.equal(asked, 200)
})

t.test('a text without an answer, or one that is too long to keep, is computed again', async t => {
  let asked = 0
  const none = memoize(() => {
    asked++
    return undefined
  })
  t.equal(none('x'), undefined)
  t.equal(none('x'), undefined)
  t.equal(asked, 2)
  const long = memoize(text => {
    asked++
    return text.length
  })
  long('y'.repeat(256))
  long('y'.repeat(256))
  t.equal(asked, 3)
  long('y'.repeat(257))
  long('y'.repeat(257))
  t.equal(asked, 5)
})

t.test('texts without an answer take the place of none that has one', async t => {
  let asked = 0
  const known = memoize(text => {
    asked++
    return text.startsWith('+') ? text : undefined
  })
  const texts = Array.from({ length: 2_000 }, (_, i) => `+86138${10_000_000 + i}`)
  for (let i = 0; i < 2_000; i += 2) {
    const pair = texts.slice(i, i + 2)
    for (const text of [...pair, ...pair]) known(text)
  }
  t.equal(asked, 4_000)
  for (let i = 0; i < 400; i++) known(`${i >> 1}`)
  t.equal(asked, 4_400)
  for (const text of texts) known(text)
  t.equal(asked, 4_400, 'all two thousand are still kept')
})

t.test(
  'of the longer text that a kept one was cut from, nothing is kept once another text has come',
  async t => {
    const password = randomBytes(8).toString('hex')
    const same = memoize(text => text)
    const ask = (i: number) => {
      const form = `phone=00861380013800${i}&password=${[...password].reverse().join('')}`
      same(form.slice(6, 21))
    }
    for (const i of [1, 2, 1, 2]) ask(i)
    same('another')
    t.notOk(await isKept(password))
  }
)

t.test('an error is not kept as an answer', async t => {
  let fails = true
  const sometimes = memoize(text => {
    if (fails) throw new Error('not now')
    return text
  })
  t.throws(() => sometimes('a'), /not now/)
  fails = false
  t.equal(sometimes('a'), 'a')
})

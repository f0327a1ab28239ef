import fc from 'fast-check'
import t from 'tap'
import { remembering } from '../../../plugin/identity/remembering.js'

t.test('an answer is reckoned once, and is always the right one', async t => {
  let asked = 0
  const double = remembering(text => {
    asked++
    return text + text
  })
  t.equal(double('a'), 'aa')
  t.equal(double('a'), 'aa')
  t.equal(asked, 1)
  fc.assert(
    fc.property(fc.array(fc.string()), texts => texts.every(text => double(text) === text + text)),
    { numRuns: 2_000 }
  )
})

t.test('of texts that fall on one place, two are kept', async t => {
  const asked: string[] = []
  const same = remembering(text => {
    asked.push(text)
    return text
  })
  // 31 * 'b' + 'A' is 31 * 'a' + '`', and so is 31 * 'c' + '"'.
  for (const text of ['bA', 'a`', 'bA', 'a`', 'c"', 'c"', 'bA']) t.equal(same(text), text)
  t.strictSame(asked, ['bA', 'a`', 'c"', 'bA'])
})

t.test('numbers in a row are all kept', async t => {
  let asked = 0
  const same = remembering(text => {
    asked++
    return text
  })
  const numbers = Array.from({ length: 100 }, (_, i) => `1380000${String(i).padStart(4, '0')}`)
  for (const text of [...numbers, ...numbers, ...numbers]) t.equal(same(text), text)
  t.equal(asked, 100)
})

t.test('what has no answer is asked again, and so is what is too long to keep', async t => {
  let asked = 0
  const none = remembering(() => {
    asked++
    return undefined
  })
  t.equal(none('x'), undefined)
  t.equal(none('x'), undefined)
  t.equal(asked, 2)
  const long = remembering(text => {
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

t.test('an error is nobody’s answer', async t => {
  let fails = true
  const sometimes = remembering(text => {
    if (fails) throw new Error('not now')
    return text
  })
  t.throws(() => sometimes('a'), /not now/)
  fails = false
  t.equal(sometimes('a'), 'a')
})

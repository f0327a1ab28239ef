import t from 'tap'
import { KeyIndex } from '../../../plugin/store/key-index.js'
import { Records } from '../../../plugin/store/records.js'

const KEYS = 120_000
const SERIES = 3
const textOf = (key: number) => `+86138${String(key).padStart(8, '0')}`

/** Numbers that look random, the same in each run (xorshift). */
function random(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

// As many keys as buckets, so that in most buckets several come and go.
t.test('the index finds every key that was added and not removed, wherever it is in its bucket', async t => {
  const index = new KeyIndex(new Records(), KEYS)
  const records = new Map<number, number>()
  const next = random(20_261_124)
  const [text, series] = [(key: number) => textOf(Math.floor(key / SERIES)), (key: number) => key % SERIES]
  const find = (key: number) => index.find(text(key), series(key))
  const asked = (key: number) => ({ identity: text(key), spec: { series: series(key) } })
  let wrong = 0
  for (let step = 0; step < 600_000; step++) {
    const key = next(KEYS)
    // Looks for it together with other keys, some of the same series, and with itself again.
    if (next(3) === 0)
      index.findAll([asked(next(KEYS)), asked(key), asked(next(KEYS)), asked(key - (key % SERIES))])
    const record = find(key)
    if (record !== (records.get(key) ?? 0)) wrong++
    // Nearly full, then nearly empty, and so on.
    const adds = next(8) < (step % 200_000 < 100_000 ? 6 : 2)
    if (adds && record === 0) records.set(key, index.add(text(key), series(key)))
    if (!adds && record !== 0) {
      index.remove(record)
      records.delete(key)
    }
  }
  for (let key = 0; key < KEYS; key += SERIES) {
    const all = Array.from({ length: SERIES }, (_, i) => key + i)
    index.findAll(all.map(asked))
    for (const each of all) if (find(each) !== (records.get(each) ?? 0)) wrong++
  }
  for (let key = 0; key < KEYS; key++) if (find(key) !== (records.get(key) ?? 0)) wrong++
  t.equal(wrong, 0)
  t.ok(records.size > 1_000)
  t.equal(new Set(records.values()).size, records.size, 'no two keys have the same record')
})

t.test('a key is found after a look for it together with an invalid key has thrown', async t => {
  const index = new KeyIndex(new Records(), KEYS)
  const asked = (identity: string) => ({ identity, spec: { series: 1 } })
  const record = index.add('there', 1)
  t.throws(() => index.findAll([asked('gone'), { identity: null as unknown as string, spec: { series: 2 } }]))
  t.equal(index.find('gone', 1), 0)
  t.throws(() =>
    index.findAll([asked('there'), { identity: null as unknown as string, spec: { series: 2 } }])
  )
  t.equal(index.find('there', 1), record)
})

t.test(
  'the index holds the highest record numbers, and tells identities apart by 64 bits at any size',
  async t => {
    const [first, last] = [2 ** 24 - 3, 2 ** 24 - 1]
    class Late extends Records {
      override take(): number {
        return first - 1 + super.take()
      }
      override wordsOf(record: number): Int32Array {
        return super.wordsOf(record - first + 1)
      }
    }
    const index = new KeyIndex(new Late(), 1)
    t.equal(index.bytes, 2 ** 16 * Int32Array.BYTES_PER_ELEMENT)
    for (let record = first; record <= last; record++) t.equal(index.add(textOf(record), 0xffff), record)
    for (const record of [last, first, last - 1]) {
      index.forget()
      t.equal(index.find(textOf(record), 0xffff), record)
      t.equal(index.series(record), 0xffff)
      index.remove(record)
      t.equal(index.find(textOf(record), 0xffff), 0)
    }
  }
)

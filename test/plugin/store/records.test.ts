import t from 'tap'
import { placeOf, Records } from '../../../plugin/store/records.js'

t.test(
  'records are numbered from 1 on, and keep their words and lengths when others are released',
  async t => {
    const records = new Records()
    const COUNT = 20_000
    for (let i = 1; i <= COUNT; i++) {
      const record = records.take()
      if (record !== i) throw new Error(`${record} should be ${i}`)
      for (let place = 0; place < 6; place++)
        records.wordsOf(record)[placeOf(record) + place] = record * 7 + place
      records.setLength(record, record % 2_049)
    }
    const { bytes } = records
    t.ok(bytes >= COUNT * 26 && bytes < COUNT * 26 * 1.5, `${bytes} bytes`)
    for (const record of [1, 8_191, 8_192, 16_384, COUNT]) {
      t.equal(records.next(1, 5, 0, record * 7 + 5), record)
      t.equal(records.next(record, 5, 0, record * 7 + 5), record)
      t.equal(records.next(record + 1, 5, 0, record * 7 + 5), 0)
    }
    t.equal(records.next(100, 0, 3, 100), 115, '115 * 7 is 805')
    for (let i = 1; i <= COUNT; i += 3) records.release(i)
    for (let i = 1; i <= COUNT; i++) {
      if (i % 3 === 1) continue
      for (let place = 0; place < 6; place++)
        if (records.wordsOf(i)[placeOf(i) + place] !== i * 7 + place) throw new Error(`word ${place} of ${i}`)
      if (records.length(i) !== i % 2_049) throw new Error(`length of ${i}`)
    }
    const again = new Set<number>()
    for (let i = 1; i <= COUNT; i += 3) again.add(records.take())
    t.equal(again.size, Math.ceil(COUNT / 3))
    for (const record of again) if (record % 3 !== 1) throw new Error(`${record} was not released`)
    t.equal(records.bytes, bytes, 'released numbers are taken again without further memory')
    t.equal(records.take(), COUNT + 1)
    t.equal(records.length(0), 0)
  }
)

import t from 'tap'
import { Queues } from '../../../plugin/store/queues.js'
import { Records } from '../../../plugin/store/records.js'

function recordsOf(count: number): Records {
  const records = new Records()
  for (let i = 0; i < count; i++) records.take()
  return records
}

/** Records 1 and 2 in the queue of series 0, and record 3 in that of series 1. Each expires at its own number. */
function filled(): Queues {
  const queues = new Queues(recordsOf(4), { evictable: () => true, first: record => record })
  queues.append(1, 0)
  queues.append(2, 0)
  queues.append(3, 1)
  return queues
}

t.test('expired records are given queue by queue, without the one to keep', async t => {
  const queues = filled()
  t.equal(queues.expired(10, 3), 1)
  t.equal(queues.expired(10, 1), 2, 'the record after the one to keep')
  for (const record of [1, 2]) queues.unlink(record, 0)
  t.equal(queues.expired(10, 0, 1), 0, 'one look')
  t.equal(queues.expired(10, 0, 1), 3)
  queues.append(1, 0)
  t.equal(queues.evictable(1), 3, 'from the other queue, which is as long')
})

t.test('a queue that becomes mixed several times has one turn', async t => {
  const queues = new Queues(recordsOf(6), { evictable: () => false, first: record => (7 - record) * 100_000 })
  // In each series a record is queued before one that expires sooner, in series 0 twice.
  for (const [record, series] of [
    [1, 0],
    [2, 1],
    [3, 0],
    [4, 1],
    [5, 0]
  ] as const) {
    queues.append(record, series)
    queues.touch(record, series, (7 - record) * 100_000)
  }
  queues.lower(0)
  queues.mix()
  const turns = Array.from({ length: 6 }, () => queues.nextOfMixed(1e6))
  t.same(turns, [1, 2, 1, 2, 1, 2])
})

t.test('a queue of evictable records does not become mixed when there is no room', async t => {
  const queues = new Queues(recordsOf(2), { evictable: series => series === 0, first: record => record })
  queues.append(1, 0)
  queues.lower(0)
  queues.mix()
  t.equal(queues.nextOfMixed(10), undefined)
  queues.append(2, 1)
  queues.lower(1)
  queues.mix()
  t.equal(queues.nextOfMixed(1), 0, 'any other queue does')
  t.equal(queues.nextOfMixed(2), 2, 'its record has expired by now')
})

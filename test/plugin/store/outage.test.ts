import { mock } from 'node:test'
import t from 'tap'
import { Outage } from '../../../plugin/store/outage.js'

const gone = new Error('gone')

function open() {
  const events: string[] = []
  const note = (event: string) => () => void events.push(event)
  const hears = { onLost: note('lost'), onBack: note('back'), onFailure: note('failure') }
  return { outage: new Outage(60_000, hears), events }
}

t.test(
  'a store that only reads may be asked at once after it has read, and not again after a failed write',
  async t => {
    const { outage, events } = open()
    outage.failed(gone, true)
    t.notOk(outage.takeTurn(), 'before the time-out')
    outage.answered(null)
    t.notOk(outage.takeTurn(), 'a call that only reads says nothing new')
    outage.answered(false)
    t.ok(outage.lost)
    t.ok(outage.takeTurn())
    t.notOk(outage.takeTurn(), 'only one caller may ask')
    outage.answered(false)
    outage.failed(gone, true)
    t.notOk(outage.takeTurn())
    outage.answered(true)
    t.notOk(outage.lost)
    t.strictSame(events, ['lost', 'failure', 'failure', 'back'])
  }
)

t.test(
  'after the time-out one caller may read a silent store, and every caller a store that takes no writes',
  async t => {
    let now = 1_000
    const clock = mock.method(performance, 'now', () => now)
    t.teardown(() => clock.mock.restore())
    for (const onlyReads of [false, true]) {
      const { outage } = open()
      outage.failed(gone, onlyReads)
      now += 59_999
      t.notOk(outage.mayRead(), 'before the time-out')
      now++
      t.strictSame(
        [outage.mayRead(), outage.mayRead(), outage.takeTurn()],
        onlyReads ? [true, true, true] : [true, false, false]
      )
    }
  }
)

t.test('a store that last did not answer at all is back when it reads', async t => {
  const { outage } = open()
  outage.failed(gone, true)
  outage.failed(gone)
  outage.answered(false)
  t.notOk(outage.lost)
})

t.test('answers may come in another order than the calls were made', async t => {
  const { outage } = open()
  for (const asked of [5, 3]) outage.answered(true, asked)
  t.ok(outage.hasAnsweredSince(4))
  t.notOk(outage.hasAnsweredSince(5))
})

t.test('a store is lost from its first failure on until it is back', async t => {
  const { outage } = open()
  outage.failed(gone)
  t.ok(outage.isLostSince(0))
  const asked = performance.now()
  outage.failed(gone)
  t.notOk(outage.isLostSince(asked), 'it was lost before')
  outage.answered(true)
  t.notOk(outage.isLostSince(0))
})

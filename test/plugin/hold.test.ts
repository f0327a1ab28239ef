import t from 'tap'
import { attempt, Hold } from '../../plugin/hold.js'
import { entry, lock, observed, token } from '../contract/specs.js'
import { until } from './settlement/places.js'

t.test('a lock that is released while it is renewed leaves no timer', async t => {
  let answer: ((held: boolean) => void) | undefined
  const store = {
    name: 'redis',
    refund: async () => {},
    renew: () => new Promise<boolean>(resolve => (answer = resolve))
  }
  const taken = { entry: entry(lock(3_000)), receipt: 1, ends: 0 }
  const report = (error: unknown) => t.fail(`${error}`)
  const hold = new Hold([{ taken, maxHold: 60_000 }], {
    store,
    token: token(),
    since: performance.now(),
    report
  })
  await until(() => answer !== undefined, 'a renewal')
  await hold.release()
  const timers = t.capture(globalThis, 'setTimeout', globalThis.setTimeout)
  answer?.(true)
  await new Promise(setImmediate)
  t.strictSame(timers(), [])
  t.notOk(hold.signal.aborted)
})

t.test('a lock that is only observed aborts nothing when it is lost', async t => {
  const store = { name: 'redis', refund: async () => {}, renew: async () => false }
  const report = (error: unknown) => t.fail(`${error}`)
  const hold = (spec: ReturnType<typeof lock>) =>
    new Hold([{ taken: { entry: entry(spec), receipt: 1, ends: 0 }, maxHold: 60_000 }], {
      store,
      token: token(),
      since: performance.now(),
      report
    })
  const watched = hold(observed(lock(300)))
  const held = hold(lock(300))
  // Renewed one after the other, and lost so.
  await until(() => held.signal.aborted, 'a lost lock')
  t.notOk(watched.signal.aborted)
})

t.test('a settlement that fails is told to the log, at once or later, and to nobody else', async t => {
  const told: unknown[] = []
  const report = (error: unknown) => void told.push(error)
  const failing = [
    () => {
      throw 'at once'
    },
    () => Promise.reject('later')
  ]
  for (const what of failing) t.equal(await attempt(report, what), undefined)
  t.strictSame(told, ['at once', 'later'])
})

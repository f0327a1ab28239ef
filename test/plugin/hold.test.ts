import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { instantNow } from '../../plugin/clock.js'
import { Hold, reporting } from '../../plugin/hold.js'
import { entry, lock, observed, token } from '../contract/specs.js'
import { activeTimers } from '../helper/active-timers.js'
import { until } from '../helper/until.js'

t.test('a lock that is released while it is renewed leaves no timer', async t => {
  let answer: ((held: boolean) => void) | undefined
  const store = {
    name: 'redis',
    refund: async () => {},
    renew: () => new Promise<boolean>(resolve => (answer = resolve))
  }
  const report = (error: unknown) => t.fail(`${error}`)
  const hold = new Hold([taken(lock(3_000))], {
    store,
    token: token(),
    since: instantNow(),
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

function taken(spec: ReturnType<typeof lock>, maxHold = 60_000) {
  return { entry: { ...entry(spec), rule: { maxHold } }, receipt: 1, ends: 0 }
}

/** Stops the monotonic clock, so that a slow test does not age a lock. @returns its time, whole for exact sums */
function stopped(t: Test): number {
  const now = Math.floor(performance.now())
  const stands = mock.method(performance, 'now', () => now)
  t.teardown(() => stands.mock.restore())
  return now
}

/** A lock that was asked for at `since`, and whose renewals are answered by `renew`. */
function holding(
  spec: ReturnType<typeof lock>,
  renew: () => Promise<boolean>,
  since = performance.now(),
  report: (error: unknown) => void = error => t.fail(`${error}`),
  maxHold?: number
) {
  const store = { name: 'redis', refund: async () => {}, renew }
  const asked = { ...instantNow(), monotonic: since }
  return new Hold([taken(spec, maxHold)], { store, token: token(), since: asked, report })
}

t.test('a lock is renewed for as long as maxHold, however long the process has been up', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  let renewals = 0
  const renew = async () => ++renewals > 0
  const now = stopped(t)
  const young = holding(lock(3_000), renew, now, undefined, now / 2)
  mock.timers.tick(1_000)
  t.equal(renewals, 1)
  await young.release()
  const old = holding(lock(3_000), renew, now - 2_000, undefined, 1_000)
  mock.timers.tick(1_000)
  t.equal(renewals, 1)
  await old.release()
})

t.test('a renewed lock lasts its time from when the renewal was asked for', async t => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  let answer = (_held: boolean) => {}
  const { signal } = holding(lock(3_000), () => new Promise(resolve => (answer = resolve)))
  mock.timers.tick(1_000)
  const late = performance.now() + 200
  while (performance.now() < late);
  answer(true)
  await new Promise(setImmediate)
  mock.timers.tick(2_850)
  t.ok(signal.aborted)
})

t.test('a machine that was suspended for longer than the lock has lost it', async t => {
  stopped(t)
  const wall = Date.now()
  let away = 0
  const resumed = mock.method(Date, 'now', () => wall + away)
  t.teardown(() => resumed.mock.restore())
  const hold = holding(lock(3_000), () => new Promise(() => {}))
  t.teardown(() => hold.release())
  for (const [ms, aborted] of [
    [2_900, false],
    [3_000, true]
  ] as const) {
    away = ms
    t.equal(hold.signal.aborted, aborted, `after ${ms} ms`)
  }
})

t.test(
  'a renewal answered after the machine was suspended for longer than the lock does not keep it',
  async t => {
    mock.timers.enable({ apis: ['setInterval'] })
    t.teardown(() => mock.timers.reset())
    const { now } = Date
    let away = 0
    const clock = mock.method(Date, 'now', () => now() + away)
    t.teardown(() => clock.mock.restore())
    const hold = holding(lock(3_000), async () => {
      away = 4_000
      return true
    })
    mock.timers.tick(1_000)
    await new Promise(setImmediate)
    t.ok(hold.signal.aborted)
  }
)

t.test('an observed lock that is lost aborts no signal', async t => {
  const watched = holding(observed(lock(300)), async () => false)
  const held = holding(lock(300), async () => false)
  // Both are renewed and lost, one after the other.
  await until(() => held.signal.aborted, 'a lost lock')
  t.notOk(watched.signal.aborted)
})

t.test('a released lock is not renewed any more', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  let renewals = 0
  const hold = holding(lock(3_000), async () => ++renewals > 0)
  mock.timers.tick(1_000)
  t.equal(renewals, 1)
  await hold.release()
  mock.timers.tick(10_000)
  t.equal(renewals, 1)
})

t.test('a lost lock is not renewed any more', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  let renewals = 0
  const hold = holding(lock(3_000), async () => ++renewals === 0)
  mock.timers.tick(1_000)
  await until(() => hold.signal.aborted, 'a lost lock')
  mock.timers.tick(10_000)
  t.equal(renewals, 1)
})

t.test('a lock that is held does not keep the process up', async t => {
  const before = activeTimers()
  const hold = holding(lock(3_000), async () => true)
  t.equal(activeTimers(), before)
  await hold.release()
})

t.test('a renewal that fails is reported, and tried again', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const told: unknown[] = []
  const hold = holding(
    lock(3_000),
    () => Promise.reject('no answer'),
    performance.now(),
    error => told.push(error)
  )
  mock.timers.tick(2_000)
  await new Promise(setImmediate)
  t.strictSame(told, ['no answer', 'no answer'])
  t.notOk(hold.signal.aborted, 'the lock still lasts its time')
  await hold.release()
})

t.test('a lock lasts its time from when it was asked for, however late the answer came', t => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const now = stopped(t)
  const { signal } = holding(lock(3_000), async () => true, now - 2_900)
  t.notOk(signal.aborted)
  mock.timers.tick(100)
  t.ok(signal.aborted)
  t.end()
})

t.test('the signal of a lock whose time is over is aborted even before its timer fires', async t => {
  const hold = holding(lock(3_000), async () => true, performance.now() - 10_000)
  t.ok(hold.signal.aborted)
  const released = holding(lock(3_000), async () => true, performance.now() - 10_000)
  await released.release()
  t.notOk(released.signal.aborted)
})

t.test('a settlement that throws or rejects is reported, and does not reject', async t => {
  const told: unknown[] = []
  const report = (error: unknown) => void told.push(error)
  const failing = [
    () => {
      throw 'at once'
    },
    () => Promise.reject('later')
  ]
  for (const what of failing) t.equal(await reporting(report, what), undefined)
  t.strictSame(told, ['at once', 'later'])
})

t.test('each call of release resolves once the locks are free', async t => {
  let free: (() => void) | undefined
  const store = {
    name: 'redis',
    refund: () => new Promise<void>(resolve => (free = resolve)),
    renew: async () => true
  }
  const report = (error: unknown) => t.fail(`${error}`)
  const hold = new Hold([taken(lock(3_000))], {
    store,
    token: token(),
    since: { monotonic: 0, wall: 0 },
    report
  })
  const released: number[] = []
  for (const n of [1, 2]) void hold.release().then(() => released.push(n))
  await new Promise(setImmediate)
  t.strictSame(released, [])
  free?.()
  await new Promise(setImmediate)
  t.strictSame(released, [1, 2])
})

import { mock } from 'node:test'
import t from 'tap'
import { deliver } from '../../../app/senders/deliver.js'
import { none } from '../../../app/senders/none.js'
import { SendError, type Sender } from '../../../app/senders/sender.js'
import type { Decision } from '../../../plugin/index.js'
import { message } from './servers.js'

/** What deliver needs of a reservation. */
function reservation() {
  const lock = new AbortController()
  const held = { kept: 0, lose: () => lock.abort() }
  const decision = { signal: lock.signal, keep: () => void held.kept++ } as unknown as Decision
  return { held, decision }
}
const sender = (send: Sender['send']): Sender => ({ name: 'a', send })
const failing = (error: Error) => sender(() => Promise.reject(error))
const thrown = (delivery: Promise<unknown>): Promise<unknown> => delivery.catch(error => error)

t.test('deliver returns the sender and the reference of a message that was sent', async t => {
  const { held, decision } = reservation()
  const told = await deliver(
    sender(async () => ({ sender: 'b', reference: '1' })),
    message(),
    decision,
    1_000
  )
  t.same(told, { sender: 'b', reference: '1' })
  t.equal(held.kept, 0)
})

t.test('a reference that could name the recipient, or is malformed, is not kept', async t => {
  const to = '+8613800138000'
  const told = async (reference: unknown) => {
    const receipt = { sender: 'b', reference: reference as string }
    return deliver(
      sender(async () => receipt),
      message({ to }),
      null,
      10_000
    )
  }
  for (const reference of ['900619746936498440^0', '<a@example.com>', 'x'.repeat(128)])
    t.same(await told(reference), { sender: 'b', reference })
  for (const reference of [to, 'for 13800138000', '0138000', 'x'.repeat(129), 'é', 'a\nb', '', 17, null])
    t.same(await told(reference), { sender: 'b' }, String(reference))
})

const cases: [error: Error, kept: number, problem: object][] = [
  [
    new SendError('limited', { sender: 'b', code: 'X', retryAfterMs: 16_001 }),
    0,
    {
      undelivered: { outcome: 'limited', sender: 'b', code: 'X' },
      problem: { status: 429, code: 'SEND_LIMITED', retryAfterMs: 16_001 },
      headers: { 'retry-after': '17' }
    }
  ],
  [new SendError('limited'), 0, { undelivered: { sender: 'a' }, statusCode: 429, headers: undefined }],
  [
    new SendError('refused'),
    0,
    { undelivered: { outcome: 'refused' }, problem: { status: 422, code: 'RECIPIENT_REFUSED' } }
  ],
  [
    new SendError('failed', { code: 'X' }),
    0,
    { undelivered: { outcome: 'failed', code: 'X' }, problem: { status: 502, code: 'SEND_FAILED' } }
  ],
  [
    new SendError('failed', { code: 'BREAKER_OPEN', retryAfterMs: 5_000 }),
    0,
    { problem: { status: 503, code: 'SEND_UNAVAILABLE' }, headers: { 'retry-after': '5' } }
  ],
  [
    new SendError('unknown'),
    1,
    { undelivered: { outcome: 'unknown' }, problem: { status: 504, code: 'SEND_UNKNOWN' } }
  ],
  [new TypeError('x'), 0, { undelivered: { outcome: 'failed', code: 'TypeError' }, statusCode: 502 }]
]
for (const [error, kept, problem] of cases) {
  t.test(`deliver turns "${error.message}" into its problem`, async t => {
    const { held, decision } = reservation()
    t.match(await thrown(deliver(failing(error), message(), decision, 1_000)), problem)
    t.equal(held.kept, kept)
  })
}

t.test('an error code that could be a number or an address is not kept', async t => {
  for (const code of ['123456', 'isv.DAY_LIMIT', 'HTTP_500', 'x'.repeat(64)])
    t.equal(new SendError('failed', { code }).code, code)
  for (const code of [
    '1234567',
    '+8613800138000',
    'jane@example.com',
    'x'.repeat(65),
    'E 1234567',
    'isv.8613800138000',
    'tel:-1234567',
    ''
  ]) {
    const error = new SendError('failed', { code })
    t.match(error, { code: 'UNREADABLE', message: 'sender: failed (UNREADABLE)' }, code)
  }
})

t.test('without a sender a send is 503', async t => {
  t.match(await thrown(deliver(none, message(), null, 1_000)), {
    undelivered: { outcome: 'failed' },
    problem: { status: 503, code: 'NO_SENDER', detail: 'No sender for sms is configured.' }
  })
})

t.test('nothing is sent under a lock that was lost before', async t => {
  const { held, decision } = reservation()
  held.lose()
  t.match(await thrown(deliver(failing(new Error('sent')), message(), decision, 1_000)), {
    undelivered: { outcome: 'failed', sender: 'none', code: 'LOCK_LOST' },
    problem: { status: 503, code: 'LOCK_LOST' }
  })
  t.equal(held.kept, 0)
})

t.test('deliver does not wait after the time-out or the loss of the lock', async t => {
  const hanging = sender(() => new Promise(() => {}))
  for (const code of ['TIMED_OUT', 'LOCK_LOST']) {
    const { held, decision } = reservation()
    const delivery = deliver(hanging, message(), decision, code === 'TIMED_OUT' ? 1 : 60_000)
    if (code === 'LOCK_LOST') held.lose()
    t.match(await thrown(delivery), {
      undelivered: { outcome: 'unknown', sender: 'a', code },
      statusCode: 504
    })
    t.equal(held.kept, 1)
  }
})

t.test('a sender that has sent is not aborted by the time-out or the later loss of the lock', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { held, decision } = reservation()
  const signals: AbortSignal[] = []
  const taking = sender(async (_message, signal) => {
    signals.push(signal)
    return { sender: 'a' }
  })
  await deliver(taking, message(), decision, 1_000)
  mock.timers.tick(1_000)
  held.lose()
  t.match(signals, [{ aborted: false }])
})

t.test('a sender that knows at its abort that nothing has left is believed', async t => {
  const { held, decision } = reservation()
  const knowing = sender(
    (_message, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => setImmediate(reject, new SendError('failed', { sender: 'b' })))
      })
  )
  const delivery = deliver(knowing, message(), decision, 60_000)
  held.lose()
  t.match(await thrown(delivery), { undelivered: { outcome: 'failed', sender: 'b' } })
  t.equal(held.kept, 0)
})

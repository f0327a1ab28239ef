import { mock } from 'node:test'
import t from 'tap'
import { guarded, OPEN_MS } from '../../../app/senders/breaker.js'
import { chain } from '../../../app/senders/chain.js'
import { readChoice, turns } from '../../../app/senders/choice.js'
import { deliver } from '../../../app/senders/deliver.js'
import { none } from '../../../app/senders/none.js'
import { openSenders } from '../../../app/senders/open.js'
import { SendError, type Sender } from '../../../app/senders/sender.js'
import { webhook } from '../../../app/senders/webhook.js'
import { startMail } from '../smtp.js'
import {
  aliyun,
  clock,
  config,
  credentials,
  type Doing,
  mail,
  message,
  never,
  type Provider,
  sent,
  startProvider,
  startSilence
} from './servers.js'

type Test = Parameters<typeof startProvider>[0]
const WEBHOOK_SECRET = `whsec_${'A'.repeat(32)}`
const ok: Doing = { body: '' }
const refused: Doing = { status: 422, body: '' }
const failed: Doing = { status: 400, body: '' }
const unknown: Doing = { status: 500, body: '' }
/** Endpoints where nothing listens. */
const nowhere = { ALIYUN_ENDPOINT: 'http://127.0.0.1:1', TWILIO_ENDPOINT: 'http://127.0.0.1:1' }
const limited = (seconds: number): Doing => ({
  status: 429,
  body: '',
  headers: { 'retry-after': String(seconds) }
})

/** A sender of this name behind a circuit breaker, and the server of its provider. */
async function start(t: Test, name: string, does: Doing, time = clock) {
  const provider = await startProvider(t, does)
  const opened = await webhook.open(config({ WEBHOOK_SECRET, WEBHOOK_URL: provider.url }), clock)
  const named: Sender = { name, send: async (...args) => ({ ...(await opened.send(...args)), sender: name }) }
  const sender = guarded(named, time)
  t.teardown(() => sender.close?.())
  return { provider, sender }
}
const asked = (providers: Provider[]) => providers.map(each => each.asked.length)

t.test('the next sender is tried only when the one before has surely not sent', async t => {
  const cases: [first: Doing, outcome: object, asked: number[]][] = [
    [ok, { outcome: 'sent', sender: 'a' }, [1, 0]],
    [failed, { outcome: 'sent', sender: 'b' }, [1, 1]],
    [limited(9), { outcome: 'sent', sender: 'b' }, [1, 1]],
    [unknown, { outcome: 'unknown' }, [1, 0]],
    ['break', { outcome: 'unknown' }, [1, 0]],
    [refused, { outcome: 'refused' }, [1, 0]]
  ]
  for (const [does, outcome, calls] of cases) {
    const a = await start(t, 'a', does)
    const b = await start(t, 'b', ok)
    const both = chain([[{ ...a, weight: 1 }], [{ ...b, weight: 1 }]])
    t.match(await sent(t, both), outcome, JSON.stringify(does))
    t.same(asked([a.provider, b.provider]), calls)
  }
})

t.test('two providers with which no connection comes about leave time for a third', async t => {
  const url = `https://${await startSilence(t)}`
  const sendMs = 6_000
  const silent = await webhook.open(
    config({ WEBHOOK_SECRET, WEBHOOK_URL: url, SEND_TIMEOUT: String(sendMs) }),
    clock
  )
  const { sender } = await start(t, 'third', ok)
  const all = chain([silent, silent, sender].map(each => [{ sender: each, weight: 1 }]))
  t.match(await deliver(all, message(), null, sendMs), { sender: 'third' })
})

t.test('when no sender is left, the outcome is limited only if each one was at its limit', async t => {
  const cases: [first: Doing, second: Doing, outcome: object][] = [
    [limited(30), limited(20), { outcome: 'limited', retryAfterMs: 20_000 }],
    [limited(20), limited(30), { outcome: 'limited', retryAfterMs: 20_000 }],
    [limited(20), failed, { outcome: 'failed', code: 'HTTP_400' }],
    [failed, limited(20), { outcome: 'failed', code: 'HTTP_400' }],
    [failed, unknown, { outcome: 'unknown' }]
  ]
  for (const [first, second, outcome] of cases) {
    const a = await start(t, 'a', first)
    const b = await start(t, 'b', second)
    const both = chain([[{ ...a, weight: 1 }], [{ ...b, weight: 1 }]])
    t.match(await sent(t, both), outcome, JSON.stringify([first, second]))
  }
})

t.test('the sender none at the end of a chain does not change the outcome of those before it', async t => {
  const a = await start(t, 'a', limited(20))
  const both = chain([[{ ...a, weight: 1 }], [{ sender: none, weight: 1 }]])
  t.match(await sent(t, both), { outcome: 'limited', retryAfterMs: 20_000 })
})

for (const SMS_SENDERS of ['aliyun,twilio', 'twilio,aliyun']) {
  t.test(`${SMS_SENDERS}: one that lacks the language does not hide that the other is down`, async t => {
    const { senders } = await openSenders(
      config({ ...credentials, ...nowhere, SMS_SENDERS }),
      clock,
      () => {}
    )
    t.teardown(() => senders.sms.close?.())
    // The last messages come while the breaker is open.
    for (let i = 0; i < 7; i++) {
      const english = await sent(t, senders.sms, message({ locale: 'en' }))
      t.match(english, { outcome: 'failed', ofMessage: false }, `message ${i + 1}`)
    }
    const neither = config({ ...credentials, ...nowhere, SMS_SENDERS: 'aliyun' })
    const alone = await openSenders(neither, clock, () => {})
    t.teardown(() => alone.senders.sms.close?.())
    t.match(await sent(t, alone.senders.sms, message({ locale: 'en' })), { ofMessage: true })
  })
}

t.test('a 452 of a mail server is the outcome limited, also beside an open breaker', async t => {
  const { provider, sender } = await start(t, 'b', failed)
  for (let i = 0; i < 5; i++) await sent(t, sender)
  const mailbox = await startMail(t)
  mailbox.mode = { at: 'rcpt', reply: '452 4.5.3 too many recipients' }
  const { senders } = await openSenders(
    config({ SMTP_URL: mailbox.url, MAIL_FROM: 'a@example.com', MAIL_SENDERS: 'smtp' }),
    clock,
    () => {}
  )
  t.teardown(() => senders.mail.close?.())
  const both = chain([[{ sender: senders.mail, weight: 1 }], [{ sender, weight: 1 }]])
  t.match(await sent(t, both, mail()), { outcome: 'limited', code: '452' })
  t.equal(provider.asked.length, 5)
})

t.test('once the signal has aborted, no other sender is tried', async t => {
  const stop = new AbortController()
  const first: Sender = {
    name: 'first',
    async send() {
      stop.abort()
      throw new SendError('failed', { code: 'E' })
    }
  }
  const { provider, sender } = await start(t, 'b', ok)
  const both = chain([[{ sender: first, weight: 1 }], [{ sender, weight: 1 }]])
  t.match(await sent(t, both, message(), stop.signal), { outcome: 'failed', code: 'E' })
  t.same(asked([provider]), [0])
})

t.test('senders of one step take turns by weight, and stand in for each other', async t => {
  const [step = []] = readChoice('a:3|b')
  const next = turns(step)
  const order = Array.from({ length: 8 }, () =>
    next()
      .map(({ name }) => name)
      .join('')
  )
  t.same(order, ['ab', 'ab', 'ba', 'ab', 'ab', 'ab', 'ba', 'ab'])
  const a = await start(t, 'a', failed)
  const b = await start(t, 'b', ok)
  const both = chain([
    [
      { ...a, weight: 3 },
      { ...b, weight: 1 }
    ]
  ])
  t.match(await sent(t, both), { outcome: 'sent', sender: 'b' })
})

t.test('a breaker opens, tries again after 30 seconds, and closes', async t => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  let now = 0
  const advance = (ms: number) => {
    now += ms
    mock.timers.tick(ms)
  }
  const { provider, sender } = await start(t, 'a', failed, { ...clock, monotonic: () => now })
  for (let i = 0; i < 5; i++) t.match(await sent(t, sender), { outcome: 'failed', code: 'HTTP_400' })
  advance(10_000)
  // A monotonic clock has fractions of milliseconds, retryAfterMs has none.
  now += 0.25
  t.match(await sent(t, sender), { outcome: 'failed', code: 'BREAKER_OPEN', retryAfterMs: 20_000 })
  t.same(asked([provider]), [5])
  advance(OPEN_MS - 10_000)
  t.match(await sent(t, sender), { code: 'HTTP_400' }, 'one message is let through')
  t.match(await sent(t, sender), { code: 'BREAKER_OPEN', retryAfterMs: OPEN_MS })

  advance(OPEN_MS)
  provider.does = 'hang'
  const stop = new AbortController()
  const trial = sent(t, sender, message(), stop.signal)
  t.match(
    await sent(t, sender),
    { code: 'BREAKER_OPEN', retryAfterMs: 1_000 },
    'while the trial is under way'
  )
  stop.abort(new SendError('unknown', { code: 'TIMED_OUT' }))
  t.match(await trial, { outcome: 'unknown', code: 'TIMED_OUT' })
  t.match(await sent(t, sender), { code: 'BREAKER_OPEN' })

  advance(OPEN_MS)
  provider.does = ok
  t.match(await sent(t, sender), { outcome: 'sent' })
  t.match(await sent(t, sender), { outcome: 'sent' })
})

t.test('a breaker opens when over half of five or more messages within a minute have failed', async t => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  const opens = async (...doings: Doing[]) => {
    const { provider, sender } = await start(t, 'a', ok)
    for (const does of doings) {
      provider.does = does
      await sent(t, sender)
    }
    provider.does = ok
    return (await sent(t, sender)).outcome !== 'sent'
  }
  const five = <D>(does: D) => Array<D>(5).fill(does)
  t.equal(await opens(...five(failed).slice(1)), false, 'four failures are too few')
  t.equal(await opens(...five(ok), ...five(failed)), false, 'half of the messages failed: too few')
  t.equal(await opens(...five(ok), ...five(failed), failed), true)

  for (const [ms, open] of [
    [50_000, true],
    [60_000, false]
  ] as const) {
    const { sender } = await start(t, 'a', failed)
    for (let i = 0; i < 4; i++) await sent(t, sender)
    mock.timers.tick(ms)
    await sent(t, sender)
    t.match(await sent(t, sender), { code: open ? 'BREAKER_OPEN' : 'HTTP_400' }, `after ${ms} ms`)
  }
})

t.test('messages that an open breaker skips count neither for nor against the provider', async t => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { provider, sender } = await start(t, 'a', failed)
  for (let i = 0; i < 5; i++) await sent(t, sender)
  for (let i = 0; i < 20; i++) t.match(await sent(t, sender), { code: 'BREAKER_OPEN' })
  mock.timers.tick(OPEN_MS)
  provider.does = limited(1)
  t.match(await sent(t, sender), { outcome: 'limited' }, 'a limit of the provider closes the breaker')
  provider.does = failed
  t.match(await sent(t, sender), { code: 'HTTP_400' })
  t.match(await sent(t, sender), { code: 'BREAKER_OPEN' }, 'six of seven have failed within the minute')
})

t.test('a breaker has no time-out of its own', async t => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  let finish = () => {}
  const slow = guarded(
    {
      name: 'slow',
      send: () => new Promise(resolve => (finish = () => resolve({ sender: 'slow' })))
    },
    clock
  )
  t.teardown(() => slow.close?.())
  const sending = sent(t, slow)
  mock.timers.tick(25_000)
  finish()
  t.match(await sending, { outcome: 'sent' })
})

t.test('closing a chain closes every sender, and nothing is sent afterwards', async t => {
  const calls: string[] = []
  const link = (name: string) => {
    const sender: Sender = {
      name,
      async send() {
        calls.push(`send ${name}`)
        return { sender: name }
      },
      close: () => void calls.push(`close ${name}`)
    }
    return { sender: guarded(sender, clock), weight: 1 }
  }
  const all = chain([[link('a'), link('b')], [link('c')]])
  await all.close?.()
  t.same(calls.toSorted(), ['close a', 'close b', 'close c'])
  t.match(await sent(t, all), { outcome: 'failed' })
  t.equal(calls.length, 3)
})

t.test('a resend tries the sender of the message before after all others', async t => {
  const calls: string[] = []
  const failing = new Set<string>()
  const link = (name: string, weight = 1) => ({
    weight,
    sender: {
      name,
      async send() {
        calls.push(name)
        if (failing.has(name)) throw new SendError('failed')
        return { sender: name }
      }
    }
  })
  const tried = async (all: Sender, formerSender?: string) => {
    calls.length = 0
    await sent(t, all, message(formerSender === undefined ? {} : { formerSender }))
    return calls.join()
  }
  const steps = [[link('a')], [link('b')], [link('c')]]
  const all = chain(steps)
  const expected = [
    [undefined, 'a', 'a,b,c'],
    ['a', 'b', 'b,c,a'],
    ['b', 'a', 'a,c,b'],
    ['c', 'a', 'a,b,c'],
    ['gone', 'a', 'a,b,c']
  ] as const
  for (const [former, first] of expected) t.equal(await tried(all, former), first, `after ${former}`)
  for (const name of 'abc') failing.add(name)
  for (const [former, , every] of expected) t.equal(await tried(all, former), every, `after ${former}`)
  t.equal(await tried(chain(steps, false), 'a'), 'a,b,c', 'unless resends keep to the order')
  t.equal(await tried(chain([[link('a')]]), 'a'), 'a', 'if there is no other')
  failing.clear()
  const shared = chain([[link('a', 3), link('b')]])
  for (let i = 0; i < 8; i++) t.equal(await tried(shared, 'a'), 'b', 'whatever their weights')
})

t.test('unknown outcomes open a breaker; limits, refusals and faults of a message do not', async t => {
  for (const [does, last] of [
    [limited(1), 'HTTP_429'],
    [refused, 'HTTP_422'],
    [unknown, 'BREAKER_OPEN'],
    ['break', 'BREAKER_OPEN']
  ] as const) {
    const { sender } = await start(t, 'a', does)
    for (let i = 0; i < 10; i++) await sent(t, sender)
    t.match(await sent(t, sender), { code: last }, JSON.stringify(does))
  }
  for (const details of [{ code: 'LOCK_LOST' }, { code: 'X', ofMessage: true }]) {
    const a = guarded(
      {
        name: 'a',
        async send() {
          throw new SendError('failed', details)
        }
      },
      clock
    )
    t.teardown(() => a.close?.())
    for (let i = 0; i < 10; i++) t.match(await sent(t, a), details)
    const b = await start(t, 'b', ok)
    const both = chain([[{ sender: a, weight: 1 }], [{ ...b, weight: 1 }]])
    t.match(await sent(t, both), { outcome: 'sent', sender: 'b' }, 'the next sender is tried')
  }
})

t.test('a message that a provider has no template for counts neither for nor against it', async t => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  const provider = await startProvider(t, { status: 400, body: { Code: 'SignatureDoesNotMatch' } })
  const env = { ...aliyun, ALIYUN_ENDPOINT: provider.url, SMS_SENDERS: 'aliyun' }
  const { senders } = await openSenders(config(env), clock, () => {})
  t.teardown(() => senders.sms.close?.())
  const codeless = message({ locale: 'en' })
  for (let i = 0; i < 5; i++) {
    t.match(await sent(t, senders.sms, codeless), { code: 'TEMPLATE_UNKNOWN', ofMessage: true })
    t.match(await sent(t, senders.sms), { code: 'SignatureDoesNotMatch' })
  }
  t.match(await sent(t, senders.sms), { code: 'BREAKER_OPEN' })
  mock.timers.tick(OPEN_MS)
  t.match(
    await sent(t, senders.sms, codeless),
    { code: 'TEMPLATE_UNKNOWN' },
    'such a message is not the trial of the breaker'
  )
  t.match(await sent(t, senders.sms), { code: 'SignatureDoesNotMatch' })
  t.match(await sent(t, senders.sms), { code: 'BREAKER_OPEN' })
})

t.test('recipients that a mail server defers do not open the breaker', async t => {
  const mailbox = await startMail(t)
  mailbox.mode = { at: 'rcpt', reply: '450 4.1.2 domain not found' }
  const { senders } = await openSenders(
    config({ SMTP_URL: mailbox.url, MAIL_FROM: 'shop@example.com' }),
    clock,
    () => {}
  )
  t.teardown(() => senders.mail.close?.())
  for (let i = 0; i < 10; i++)
    t.match(await sent(t, senders.mail, mail()), { outcome: 'failed', code: '450' })
  mailbox.mode = 'accept'
  t.match(await sent(t, senders.mail, mail()), { outcome: 'sent' })
})

t.test('an open breaker passes on; when all are open, the outcome says when to try again', async t => {
  const a = await start(t, 'a', failed)
  const b = await start(t, 'b', failed)
  const both = chain([[{ ...a, weight: 1 }], [{ ...b, weight: 1 }]])
  for (let i = 0; i < 5; i++) await sent(t, a.sender)
  b.provider.does = ok
  t.match(await sent(t, both), { outcome: 'sent', sender: 'b' })
  b.provider.does = limited(20)
  t.match(await sent(t, both), { outcome: 'limited', retryAfterMs: 20_000 })
  await t.rejects(
    both.send(message(), never()),
    { name: 'SendError', sender: 'b' },
    'the error names the sender that is at its limit'
  )
  const reversed = chain([[{ ...b, weight: 1 }], [{ ...a, weight: 1 }]])
  t.match(await sent(t, reversed), { outcome: 'limited', retryAfterMs: 20_000 }, 'whichever sender is first')
  b.provider.does = failed
  for (let i = 0; i < 5; i++) await sent(t, both)
  t.match(await sent(t, both), { outcome: 'failed', code: 'BREAKER_OPEN', retryAfterMs: OPEN_MS })
  t.same(asked([a.provider]), [5])
})

t.test('the signal ends a sender that never answers; any error becomes a SendError', async t => {
  const stop = new AbortController()
  const deaf = guarded({ name: 'deaf', send: () => new Promise(() => {}) }, clock)
  t.teardown(() => deaf.close?.())
  const sending = t.rejects(deaf.send(message(), stop.signal), {
    name: 'SendError',
    sender: 'deaf',
    outcome: 'unknown',
    code: 'LOCK_LOST'
  })
  stop.abort(new SendError('unknown', { code: 'LOCK_LOST' }))
  await sending
  const knowing = guarded(
    {
      name: 'knowing',
      send: (_message, signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => setImmediate(reject, new SendError('failed')))
        })
    },
    clock
  )
  t.teardown(() => knowing.close?.())
  const again = new AbortController()
  const known = sent(t, knowing, message(), again.signal)
  again.abort(new SendError('unknown', { code: 'TIMED_OUT' }))
  t.match(
    await known,
    { outcome: 'failed', code: 'TIMED_OUT' },
    'a sender that knows that nothing has left says failed'
  )
  const odd = guarded(
    {
      name: 'odd',
      async send() {
        throw new TypeError('+8613800138000 is no function')
      }
    },
    clock
  )
  t.teardown(() => odd.close?.())
  await t.rejects(odd.send(message(), never()), {
    name: 'SendError',
    message: 'odd: failed (TypeError)',
    sender: 'odd'
  })
})

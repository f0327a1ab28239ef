import t from 'tap'
import { smtp } from '../../../app/senders/smtp.js'
import { gate } from '../../helper/gate.js'
import { timersByHand } from '../../helper/timers-by-hand.js'
import { until } from '../../helper/until.js'
import { type Mailbox, startMail } from '../smtp.js'
import { clock, config, first, mail, production, sent, startSilence } from './servers.js'

async function open(t: Parameters<typeof startMail>[0], url: string, more = {}) {
  const sender = await smtp.open(
    config({ SMTP_URL: url, MAIL_FROM: 'Shop <shop@example.com>', ...more }),
    clock
  )
  t.teardown(() => sender.close?.())
  return sender
}

t.test('a mail arrives with sender, subject, text and HTML, and the connection is kept', async t => {
  const mailbox = await startMail(t)
  const sender = await open(t, mailbox.url)
  t.match(await sent(t, sender, mail()), {
    outcome: 'sent',
    sender: 'smtp',
    reference: /^<.*@example\.com>$/
  })
  const { to, raw } = first(mailbox.received)
  t.same(to, ['jane@example.com'])
  t.match(raw, /^From: Shop <shop@example\.com>\r$/m)
  t.match(raw, /^Subject: Your code\r$/m)
  t.match(raw, /^Auto-Submitted: auto-generated\r$/m)
  t.match(raw, /^Content-Type: multipart\/alternative;/m)
  t.match(raw, /042137 is your code[\s\S]*<p>042137<\/p>/)
  await sent(t, sender, {
    channel: 'mail',
    to: 'b@example.com',
    text: 'a',
    template: '',
    locale: 'en',
    params: {}
  })
  t.match(mailbox.received[1]?.raw, /^Content-Type: text\/plain/m)
  t.equal(mailbox.connections, 1, 'the connection is kept')
})

const cases: [mode: Mailbox['mode'], outcome: object][] = [
  [
    { at: 'rcpt', reply: '550 5.1.1 no such mailbox: jane@example.com' },
    { outcome: 'refused', code: '550' }
  ],
  [
    { at: 'rcpt', reply: '553 bad address' },
    { outcome: 'refused', code: '553' }
  ],
  [
    { at: 'rcpt', reply: '500 address too long' },
    { outcome: 'refused', code: '500' }
  ],
  [
    { at: 'rcpt', reply: '501 5.1.3 bad address' },
    { outcome: 'refused', code: '501' }
  ],
  [
    { at: 'rcpt', reply: '550 5.7.1 relaying denied' },
    { outcome: 'failed', code: '550' }
  ],
  [
    { at: 'rcpt', reply: '450 4.7.1 too many messages' },
    { outcome: 'limited', code: '450' }
  ],
  [
    { at: 'rcpt', reply: '452 4.5.3 too many recipients' },
    { outcome: 'limited', code: '452' }
  ],
  [
    { at: 'rcpt', reply: '450 4.1.2 domain not found' },
    { outcome: 'failed', code: '450', ofMessage: true }
  ],
  [
    { at: 'rcpt', reply: '451 local error' },
    { outcome: 'failed', code: '451', ofMessage: true }
  ],
  [
    { at: 'rcpt', reply: '421 closing' },
    { outcome: 'failed', code: '421', ofMessage: false }
  ],
  ...(
    [
      ['554 5.6.0 content refused', true],
      ['552 5.3.4 too big', true],
      ['451 4.6.1 try without', true],
      ['554 transaction failed', false],
      ['554 5.7.1 spam', false],
      ['554 5.3.0 no room', false]
    ] as const
  ).map(([reply, ofMessage]): [Mailbox['mode'], object] => [
    { at: 'data', reply },
    { outcome: 'failed', code: reply.slice(0, 3), ofMessage }
  ]),
  [
    { at: 'data', reply: '451 4.7.0 slow down' },
    { outcome: 'limited', code: '451' }
  ],
  [
    { at: 'data', reply: '454 Throttling failure: Maximum sending rate exceeded.' },
    { outcome: 'limited', code: '454' }
  ],
  [
    { at: 'data', reply: '454 4.7.0 temporary authentication failure' },
    { outcome: 'failed', code: '454', ofMessage: false }
  ],
  [
    { at: 'data', reply: '550 5.4.5 Daily user sending limit exceeded.' },
    { outcome: 'limited', code: '550' }
  ],
  ...['550 5.1.1 no such mailbox', '550 5.1.10 RESOLVER.ADR.RecipientNotFound', '552 5.2.2 full'].map(
    (reply): [Mailbox['mode'], object] => [{ at: 'data', reply }, { outcome: 'refused' }]
  ),
  [
    { at: 'data', reply: '450 4.2.1 mailbox busy' },
    { outcome: 'failed', code: '450', ofMessage: true }
  ],
  [
    { at: 'data', reply: "550 5.1.8 bad sender's mailbox address" },
    { outcome: 'failed', code: '550', ofMessage: false }
  ],
  [
    { at: 'greeting', reply: '421 4.7.0 too many connections' },
    { outcome: 'limited', code: '421' }
  ],
  [
    { at: 'greeting', reply: '421 closing' },
    { outcome: 'failed', code: '421' }
  ],
  [
    { at: 'greeting', reply: '554 no service' },
    { outcome: 'failed', code: '554' }
  ],
  // An answer to something else: neither takes the message nor refuses it.
  [
    { at: 'data', reply: '354 go on' },
    { outcome: 'unknown', code: '354' }
  ],
  [{ at: 'rcpt', reply: '999 what' }, { outcome: 'failed' }],
  ['break-early', { outcome: 'failed' }],
  ['break', { outcome: 'unknown' }]
]
for (const [mode, outcome] of cases) {
  t.test(`the outcome where the server has the mode ${JSON.stringify(mode)}`, async t => {
    const mailbox = await startMail(t)
    mailbox.mode = mode
    t.match(await sent(t, await open(t, mailbox.url), mail()), outcome)
    t.ok(mailbox.received.length <= 1, 'the message is not sent again')
  })
}

t.test('a server without pipelining that closes at the recipient makes the outcome failed', async t => {
  const mailbox = await startMail(t, 'off', { hidePIPELINING: true })
  mailbox.mode = { at: 'rcpt', reply: '421 closing' }
  t.match(await sent(t, await open(t, mailbox.url), mail()), {
    outcome: 'failed',
    code: '421',
    ofMessage: false
  })
})

t.test('a refusal counts although the server then closes, and answers to no DATA', async t => {
  for (const [replies, outcome] of [
    [['250 ok', '550 5.1.1 no such mailbox'], { outcome: 'refused', code: '550' }],
    [['250 ok', '450 4.7.1 greylisted'], { outcome: 'limited', code: '450' }],
    [['250 ok', '451 greylisted'], { outcome: 'failed', code: '451', ofMessage: true }],
    [['550 no mail from you', '503 sender first'], { outcome: 'failed', code: '550', ofMessage: false }]
  ] as const) {
    const address = await startSilence(t, socket => {
      socket.write('220 mx.example.com\r\n')
      socket.on('data', chunk => {
        if (/^EHLO/.test(String(chunk))) socket.write('250-mx.example.com\r\n250 PIPELINING\r\n')
        else socket.end(`${replies.join('\r\n')}\r\n`)
      })
    })
    t.match(await sent(t, await open(t, `smtp://${address}`), mail()), outcome)
  }
})

for (const kept of [false, true]) {
  t.test(`on a ${kept ? 'kept' : 'new'} connection a message that is leaving is not sent again`, async t => {
    for (const [mode, outcome] of [
      ['hang-early', 'failed'],
      ['hang', 'unknown'],
      ['break', 'unknown']
    ] as const) {
      const mailbox = await startMail(t)
      const sender = await open(t, mailbox.url)
      if (kept) await sent(t, sender, mail())
      const before = mailbox.received.length
      mailbox.mode = mode
      const stop = new AbortController()
      const arrived = mailbox.next()
      const sending = sent(t, sender, mail(), stop.signal)
      await arrived
      if (mode !== 'break') stop.abort()
      t.match(await sending, { outcome, ...(mode !== 'break' && { code: 'EABORT' }) }, mode)
      t.equal(mailbox.received.length, before + (mode === 'hang-early' ? 0 : 1))
    }
  })
}

t.test('a server that hangs is given up, and the outcome is unknown', async t => {
  const mailbox = await startMail(t)
  mailbox.mode = 'hang'
  // On a machine so slow that the time is over before the message has arrived, once more with a longer one.
  for (const SEND_TIMEOUT of ['3000', '10000', '25000']) {
    const sender = await open(t, mailbox.url, { SEND_TIMEOUT })
    const outcome = await sent(t, sender, mail())
    if (mailbox.received.length === 0) continue
    t.match(outcome, { outcome: 'unknown', code: 'ETIMEDOUT' })
    return
  }
  t.fail('no message has arrived')
})

t.test('a message is sent although the server has ended the kept connection', async t => {
  const mailbox = await startMail(t)
  const sender = await open(t, mailbox.url)
  await sent(t, sender, mail())
  mailbox.drop()
  t.match(await sent(t, sender, mail()), { outcome: 'sent' })
  t.equal(mailbox.received.length, 2)
})

t.test('a message is sent although all kept connections have had their last message', async t => {
  const used = new Set<string>()
  const mailbox = await startMail(t, 'off', {
    onMailFrom(_address, { id }, callback) {
      const full = Object.assign(new Error('4.7.0 too many messages in this connection'), {
        responseCode: 421
      })
      callback(used.has(id) ? full : null)
      used.add(id)
    }
  })
  const sender = await open(t, mailbox.url)
  await Promise.all(Array.from({ length: 5 }, () => sent(t, sender, mail())))
  t.equal(mailbox.connections, 5)
  t.match(await sent(t, sender, mail()), { outcome: 'sent' })
  t.equal(mailbox.received.length, 6)
})

t.test('a server that never greets is given up, and nothing was sent', { timeout: 30_000 }, async t => {
  for (const protocol of ['smtp', 'smtps']) {
    const sender = await open(t, `${protocol}://${await startSilence(t)}`, { SEND_TIMEOUT: '100' })
    t.match(await sent(t, sender, mail()), { outcome: 'failed', code: 'ETIMEDOUT' }, protocol)
  }
})

t.test('a server that falls silent before a message is given up in time for the next sender', async t => {
  // Four fifths of SEND_TIMEOUT, which end when the server has the recipient, however long that takes.
  const end = timersByHand(t, 20_000)
  for (const kept of [false, true]) {
    const mailbox = await startMail(t)
    const sender = await open(t, mailbox.url, { SEND_TIMEOUT: '25000' })
    if (kept) await sent(t, sender, mail())
    mailbox.mode = 'hang-early'
    const stop = new AbortController()
    const arrived = mailbox.next()
    const sending = sent(t, sender, mail(), stop.signal)
    await arrived
    end()
    stop.abort()
    t.match(await sending, { outcome: 'failed', code: 'ETIMEDOUT' }, kept ? 'kept' : 'new')
  }
})

t.test('messages that wait for a connection are given up in time for the next sender', async t => {
  // Three fifths of SEND_TIMEOUT, which end when all connections are in use, however long that takes.
  const end = timersByHand(t, 15_000)
  const stop = new AbortController()
  let ended = 0
  const many = async (url: string) => {
    const sender = await open(t, url, { SEND_TIMEOUT: '25000' })
    return Array.from({ length: 16 }, () => sent(t, sender, mail(), stop.signal).finally(() => ended++))
  }
  let connections = 0
  const silent = await many(`smtp://${await startSilence(t, () => connections++)}`)
  await until(() => connections === 5, 'five connections')
  end()
  for (const each of await Promise.all(silent)) t.match(each, { outcome: 'failed', code: 'ETIMEDOUT' })
  const mailbox = await startMail(t)
  mailbox.mode = 'hang'
  const begun = await many(mailbox.url)
  await until(() => mailbox.received.length === 5, 'five messages')
  end()
  await until(() => ended === 16 + 11, 'the end of those that wait')
  stop.abort()
  const outcomes = await Promise.all(begun)
  t.equal(mailbox.received.length, 5)
  t.equal(outcomes.filter(({ outcome }) => outcome === 'unknown').length, 5)
  t.equal(outcomes.filter(({ code, outcome }) => outcome === 'failed' && code === 'ETIMEDOUT').length, 11)
})

t.test('a message that waited too long to be sent in time is not begun', async t => {
  // Three fifths of SEND_TIMEOUT, which end when all connections are in use, however long that takes.
  const [SEND_TIMEOUT, WAIT_MS] = ['25000', 15_000]
  const end = timersByHand(t, WAIT_MS)
  const free = gate()
  let asked = 0
  const mailbox = await startMail(t, 'off', {
    onMailFrom(_address, _session, callback) {
      asked++
      void free.opened.then(() => callback())
    }
  })
  const sender = await open(t, mailbox.url, { SEND_TIMEOUT })
  let ended = 0
  const all = Array.from({ length: 20 }, () => sent(t, sender, mail()).finally(() => ended++))
  await until(() => asked === 5, 'five messages that were begun')
  end()
  await until(() => ended === 15, 'the end of those that wait')
  free.open()
  const outcomes = await Promise.all(all)
  t.equal(outcomes.filter(({ outcome }) => outcome === 'sent').length, 5)
  t.equal(outcomes.filter(({ code, outcome }) => outcome === 'failed' && code === 'ETIMEDOUT').length, 15)
  // It would come after those that waited.
  t.match(await sent(t, sender, mail()), { outcome: 'sent' })
  t.equal(asked, 6)
  t.equal(mailbox.received.length, 6)
  t.equal(mailbox.connections, 5)
})

t.test(
  'without SMTPUTF8, a refusal of the data for a mailbox beyond ASCII is a fault of the message',
  async t => {
    const mailbox = await startMail(t, 'off', { hideSMTPUTF8: true })
    const sender = await open(t, mailbox.url)
    mailbox.mode = {
      at: 'data',
      reply: '554 Transaction failed: Local address contains control or whitespace'
    }
    for (const [to, ofMessage] of [
      ['jürgen@example.com', true],
      ['jane@bücher.example', false]
    ] as const)
      t.match(await sent(t, sender, { ...mail(), to }), { outcome: 'failed', code: '554', ofMessage })
  }
)

t.test('a subject that looks encoded arrives as it is, and no line of it is too long', async t => {
  const mailbox = await startMail(t)
  const sender = await open(t, mailbox.url)
  const LONG = 'to a subject that is longer than one line of a mail may be at most'
  for (const subject of [
    // Mail programs would show a link, or another direction.
    `Welcome, =?utf-8?b?aHR0cDovL2V2aWwuZXhhbXBsZS9h?= and 😀 ${LONG}`,
    `Welcome, =?utf-8?q?evil=E2=80=AE?= and 😀 ${LONG}`,
    // There is nowhere to break it, and a server may refuse a line of more than 998 characters.
    `Welcome, ${'x'.repeat(1_000)}`
  ]) {
    await sent(t, sender, { ...mail(), subject })
    const [, value = ''] = /^Subject: (.*(?:\r\n .*)*)\r$/m.exec(mailbox.received.at(-1)?.raw ?? '') ?? []
    const words = value.split('\r\n ')
    for (const each of words) t.match(each, /^=\?utf-8\?B\?[A-Za-z0-9+/=]{4,60}\?=$/)
    t.equal(words.map(each => Buffer.from(each.slice(10, -2), 'base64').toString()).join(''), subject)
  }
})

t.test('an address that holds two, or angle brackets, is not sent to', async t => {
  const mailbox = await startMail(t)
  const sender = await open(t, mailbox.url)
  const two = await sent(t, sender, mail({ to: 'one@example.com, other@example.com' }))
  t.not(two.outcome, 'sent')
  for (const to of ['"one<two"@example.com', '"one>two"@example.com'])
    t.match(await sent(t, sender, mail({ to })), { outcome: 'refused', code: 'EENVELOPE' }, to)
  t.same(mailbox.received, [])
})

t.test('a closed sender sends nothing', async t => {
  const mailbox = await startMail(t)
  const sender = await open(t, mailbox.url)
  await sent(t, sender, mail())
  await sender.close?.()
  t.match(await sent(t, sender, mail()), { outcome: 'failed' })
  t.equal(mailbox.received.length, 1)
})

/** Accepts the certificates of these tests meanwhile, which nobody has signed. */
async function trusting<T>(task: () => Promise<T>): Promise<T> {
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  try {
    return await task()
  } finally {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
  }
}

t.test('without a server, or with a wrong password, the outcome is failed', async t => {
  t.match(await sent(t, await open(t, 'smtp://127.0.0.1:1'), mail()), { outcome: 'failed' })
  t.match(await sent(t, await open(t, 'smtp://no-such.invalid'), mail()), { outcome: 'failed' })
  const { url } = await startMail(t, 'implicit')
  const withPassword = url.replace('//', '//user:wrong@')
  t.match(await trusting(async () => sent(t, await open(t, withPassword), mail())), {
    outcome: 'failed',
    code: '535'
  })
})

t.test('mail that requires TLS is sent over TLS alone, and with a valid certificate', async t => {
  const plain = await startMail(t)
  for (const env of [{ SMTP_TLS: 'required' }, production]) {
    t.match(
      await sent(t, await open(t, plain.url, env), mail()),
      { outcome: 'failed' },
      'the server offers no TLS'
    )
  }
  t.same(plain.received, [])
  for (const tls of ['starttls', 'implicit'] as const) {
    const mailbox = await startMail(t, tls)
    const strict = await open(t, mailbox.url, { SMTP_TLS: 'required' })
    t.match(await sent(t, strict, mail()), { outcome: 'failed' }, `${tls}: nobody has signed the certificate`)
    const sender = await open(t, mailbox.url, { SMTP_TLS: 'required' })
    t.match(await trusting(() => sent(t, sender, mail())), { outcome: 'sent' }, tls)
    t.equal(mailbox.received.length, 1)
  }
})

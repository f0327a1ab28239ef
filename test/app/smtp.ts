import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import type { Test } from 'tap'

/** What the server answers instead of accepting, as in `{ at: 'rcpt', reply: '550 5.1.1 no such mailbox' }`. */
interface Reply {
  at: 'greeting' | 'rcpt' | 'data'
  reply: string
}

export interface Mailbox {
  url: string
  /** Raw messages that have come whole, taken or not, with the addresses of their envelopes. */
  received: { to: string[]; raw: string }[]
  /** Resolves when the first message has arrived. */
  arrived: Promise<void>
  /** Resolves when the next message has arrived, or its recipient in the modes that end early. */
  next(): Promise<void>
  /** How many connections there have been. */
  connections: number
  /**
   * What the server does with the next messages. `hang` and `break` have the whole message and do not answer;
   * `hang-early` and `break-early` do not answer to the recipient.
   */
  mode: 'accept' | 'refuse' | 'defer' | 'hang' | 'break' | 'hang-early' | 'break-early' | Reply
  /** Takes the messages to which it has not answered in the mode `hang`. */
  release(): void
  /** Ends all connections, as a server does with idle ones. */
  drop(): void
}

const REPLIES: Record<string, Reply> = {
  refuse: { at: 'rcpt', reply: '550 5.1.1 no mail for this recipient' },
  defer: { at: 'rcpt', reply: '451 4.3.0 try again later' }
}

/**
 * Starts a mail server for this test alone.
 * @param tls `off`: does not offer it; `starttls`; `implicit`: from the first byte. Nobody has signed the certificate.
 */
export async function startMail(
  t: Test,
  tls: 'off' | 'starttls' | 'implicit' = 'off',
  more: SMTPServerOptions = {}
): Promise<Mailbox> {
  let arrive = () => {}
  const next = () => new Promise<void>(resolve => (arrive = resolve))
  const hanging: (() => void)[] = []
  const mailbox: Mailbox = {
    url: '',
    received: [],
    arrived: next(),
    next,
    connections: 0,
    mode: 'accept',
    release() {
      for (const take of hanging.splice(0)) take()
    },
    drop
  }
  const refusal = (at: Reply['at']) => {
    const { mode } = mailbox
    const said = typeof mode === 'string' ? REPLIES[mode] : mode
    if (said?.at !== at) return null
    return Object.assign(new Error(said.reply.slice(4)), { responseCode: Number(said.reply.slice(0, 3)) })
  }
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: tls === 'off' ? ['STARTTLS'] : [],
    secure: tls === 'implicit',
    hideENHANCEDSTATUSCODES: true,
    logger: false,
    ...more,
    onConnect(_session, callback) {
      mailbox.connections++
      callback(refusal('greeting'))
    },
    onRcptTo(_address, _session, callback) {
      if (mailbox.mode === 'hang-early') return arrive()
      if (mailbox.mode === 'break-early') return drop()
      callback(refusal('rcpt'))
    },
    onData(stream, session, callback) {
      let raw = ''
      stream.on('data', chunk => (raw += chunk))
      stream.on('end', () => {
        mailbox.received.push({ to: session.envelope.rcptTo.map(each => each.address), raw })
        const hangs = mailbox.mode === 'hang'
        if (hangs) hanging.push(() => callback())
        arrive()
        if (hangs) return
        if (mailbox.mode === 'break') drop()
        else callback(refusal('data'))
      })
    }
  })
  function drop() {
    for (const connection of server.connections) connection.close()
  }
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  const { port } = server.server.address() as AddressInfo
  mailbox.url = `${tls === 'implicit' ? 'smtps' : 'smtp'}://127.0.0.1:${port}`
  return mailbox
}

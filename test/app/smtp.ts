import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'
import type { Test } from 'tap'

export interface Mailbox {
  url: string
  /** Raw messages, with the addresses of their envelopes. */
  received: { to: string[]; raw: string }[]
  /** When the first message is here. */
  arrived: Promise<void>
  /** What the server does with the next messages. */
  mode: 'accept' | 'refuse' | 'defer' | 'hang' | 'break'
}

/** A mail server of this test's own. */
export async function startMail(t: Test): Promise<Mailbox> {
  let arrive = () => {}
  const arrived = new Promise<void>(resolve => (arrive = resolve))
  const mailbox: Mailbox = { url: '', received: [], arrived, mode: 'accept' }
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onRcptTo(address, _session, callback) {
      const responseCode = { refuse: 550, defer: 451 }[mailbox.mode as string]
      if (responseCode === undefined) return callback()
      callback(Object.assign(new Error(`no mail for ${address.address}`), { responseCode }))
    },
    onData(stream, session, callback) {
      let raw = ''
      stream.on('data', chunk => (raw += chunk))
      stream.on('end', () => {
        arrive()
        if (mailbox.mode === 'hang') return
        mailbox.received.push({ to: session.envelope.rcptTo.map(each => each.address), raw })
        if (mailbox.mode === 'accept') callback()
        else for (const connection of server.connections) connection.close()
      })
    }
  })
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  mailbox.url = `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`
  return mailbox
}

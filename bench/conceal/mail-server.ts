// A mail server that takes a message in 30 to 80 ms. Prints its port; ends with its standard input.
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'

const server = new SMTPServer({
  authOptional: true,
  disabledCommands: ['STARTTLS'],
  logger: false,
  onData(stream, _session, callback) {
    stream.resume().on('end', () => setTimeout(callback, 30 + Math.random() * 50))
  }
})
server.on('error', () => {})
server.listen(0, '127.0.0.1', () => console.log((server.server.address() as AddressInfo).port))
process.stdin.resume().on('close', () => process.exit())

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Teardown } from '../helper/teardown.js'

/** What a client sends to a Redis over the wire. */
interface Wire {
  port: number
  /** The commands in the order in which they were sent, each as its words. */
  commands: string[][]
  /** How often a command was sent after everything before it had been answered. */
  waits: number
}

/**
 * A proxy in front of a Redis that records every command.
 * @param delayMs how long answers are held back, so that a command which waits for no answer is sent before them
 */
export async function tapWire(t: Teardown, port: number, delayMs = 0): Promise<Wire> {
  const wire: Wire = { port: 0, commands: [], waits: 0 }
  let answered = true
  const sockets = new Set<Socket>()
  const server = createServer(client => {
    const redis = connect(port, '127.0.0.1')
    for (const socket of [client, redis]) sockets.add(socket.on('error', () => {}))
    const read = reader(wire.commands)
    client.on('data', chunk => {
      if (answered) wire.waits++
      answered = false
      read(chunk)
      redis.write(chunk)
    })
    const answer = (chunk: Buffer) => {
      answered = true
      client.write(chunk)
    }
    redis.on('data', chunk => (delayMs > 0 ? setTimeout(answer, delayMs, chunk) : answer(chunk)))
    client.on('close', () => redis.destroy())
    redis.on('close', () => client.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  wire.port = (server.address() as AddressInfo).port
  return wire
}

/** Commands are arrays of bulk strings: `*2 $3 GET $1 a`, each part with its end of line. */
function reader(commands: string[][]): (chunk: Buffer) => void {
  let rest = ''
  let words: string[] = []
  let missing = 0
  return chunk => {
    rest += chunk.toString('latin1')
    for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
      const length = Number(rest.slice(1, end))
      if (rest[0] === '*') missing = length
      else {
        if (rest.length < end + 2 + length + 2) return
        words.push(rest.slice(end + 2, end + 2 + length))
        end += length + 2
        missing--
      }
      rest = rest.slice(end + 2)
      if (missing === 0) {
        commands.push(words)
        words = []
      }
    }
  }
}

import { type ClientRequestArgs, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Duplex } from 'node:stream'
import { createSecureContext } from 'node:tls'

const MARK = 'not connected: '
/** A provider's answer takes some hundred bytes. SDKs gather all that comes, and unpack it: to a thousand times as much. */
const MAX_ANSWER_BYTES = 65_536

/**
 * Agents that make a connection for each request and mark the error of one that never stood, so that a message that
 * surely was not sent can be told from one that may have been. The mark is in the message: some SDKs keep nothing else.
 * An answer without end ends the connection.
 * @param sendMs how long sending may take in all, in milliseconds; connecting, handshake included, has two fifths of it
 */
export function agents(sendMs: number) {
  const connectMs = sendMs * 0.4
  // Made anew, it would read all root certificates for each connection.
  const secureContext = createSecureContext()
  return {
    http: marked(new HttpAgent(), 'connect', connectMs),
    https: marked(new HttpsAgent({ secureContext }), 'secureConnect', connectMs)
  }
}

/** The code of the error when its connection never stood, so that nothing was sent. */
export function notConnected(error: unknown): string | undefined {
  return new RegExp(`${MARK}(\\w+)`).exec((error as Error).message)?.[1]
}

/** Not by a listener for data: node-fetch takes one that is there at the end for an answer that broke off. */
function limit(socket: Duplex): void {
  const push = socket.push.bind(socket)
  let bytes = 0
  socket.push = (chunk: Buffer | null) => {
    bytes += chunk?.length ?? 0
    if (bytes <= MAX_ANSWER_BYTES) return push(chunk)
    socket.destroy(Object.assign(new Error('the answer is too long'), { code: 'ANSWER_TOO_LONG' }))
    return false
  }
}

function marked<A extends HttpAgent>(agent: A, standing: string, connectMs: number): A {
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options: ClientRequestArgs, callback) => {
    const socket = connect(options, callback) as Duplex
    const mark = (error: Error & { code?: string }) => {
      error.message = `${MARK}${error.code ?? 'ERROR'}`
    }
    const timedOut = Object.assign(new Error(), { code: 'ETIMEDOUT' })
    const timer = setTimeout(() => socket.destroy(timedOut), connectMs)
    socket.prependListener('error', mark)
    socket.once(standing, () => {
      clearTimeout(timer)
      socket.off('error', mark)
    })
    socket.once('close', () => clearTimeout(timer))
    limit(socket)
    return socket
  }
  return agent
}

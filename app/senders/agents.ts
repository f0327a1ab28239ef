import { randomUUID } from 'node:crypto'
import { lookup } from 'node:dns'
import { type ClientRequestArgs, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext } from 'node:tls'

// Random, since the errors of SDKs may quote an answer.
const MARK = `not connected ${randomUUID()}: `
const MARKED = new RegExp(`${MARK}(\\w+)`)
/**
 * Providers' answers have some hundred bytes. SDKs buffer all that comes, and unpack it to up to a thousand times as
 * much.
 */
const MAX_ANSWER_BYTES = 65_536

/**
 * Agents that open a connection for each request. They mark the error of a connection that was never established, so
 * that a message that surely was not sent can be told from one that may have been. The mark is in the error's message,
 * since some SDKs keep nothing else. An answer that is too long ends its connection.
 * @param sendMs how long sending may take in all, in milliseconds; connecting, handshake included, has two fifths of it
 */
export function agents(sendMs: number) {
  const connectMs = sendMs * 0.4
  // Shared: creating one for each connection would read all root certificates each time.
  const secureContext = createSecureContext()
  return {
    http: marked(new HttpAgent({ lookup: sharedLookup }), 'connect', connectMs),
    https: marked(new HttpsAgent({ lookup: sharedLookup, secureContext }), 'secureConnect', connectMs)
  }
}

type Callback = Parameters<LookupFunction>[2]

/** Who waits for each lookup that is under way. */
const waiting = new Map<string, Callback[]>()

/**
 * Looks up a name once for all who ask meanwhile. Node does two lookups at a time, and none can be given up: those of a
 * provider whose name servers are silent would keep the next provider from being found.
 */
const sharedLookup: LookupFunction = (name, options, callback) => {
  const key = JSON.stringify([name, options])
  const others = waiting.get(key)
  if (others !== undefined) return void others.push(callback)
  const all = [callback]
  waiting.set(key, all)
  lookup(name, options, (...answer: Parameters<Callback>) => {
    waiting.delete(key)
    for (const tell of all) tell(...answer)
  })
}

/**
 * The code of an error whose connection was never established, so that nothing was sent; undefined for any other error.
 */
export function notConnected(error: unknown): string | undefined {
  return MARKED.exec((error as Error).message)?.[1]
}

/**
 * Limits how much a socket may receive. It wraps `push` rather than listen for data: if node-fetch finds such a
 * listener at the end, it takes the answer for one that broke off.
 */
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

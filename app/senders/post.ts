import {
  type ClientRequest,
  request as http,
  type IncomingMessage,
  type OutgoingHttpHeaders
} from 'node:http'
import { request as https } from 'node:https'
import { text } from 'node:stream/consumers'
import { agents, notConnected } from './agents.js'
import { SendError } from './sender.js'

interface Post {
  url: URL
  headers: OutgoingHttpHeaders
  body: string
  /** Aborts the request. */
  signal: AbortSignal
}

/** RFC 9110, section 10.1.5. Some firewalls refuse requests that do not say what sends them. */
const USER_AGENT = 'fastify-send-limit'
const NO_ANSWER = { code: 'NO_ANSWER' }

/**
 * Posts without an SDK: one try over a connection of its own, and no redirect is followed.
 * @param protocol the protocol of all URLs, such as `https:`
 * @param sendMs how long sending may take in all, in milliseconds
 * @returns a function that resolves with the head of the answer, whose body must be read by `jsonOf` or destroyed. It
 * throws SendError: `failed` when no connection was established, else `unknown`
 */
export function poster(protocol: string, sendMs: number): (post: Post) => Promise<IncomingMessage> {
  const secure = protocol === 'https:'
  const agent = agents(sendMs)[secure ? 'https' : 'http']
  const request = secure ? https : http
  return ({ url, headers: own, body, signal }) => {
    const headers = { 'user-agent': USER_AGENT, ...own }
    return headOf(request(url, { method: 'POST', agent, signal, headers }), body)
  }
}

function headOf(request: ClientRequest, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on('error', error => {
      const code = notConnected(error)
      reject(code === undefined ? new SendError('unknown', NO_ANSWER) : new SendError('failed', { code }))
    })
    request.on('response', response => resolve(response.on('error', () => {})))
    // Node emits no `response` for a 101.
    request.on('upgrade', response => resolve(response.destroy()))
    request.end(body)
  })
}

/**
 * Reads an answer of JSON. Any member may have any type, since a proxy may have answered.
 * @returns an object, without members when the body is no JSON
 * @throws SendError `unknown` when the body breaks off or is too long
 */
export async function jsonOf<Member extends string>(
  response: IncomingMessage
): Promise<{ [member in Member]?: unknown }> {
  const body = await text(response).catch(() => {
    throw new SendError('unknown', NO_ANSWER)
  })
  try {
    return Object(JSON.parse(body))
  } catch {
    return {}
  }
}

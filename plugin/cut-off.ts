import type { Http2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

type Raw = FastifyReply['raw']

/**
 * For each connection, the functions to call when it closes. They share one listener, since Node warns of more than
 * ten.
 */
const waiting = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls `call` when a reply cannot leave any more, in the cases in which the reply itself never says so. If its HTTP/2
 * stream is closed or its `inject` was aborted, that is at once. If it waits behind another reply on its connection
 * (pipelining, RFC 9112, section 9.3.2), that is when the connection closes.
 */
export function whenCutOff({ raw, request }: FastifyReply, call: () => void): void {
  const stream = streamOf(raw)
  if (stream?.closed || (raw.destroyed && !raw.closed)) return call()
  if (stream) {
    // When the client resets a stream before it has read the answer, Node emits `close` only after the request has been
    // read to its end. Before that it emits `aborted`, if there was more to write.
    if (stream.endAfterHeaders) stream.resume()
    stream.once('aborted', call)
    return
  }
  if (!isQueued(raw)) return
  const { socket } = request.raw
  if (socket.closed) return call()
  const calls = waiting.get(socket) ?? listen(socket)
  const tell = () => {
    if (isQueued(raw)) call()
  }
  calls.add(tell)
  raw.once('close', () => calls.delete(tell))
}

function listen(socket: Socket): Set<() => void> {
  const calls = new Set<() => void>()
  waiting.set(socket, calls)
  socket.once('close', () => {
    for (const call of calls) call()
  })
  return calls
}

/** The stream of an HTTP/2 reply, since the reply itself does not tell whether it is closed. */
function streamOf(raw: Raw): Http2Stream | undefined {
  return (raw as { stream?: Http2Stream }).stream
}

/** Whether the reply waits behind another one for its connection. */
function isQueued(raw: Raw): boolean {
  return raw.socket === null && !raw.writableFinished
}

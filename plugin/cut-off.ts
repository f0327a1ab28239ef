import type { Http2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

type Raw = FastifyReply['raw']

/** Of each connection, whom to call when it closes: one listener for all, since Node warns of more than ten. */
const waiting = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls when a reply cannot leave any more, where the reply itself never says so: at once where its stream of HTTP/2 is
 * closed or its `inject` was aborted; for one that waits behind another on its connection (pipelining, RFC 9112, section
 * 9.3.2) when that closes.
 */
export function whenCutOff({ raw, request }: FastifyReply, call: () => void): void {
  const stream = streamOf(raw)
  if (stream?.closed || (raw.destroyed && !raw.closed)) return call()
  if (stream) {
    // Where the client resets a stream whose answer it has not read, Node emits `close` only when the request has been read to
    // its end; before that it emits `aborted`, if there was more to write.
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

/** Of a reply of HTTP/2, which itself does not tell whether it is closed. */
function streamOf(raw: Raw): Http2Stream | undefined {
  return (raw as { stream?: Http2Stream }).stream
}

/** Whether it waits behind another reply for its connection. */
function isQueued(raw: Raw): boolean {
  return raw.socket === null && !raw.writableFinished
}

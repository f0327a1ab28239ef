import type { Http2Stream } from 'node:http2'
import type { FastifyRequest } from 'fastify'
import { KeyMissingError } from './errors.js'

/**
 * Refuses a request whose connection is gone, and with it the client's address. A client that resets its connection
 * right after the request must not pass for one on a Unix socket, which has no address: rules on addresses would not
 * apply, and the message would go.
 * @throws KeyMissingError
 */
export function refuseHungUp(request: FastifyRequest): void {
  const { socket, stream } = request.raw as { socket?: FastifyRequest['socket']; stream?: Http2Stream }
  // A proxy that is trusted by its position, not by its address, may have named the client's address.
  if (socket?.remoteAddress !== undefined || request.ip !== undefined) return
  // Until Node notices the reset, the connection still has a local port, which a Unix socket never has. Over HTTP/2
  // `socket.destroyed` is that of the stream, which is destroyed later than its connection.
  const destroyed = socket?.destroyed || stream?.session?.socket.destroyed
  if (destroyed || socket?.localPort !== undefined) throw new KeyMissingError('request.ip')
}

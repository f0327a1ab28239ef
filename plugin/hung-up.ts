import type { Http2Stream } from 'node:http2'
import type { FastifyRequest } from 'fastify'
import { KeyMissingError } from './errors.js'

/**
 * The address of a client is asked of its connection, and goes with it. Who resets that right behind the request must not
 * pass for a Unix socket, which has no address: rules on addresses would not apply, and the message would go.
 * @throws KeyMissingError
 */
export function refuseHungUp(request: FastifyRequest): void {
  const { socket, stream } = request.raw as { socket?: FastifyRequest['socket']; stream?: Http2Stream }
  // A proxy that is trusted by its place may have told the client's.
  if (socket?.remoteAddress !== undefined || request.ip !== undefined) return
  // A connection that was reset has a port of its own until that is noticed; a Unix socket never.
  // The `destroyed` of HTTP/2 is that of the stream, which goes after its connection.
  const destroyed = socket?.destroyed || stream?.session?.socket.destroyed
  if (destroyed || socket?.localPort !== undefined) throw new KeyMissingError('request.ip')
}
